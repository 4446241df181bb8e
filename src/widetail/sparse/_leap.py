"""Long steps of the scale, along which covariances and noise follow.

Coordinate by coordinate the scale creeps, a tenth of what is left in every iteration: with the covariances as they are,
a larger one is a worse fit, and with the scale as it is they stay where they are. Three iterations tell where such a
sequence is going (Aitken's extrapolation). Iterations go on from there until they settle by themselves, so that a leap
changes how soon training ends and not where.
"""

import numpy as np

from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Likelihood

SHORTEST_LEAP, LONGEST_LEAP = 1e-3, 2.0  # of the logarithm
SLOWEST = 0.95  # beyond this ratio of two steps, what is left of the sequence is a guess


def length_of_leap(log_scales: list[float], slowest: float = SLOWEST) -> float:
    """How far the limit of a sequence lies beyond its last element, from the last three; 0 where it does not settle."""
    if len(log_scales) < 3:
        return 0.0
    before, last = np.diff(log_scales[-3:])
    if not 0 < last * before < before**2:
        return 0.0
    ratio = min(float(last / before), slowest)
    length = float(np.clip(last * ratio / (1 - ratio), -LONGEST_LEAP, LONGEST_LEAP))
    return length if abs(length) > SHORTEST_LEAP else 0.0


def leap(
    q: Variational, likelihood: Likelihood, length: float, *, learn_likelihood: bool
) -> tuple[Variational, Likelihood]:
    """Posterior and likelihood with a scale that is exp(`length`) times as large, and what is known of y the same.

    The same objects where that cannot be: the scale is held, or at the edge of its grid.
    """
    law = q.law.scaled(float(np.exp(length)))
    factor = q.law.mean_precision / law.mean_precision
    if abs(np.log(factor)) < SHORTEST_LEAP:
        return q, likelihood
    following = likelihood.under_scale(factor)
    if following is not likelihood and not (learn_likelihood and likelihood.learnable):
        return q.with_law(law), likelihood  # noise inside of the scale: the covariances do not depend on it
    eye = np.eye(q.mean.shape[1])
    try:
        return q.with_law(law).with_precision(eye + factor * (q.precision - eye)), following
    except np.linalg.LinAlgError:  # log densities that are not concave
        return q, likelihood
