"""Scores of class probabilities.

`probabilities` has one row per point and one column per class, `labels` the column numbers of the true
classes. All scores are means over points.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int64, Integer

from widetail.metrics._inputs import Array, probabilities_and_labels

Probabilities = Float[Array, "n classes"]
Labels = Integer[Array, " n"]


def nll_from_probabilities(probabilities: Probabilities, labels: Labels) -> float:
    """Negative log-likelihood: minus the mean over points of log p(true class), in nats.

    A mean over points only, never over classes. Infinite if a true class was given probability 0.
    """
    p, y = probabilities_and_labels(probabilities, labels)
    with np.errstate(divide="ignore"):
        return float(-np.log(p[np.arange(y.size), y]).mean())


def accuracy(probabilities: Probabilities, labels: Labels) -> float:
    """Share of points whose most probable class is the true one (of equals, the first), from 0 to 1."""
    p, y = probabilities_and_labels(probabilities, labels)
    return float(np.mean(p.argmax(axis=1) == y))


def brier(probabilities: Probabilities, labels: Labels) -> float:
    """Brier score: the mean over points of the squared distance to the one-hot label, summed over classes.

    From 0 to 2, smaller is better. (For two classes it is twice the score that looks at one column only.)
    """
    p, y = probabilities_and_labels(probabilities, labels)
    return float(np.mean(np.sum((p - np.eye(p.shape[1])[y]) ** 2, axis=1)))


@dataclass(frozen=True, eq=False)
class Reliability:
    """Confidence against accuracy, bin by bin; NaN in bins without points.

    Attributes:
        edges: borders of the bins of the confidence, from 0 to 1.
        counts: number of points in each bin.
        confidence: mean probability of the predicted class in each bin.
        accuracy: share of right predictions in each bin.
    """

    edges: Float64[np.ndarray, " borders"]
    counts: Int64[np.ndarray, " bins"]
    confidence: Float64[np.ndarray, " bins"]
    accuracy: Float64[np.ndarray, " bins"]

    @property
    def ece(self) -> float:
        """Expected calibration error: mean over points of |accuracy - confidence| of their bin."""
        gaps = np.abs(self.accuracy - self.confidence)
        filled = self.counts > 0
        return float(np.average(gaps[filled], weights=self.counts[filled]))


def reliability(probabilities: Probabilities, labels: Labels, *, bins: int = 15) -> Reliability:
    """Sort points by confidence, the probability of their most probable class, into bins of equal width.

    Bin k of B holds the confidences in (k/B, (k+1)/B]; the first holds 0 as well.
    """
    p, y = probabilities_and_labels(probabilities, labels)
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}.")
    confidence = p.max(axis=1)
    right = p.argmax(axis=1) == y
    edges = np.linspace(0, 1, bins + 1)
    bin_of_point = np.searchsorted(edges[1:-1], confidence, side="left")
    counts = np.bincount(bin_of_point, minlength=bins)
    with np.errstate(invalid="ignore"):
        return Reliability(
            edges=edges,
            counts=counts,
            confidence=np.bincount(bin_of_point, weights=confidence, minlength=bins) / counts,
            accuracy=np.bincount(bin_of_point, weights=right, minlength=bins) / counts,
        )


def ece(probabilities: Probabilities, labels: Labels, *, bins: int = 15) -> float:
    """Expected calibration error of the most probable class, from 0 to 1; smaller is better.

    The mean over points of |accuracy - mean confidence| of the bin that the point falls into, with `bins`
    bins of equal width (see `reliability`). It depends on the number of bins and is biased upwards for few
    points.
    """
    return reliability(probabilities, labels, bins=bins).ece
