"""Learning the parameters of a likelihood by empirical Bayes."""

from typing import Any

import numpy as np
import scipy.optimize

from widetail.sparse._parameters import logs_of, with_logs
from widetail.sparse._rows import values
from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Likelihood
from widetail.sparse.training._natural import Ascent

LARGEST_STEP = 1.0  # of the logarithm
MOST_ROWS = 16_384


def improved_likelihood(ascent: Ascent, q: Variational, likelihood: Likelihood, variance: np.ndarray) -> Likelihood:
    """The parameters with the largest expected log likelihood under q, within a factor of the current ones."""
    names = likelihood.learnable
    if not names:
        return likelihood
    rows = ascent.rows.first(MOST_ROWS)
    factor = ascent.rows.observations / rows.observations if len(rows) else 1.0
    variance, nodes = variance[: len(rows)], ascent.nodes(q, likelihood)
    start = logs_of(likelihood)

    def loss(logs: np.ndarray) -> float:
        own = with_logs(likelihood, logs)
        return -factor * values(rows, q.mean, variance, own, nodes) - ascent.memory.value(q, own)

    if len(names) == 1:
        bounds = (start[0] - LARGEST_STEP, start[0] + LARGEST_STEP)
        found: Any = scipy.optimize.minimize_scalar(
            lambda log: loss(np.array([log])), bounds=bounds, method="bounded", options={"xatol": 1e-3}
        )
        return with_logs(likelihood, np.array([found.x]))
    found = scipy.optimize.minimize(
        loss,
        start,
        method="L-BFGS-B",
        bounds=[(value - LARGEST_STEP, value + LARGEST_STEP) for value in start],
        options={"eps": 1e-3, "maxiter": 10},
    )
    return with_logs(likelihood, found.x) if found.fun < loss(start) else likelihood
