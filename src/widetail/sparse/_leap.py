"""Long steps of the scale, along which covariances and noise follow.

Coordinate by coordinate the scale creeps, a tenth of what is left in every iteration: with the covariances as they are,
a larger one is a worse fit, and with the scale as it is they stay where they are. Three iterations tell where such a
sequence is going (Aitken's extrapolation). A leap changes how soon training ends, not where.
"""

import numpy as np

from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Likelihood

LONGEST_LEAP = 2.0  # of the logarithm
SLOWEST = 0.95  # beyond this ratio of two steps, what is left of the sequence is a guess


def length_of_leap(log_scales: list[float]) -> float:
    """How far the limit of a sequence lies beyond its last element, from the last three; 0 where it does not settle."""
    if len(log_scales) < 3:
        return 0.0
    before, last = np.diff(log_scales[-3:])
    if not 0 < last * before < before**2:
        return 0.0
    ratio = min(float(last / before), SLOWEST)
    return float(np.clip(last * ratio / (1 - ratio), -LONGEST_LEAP, LONGEST_LEAP))


def leap(
    q: Variational, likelihood: Likelihood, length: float, *, learn_likelihood: bool
) -> tuple[Variational, Likelihood]:
    """Posterior and likelihood with a scale that is exp(`length`) times as large and what is known of y the same."""
    factor = float(np.exp(length))
    law = q.law.scaled(factor)
    if law is q.law:
        return q, likelihood
    eye = np.eye(q.mean.shape[1])
    moved = q.with_law(law).with_precision(eye + factor * (q.precision - eye))
    return moved, likelihood.under_scale(factor) if learn_likelihood else likelihood
