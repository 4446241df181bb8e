"""Quantiles of mixtures of Student-t and normal distributions, at many points at once."""

from typing import Any

import numpy as np
import scipy.special

_MOST_STEPS = 100
_TERMS = 2**21  # numbers at a time: sixteen megabytes an array
_ACCURACY = 1e-12  # of the smallest scale of the parts that is not negligible, or of the root


def student_mixture_root(
    degrees: Any, location: Any, scale: Any, weights: Any, level: Any, lower: Any, upper: Any, guess: Any
) -> np.ndarray:
    """Where the distribution function of a mixture has the given level: Newton's steps inside of a bracket.

    Only points that are not there yet are looked at, so that a few slow ones do not cost the time of all.

    Args:
        degrees: of freedom of the J parts, shape (J, 1); infinite for normal ones.
        location, scale: of the parts, shape (J, m).
        weights: probabilities of the parts, shape (J, 1), or (J, m) where points have their own.
        level: between 0 and 1, shape (..., m).
        lower, upper: a bracket of the root, shape (..., m).
        guess: where to start, shape (..., m).
    """
    shape = np.shape(level)
    point, low, high, level = (np.array(np.broadcast_to(v, shape), float).ravel() for v in (guess, lower, upper, level))
    column = np.broadcast_to(np.arange(shape[-1]), shape).ravel()
    # Seen from the nearer end, because close to one the distribution function has lost the digits of what is above.
    side, tail = np.where(level > 0.5, -1.0, 1.0), np.minimum(level, 1 - level)
    with np.errstate(divide="ignore"):
        log_tail = np.log(tail)
    weights = np.broadcast_to(weights, location.shape)
    unit = np.maximum(np.min(scale, axis=0), 1e-3 * np.sum(weights * scale, axis=0))
    rows = max(1, _TERMS // len(scale))
    active = np.flatnonzero(low < high)
    point = np.clip(point, low, high)
    for _ in range(_MOST_STEPS):
        if not len(active):
            break
        where, here = column[active], point[active]
        value, slope = np.empty(len(active)), np.empty(len(active))
        for start in range(0, len(active), rows):
            some = slice(start, start + rows)
            value[some], slope[some] = _tail_and_density(
                here[some],
                side[active[some]],
                degrees,
                location[:, where[some]],
                scale[:, where[some]],
                weights[:, where[some]],
            )
        # in logarithms, in which tails are not steep
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = slope / value
            value = side[active] * (np.log(value) - log_tail[active])
        low[active] = np.where(value < 0, here, low[active])
        high[active] = np.where(value > 0, here, high[active])
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = here - value / slope
        inside = (newton > low[active]) & (newton < high[active])
        point[active] = np.where(value == 0, here, np.where(inside, newton, 0.5 * (low[active] + high[active])))
        small = _ACCURACY * np.maximum(unit[where], 1e-3 * np.abs(here))
        done = (value == 0) | (np.abs(point[active] - here) <= small) | (high[active] - low[active] <= small)
        active = active[~done]
    return point.reshape(shape)


def _tail_and_density(point: Any, side: Any, degrees: Any, location: Any, scale: Any, weights: Any) -> tuple[Any, Any]:
    """The probability below, or above where `side` is -1 and not 1, and the density of the mixture."""
    z = side * (point - location) / scale
    is_normal = np.isinf(degrees[:, 0])
    below, density = np.empty_like(z), np.empty_like(z)
    below[is_normal] = scipy.special.ndtr(z[is_normal])
    density[is_normal] = np.exp(-0.5 * z[is_normal] ** 2) / np.sqrt(2 * np.pi)
    df, z = degrees[~is_normal], z[~is_normal]
    below[~is_normal] = scipy.special.stdtr(df, z)
    # the density of Student's t at z: constant (1 + z^2 / df)^(-(df + 1) / 2)
    constant = np.exp(-scipy.special.betaln(0.5, 0.5 * df)) / np.sqrt(df)
    density[~is_normal] = constant * np.exp(-0.5 * (df + 1) * np.log1p(z * (z / df)))
    return np.sum(weights * below, axis=0), np.sum(weights * density / scale, axis=0)
