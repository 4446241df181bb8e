"""The kernel of a table of classes: candidates compared by rows that a likelihood of classes has not seen.

The Gaussian evidence of one-hot targets prefers functions that bend where classes meet, of which a likelihood of
classes needs none: its logits may be straight lines. So it is not left to choose alone.
"""

from collections.abc import Mapping

import numpy as np

from widetail import sparse
from widetail.kernels import Kernel
from widetail.priors import ScalePrior
from widetail.sparse import TrainingOptions
from widetail.sparse.likelihoods import Likelihood

FOLDS = 4
MOST_ROWS = 400  # that are compared by
FEWEST_ROWS = 20  # with fewer the comparison would be chance
ROUGH = TrainingOptions(residual_share=1.0, tolerance=1e-4, max_iterations=25)


def scores_by_folds(
    candidates: Mapping[str, Kernel],
    prior: ScalePrior,
    likelihood: Likelihood,
    x: np.ndarray,
    y: np.ndarray,
    labels: np.ndarray,
    counts: np.ndarray,
    seed: int,
) -> dict[str, float]:
    """Mean log probability of the labels of left-out rows, in nats, of every candidate.

    Every fold has its share of every class; all rows that it is trained on are inducing inputs.

    Args:
        candidates: by name.
        prior: of the scale.
        likelihood: of classes.
        x: rows in random order, shape (n, d), of which the first few hundred are used.
        y: targets of the likelihood.
        labels: class numbers, shape (n,).
        counts: how often each row was observed.
        seed: of training.
    """
    used = min(len(x), MOST_ROWS) // FOLDS * FOLDS  # folds of one size are compiled once
    fold = np.empty(used, int)
    fold[np.argsort(labels[:used], kind="stable")] = np.arange(used) % FOLDS
    scores = {}
    for name, kernel in candidates.items():
        log_p = np.empty(used)
        for number in range(FOLDS):
            seen, left = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            model = sparse.fit(
                kernel,
                prior,
                likelihood,
                x[seen],
                y[seen],
                inducing=x[seen],
                counts=counts[seen],
                options=ROUGH,
                is_shuffled=True,
                seed=seed,
            )
            p = model.class_probabilities(x[left], seed=seed).probabilities
            log_p[left] = np.log(np.maximum(p[np.arange(len(left)), labels[left]], np.finfo(np.float64).tiny))
        scores[name] = float(np.average(log_p, weights=counts[:used]))
    return scores
