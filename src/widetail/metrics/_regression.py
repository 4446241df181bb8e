"""Scores of predictive distributions of a real target.

A predictive is any object with the methods named in each docstring; no shape of its distribution is
assumed. Scores are in the units of the `y` that is passed: for scores in original units, pass a predictive
and a `y` in original units.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Float64, Real

from widetail.metrics._inputs import Array, answer, real_array


def nll(predictive: Any, y: Real[Array, "*points"]) -> float:
    """Negative log-likelihood of `y`: minus the mean over points of `predictive.log_prob(y)`.

    Natural logarithm (nats per point), density per unit of y, marginal for each point. A change of units
    shifts it: a target divided by s has an NLL smaller by log(s).
    """
    return float(-answer(predictive, "log_prob", real_array("y", y)).mean())


def rmse(prediction: Any, y: Real[Array, "*points"]) -> float:
    """Root of the mean squared error over points, in the units of y.

    `prediction` is an array of the shape of `y`, or a predictive, whose `mean` is then used. A predictive
    without a mean (Student-t with one degree of freedom or less) gives an error; pass its median,
    `quantile(0.5)`, instead.
    """
    target = real_array("y", y)
    is_predictive = hasattr(prediction, "log_prob")
    centre = real_array("prediction", prediction.mean if is_predictive else prediction)
    _check_same_shape("prediction", centre, target)
    return float(np.sqrt(np.mean((centre - target) ** 2)))


def crps(predictive: Any, y: Real[Array, "*points"]) -> float:
    """Continuous ranked probability score: the mean over points of `predictive.crps(y)`, in the units of y.

    Smaller is better. For one point it is the integral of (F(t) - 1[t >= y])^2 over t; it equals the absolute
    error for a prediction without spread, and is finite for every predictive that has a mean.
    """
    return float(answer(predictive, "crps", real_array("y", y)).mean())


def crps_from_samples(samples: Float[Array, "samples *points"], y: Real[Array, "*points"]) -> float:
    """Continuous ranked probability score from draws of the predictive: mean over points, in the units of y.

    The unbiased ("fair") estimate E|X - y| - E|X - X'| / 2, in which X and X' are different draws; it needs
    two draws at least, and may be slightly negative for few draws.
    """
    draws, target = real_array("samples", samples), real_array("y", y)
    if draws.shape[1:] != target.shape or draws.shape[0] < 2:
        raise ValueError(
            f"samples must have shape (draws, *y.shape) with 2 draws or more, got {draws.shape} for y of "
            f"shape {target.shape}."
        )
    n = draws.shape[0]
    # Sum over pairs of |X - X'| from the order statistics: O(n log n) instead of O(n^2).
    weights = (2 * np.arange(1, n + 1) - n - 1).reshape(n, *[1] * target.ndim)
    spread = (weights * np.sort(draws, axis=0)).sum(axis=0) / (n * (n - 1))
    return float((np.abs(draws - target).mean(axis=0) - spread).mean())


def pit(predictive: Any, y: Real[Array, "*points"]) -> Float64[np.ndarray, "*points"]:
    """Probability integral transform: `predictive.pit(y)`, the predictive distribution function at each `y`.

    Without unit, in [0, 1], one value per point (not a mean). Uniform if the predictive is calibrated: a
    hump in the middle means that it is too wide, a bowl that it is too narrow.
    """
    return answer(predictive, "pit", real_array("y", y))


def coverage(predictive: Any, y: Real[Array, "*points"], level: float | int) -> float:
    """Share of points inside the central interval `predictive.interval(level)`; `level` itself if calibrated.

    The ends of the interval count as inside.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level}; 0.9 means the central 90 %.")
    target = real_array("y", y)
    if not hasattr(predictive, "interval"):
        raise TypeError(f"predictive must have a method interval(level), got {type(predictive).__name__}.")
    lower, upper = predictive.interval(level)
    return coverage_of_interval(lower, upper, target)


def coverage_of_interval(
    lower: Float[Array, "*points"], upper: Float[Array, "*points"], y: Real[Array, "*points"]
) -> float:
    """Share of points with `lower <= y <= upper`."""
    low, high, target = real_array("lower", lower), real_array("upper", upper), real_array("y", y)
    _check_same_shape("lower", low, target)
    _check_same_shape("upper", high, target)
    return float(np.mean((low <= target) & (target <= high)))


def _check_same_shape(name: str, values: np.ndarray, y: np.ndarray) -> None:
    if values.shape != y.shape:
        raise ValueError(f"{name} and y must have the same shape, got {values.shape} and {y.shape}.")
