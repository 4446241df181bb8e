"""Extrapolation of the scale to where its iterations converge; covariances and noise change with it.

Updated one after the other, the scale and the covariances converge slowly: each iteration covers a tenth of the
remaining distance, because the best scale depends on the covariances and these on the scale. Aitken's formula
extrapolates the limit from three iterations. Training continues from there until it converges as before, so
extrapolation changes how soon training ends, not where.
"""

import numpy as np

from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Likelihood

SHORTEST, LONGEST = 1e-3, 2.0  # step of the logarithm
SLOWEST = 0.95  # the ratio of two steps is taken to be at most this: closer to 1 the limit is a guess


def extrapolation(log_scales: list[float], slowest: float = SLOWEST) -> float:
    """The distance from the last element of a sequence to its limit, by its last three; 0 if it does not converge."""
    if len(log_scales) < 3:
        return 0.0
    before, last = np.diff(log_scales[-3:])
    if not 0 < last * before < before**2:
        return 0.0
    ratio = min(float(last / before), slowest)
    length = float(np.clip(last * ratio / (1 - ratio), -LONGEST, LONGEST))
    return length if abs(length) > SHORTEST else 0.0


def extrapolate(
    q: Variational, likelihood: Likelihood, length: float, *, learn_likelihood: bool
) -> tuple[Variational, Likelihood]:
    """Posterior and likelihood with the scale multiplied by exp(`length`), and what is known about y unchanged.

    Returns the objects it was given where the scale cannot move: it is held, or at the edge of its grid.
    """
    law = q.law.scaled(float(np.exp(length)))
    factor = q.law.mean_precision / law.mean_precision
    if abs(np.log(factor)) < SHORTEST:
        return q, likelihood
    following = likelihood.under_scale(factor)
    if following is not likelihood and not (learn_likelihood and likelihood.learnable):
        return q.with_law(law), likelihood  # noise inside of the scale: the covariances do not depend on it
    eye = np.eye(q.mean.shape[1])
    try:
        return q.with_law(law).with_precision(eye + factor * (q.precision - eye)), following
    except np.linalg.LinAlgError:  # log densities that are not concave
        return q, likelihood
