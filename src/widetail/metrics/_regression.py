"""Scores of predictive distributions of a real target.

A predictive is any object with the methods named in each docstring; no shape of its distribution is
assumed. Scores are in the units of the `y` that is passed: for scores in original units, pass a predictive
and a `y` in original units.
"""

from typing import Any

import numpy as np
import scipy.special
from jaxtyping import Float, Float64, Real

from widetail.metrics._inputs import Array, answer, real_array


def nll(predictive: Any, y: Real[Array, "*points"]) -> float:
    """Negative log-likelihood of `y`: minus the mean over points of `predictive.log_prob(y)`.

    Natural logarithm (nats per point), density per unit of y, marginal for each point. A change of units
    shifts it: a target divided by s has an NLL smaller by log(s).
    """
    return float(-answer(predictive, "log_prob", real_array("y", y)).mean())


def log_score(predictive: Any, y: Real[Array, "*points"]) -> float:
    """Logarithmic score: the mean over points of `predictive.log_prob(y)`, minus `nll`; larger is better.

    Natural logarithm (nats per point), density per unit of y, marginal for each point.
    """
    return -nll(predictive, y)


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


def crps_normal(
    mean: Real[Array, "*points"], std: Real[Array, "*points"], y: Real[Array, "*points"]
) -> Float64[np.ndarray, "*points"]:
    """Continuous ranked probability score of normal distributions, one value per point, in the units of y.

    For models that give a mean and a standard deviation; `crps` takes a predictive and returns the mean over points.

    Example:
        >>> import numpy as np
        >>> from widetail import metrics
        >>> metrics.crps_normal(np.zeros(1), np.ones(1), np.zeros(1)).round(4).tolist()  # (sqrt(2) - 1) / sqrt(pi)
        [0.2337]
    """
    z, width = _standardised(mean, std, y, "std")
    return width * (z * (2 * scipy.special.ndtr(z) - 1) + 2 * _normal_density(z) - 1 / np.sqrt(np.pi))


def crps_student_t(
    degrees: float | int, location: Real[Array, "*points"], scale: Real[Array, "*points"], y: Real[Array, "*points"]
) -> Float64[np.ndarray, "*points"]:
    """Continuous ranked probability score of Student-t distributions, one value per point, in the units of y.

    `scale` is that of the distribution, smaller than its standard deviation. It needs more than one degree of freedom:
    with fewer there is no mean, and no score.

    Example:
        >>> import numpy as np
        >>> from widetail import metrics
        >>> metrics.crps_student_t(4.0, np.zeros(1), np.ones(1), np.zeros(1)).round(4).tolist()
        [0.2638]
    """
    if not degrees > 1:
        raise ValueError(f"degrees must be larger than 1, or there is no mean and no score; got {degrees}.")
    z, width = _standardised(location, scale, y, "scale")
    log_beta = scipy.special.betaln
    density = np.exp(-0.5 * (degrees + 1) * np.log1p(z**2 / degrees) - log_beta(0.5, 0.5 * degrees)) / np.sqrt(degrees)
    # of E|X - X'| / 2, in closed form
    spread = (
        2 * np.sqrt(degrees) / (degrees - 1) * np.exp(log_beta(0.5, degrees - 0.5) - 2 * log_beta(0.5, 0.5 * degrees))
    )
    above = z * (2 * scipy.special.stdtr(degrees, z) - 1) + 2 * density * (degrees + z**2) / (degrees - 1)
    return width * (above - spread)


def crps_from_quantiles(
    quantiles: Real[Array, "levels *points"], levels: Real[Array, " levels"], y: Real[Array, "*points"]
) -> float:
    """Continuous ranked probability score from quantiles of the predictive: mean over points, in the units of y.

    The score is twice the integral over p of the pinball loss of the p-quantile. Here each level stands for those
    closest to it; with `levels = (k + 1/2) / K` that is the midpoint rule, whose error falls like 1 / K.

    Example:
        >>> import numpy as np, scipy.stats
        >>> from widetail import metrics
        >>> levels = (np.arange(200) + 0.5) / 200
        >>> quantiles = scipy.stats.norm.ppf(levels)[:, None]
        >>> round(metrics.crps_from_quantiles(quantiles, levels, np.zeros(1)), 3)  # exactly 0.2337
        0.234
    """
    values, p, target = real_array("quantiles", quantiles), real_array("levels", levels), real_array("y", y)
    if p.ndim != 1 or values.shape != (len(p), *target.shape):
        raise ValueError(
            f"quantiles must have shape (levels, *y.shape), here {(p.size, *target.shape)}; got {values.shape} for "
            f"levels of shape {p.shape}."
        )
    if not (np.all((p > 0) & (p < 1)) and np.all(np.diff(p) > 0)):
        raise ValueError(f"levels must increase, strictly between 0 and 1; got {p}.")
    edges = np.concatenate([[0.0], 0.5 * (p[1:] + p[:-1]), [1.0]])
    column = p.reshape(-1, *[1] * target.ndim)
    above = target - values
    pinball = np.maximum(column * above, (column - 1) * above)
    return float(2 * np.tensordot(np.diff(edges), pinball, axes=1).mean())


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
    _check_level("level", level)
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


