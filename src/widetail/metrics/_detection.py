"""Telling points of the training distribution from others."""

import numpy as np
from jaxtyping import Float, Float64, Real
from scipy.stats import rankdata

from widetail.metrics._inputs import Array, real_array


def auroc(scores_in: Real[Array, " n"], scores_out: Real[Array, " m"]) -> float:
    """Area under the ROC curve of a score that should be higher out of distribution.

    The probability that a random point of `scores_out` scores higher than a random point of `scores_in`,
    equal scores counting one half: 1 is perfect, 0.5 is guessing. Without unit; any increasing function of
    the score gives the same value. For a confidence, which falls out of distribution, pass it with a minus
    sign.
    """
    inside, outside = real_array("scores_in", scores_in), real_array("scores_out", scores_out)
    if inside.ndim != 1 or outside.ndim != 1:
        raise ValueError(
            f"scores_in and scores_out must hold one score per point, got shapes {inside.shape} and {outside.shape}."
        )
    ranks = rankdata(np.concatenate([inside, outside]))
    wins = ranks[inside.size :].sum() - outside.size * (outside.size + 1) / 2
    return float(wins / (inside.size * outside.size))


def predictive_entropy(probabilities: Float[Array, "n classes"]) -> Float64[np.ndarray, " n"]:
    """Entropy of the class probabilities of each point, in nats; the usual out-of-distribution score."""
    p = real_array("probabilities", probabilities)
    # p log p is 0 at 0, by continuity.
    return -np.sum(p * np.log(np.where(p > 0, p, 1.0)), axis=-1)