def coverage_of_steps(below: Float[Array, "*points"], upto: Float[Array, "*points"], level: float | int) -> float:
    """Coverage of the central intervals of whole numbers and other steps; `level` itself if calibrated.

    An interval whose ends are steps holds more than it promises. Here a step counts with the part of its probability
    that lies between the levels of the interval, (1 - level) / 2 and (1 + level) / 2: what intervals would hold on
    average if their ends were taken in at random, so that each of them has probability `level`.

    Args:
        below: predictive probability of less than y, one value per point.
        upto: predictive probability of y or less.
        level: of the intervals.

    Example:
        >>> import numpy as np
        >>> from widetail import metrics
        >>> upto = np.array([0.5, 1.0])  # a fair coin, once tails and once heads: half of each step is in between
        >>> metrics.coverage_of_steps(upto - 0.5, upto, level=0.5)
        0.5
    """
    _check_level("level", level)
    low, high = real_array("below", below), real_array("upto", upto)
    _check_same_shape("upto", high, low)
    if not (np.all(low >= 0) and np.all(high <= 1) and np.all(low <= high)):
        raise ValueError("below and upto must be probabilities, and below at most upto.")
    ends = 0.5 * (1 - level), 0.5 * (1 + level)
    inside = np.clip(high, *ends) - np.clip(low, *ends)
    height = high - low
    # what was said to be impossible is a point, inside or outside
    is_inside = (ends[0] <= high) & (high <= ends[1])
    return float(np.mean(np.where(height > 0, inside / np.where(height > 0, height, 1.0), is_inside)))


def interval_score(
    lower: Float[Array, "*points"], upper: Float[Array, "*points"], y: Real[Array, "*points"], coverage: float | int
) -> float:
    """Interval score (Winkler score) of central intervals: mean over points, in the units of y; smaller is better.

    The width of the interval, and for a y outside of it 2 / (1 - coverage) times its distance from the nearer end. The
    best intervals under it are those of the true quantiles. Infinite where an interval is.

    Example:
        >>> import numpy as np
        >>> from widetail import metrics
        >>> y = np.array([0.5, 1.1])  # one inside, one a tenth above: 1 and 1 + 4 * 0.1
        >>> round(metrics.interval_score(np.zeros(2), np.ones(2), y, coverage=0.5), 6)
        1.2
    """
    _check_level("coverage", coverage)
    low, high, target = real_array("lower", lower), real_array("upper", upper), real_array("y", y)
    _check_same_shape("lower", low, target)
    _check_same_shape("upper", high, target)
    if np.any(low > high):
        raise ValueError(f"lower must not be above upper; it is at {np.sum(low > high)} of {low.size} points.")
    outside = np.maximum(low - target, 0.0) + np.maximum(target - high, 0.0)
    return float(np.mean(high - low + 2 / (1 - coverage) * outside))


def _check_level(name: str, level: float | int) -> None:
    if not 0 < level < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {level}; 0.9 means the central 90 %.")


def _standardised(
    location: Array, scale: Array, y: Array, name: str
) -> tuple[Float64[np.ndarray, "*points"], Float64[np.ndarray, "*points"]]:
    centre, width, target = real_array("location", location), real_array(name, scale), real_array("y", y)
    _check_same_shape("location", centre, target)
    _check_same_shape(name, width, target)
    if not np.all(width > 0):
        raise ValueError(f"{name} must be positive; the smallest is {width.min()}.")
    return (target - centre) / width, width


def _normal_density(z: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)


def _check_same_shape(name: str, values: np.ndarray, y: np.ndarray) -> None:
    if values.shape != y.shape:
        raise ValueError(f"{name} and y must have the same shape, got {values.shape} and {y.shape}.")
