"""Quantiles of mixtures of Student-t distributions, at many points at once."""

from typing import Any

import numpy as np
import scipy.special

_MOST_STEPS = 100
_ACCURACY = 1e-12  # of the smallest scale of the parts, or of the root where that is larger


def student_mixture_root(
    degrees: Any, location: Any, scale: Any, weights: Any, level: Any, lower: Any, upper: Any, guess: Any
) -> np.ndarray:
    """Where the distribution function of a mixture has the given level: Newton's steps inside of a bracket.

    Only points that are not there yet are looked at, so that a few slow ones do not cost the time of all.

    Args:
        degrees: of freedom of the J parts, shape (J, 1).
        location, scale: of the parts, shape (J, m).
        weights: probabilities of the parts, shape (J, 1), or (J, m) where points have their own.
        level: between 0 and 1, shape (..., m).
        lower, upper: a bracket of the root, shape (..., m).
        guess: where to start, shape (..., m).
    """
    shape = np.shape(level)
    point, low, high, level = (np.array(np.broadcast_to(v, shape), float).ravel() for v in (guess, lower, upper, level))
    column = np.broadcast_to(np.arange(shape[-1]), shape).ravel()
    weights = np.broadcast_to(weights, location.shape)
    # the density of Student's t at z: constant (1 + z^2 / df)^(-(df + 1) / 2)
    constant = np.exp(-scipy.special.betaln(0.5, 0.5 * degrees)) / np.sqrt(degrees)
    active = np.flatnonzero(low < high)
    point = np.clip(point, low, high)
    for _ in range(_MOST_STEPS):
        if not len(active):
            break
        where, here = column[active], point[active]
        spread = scale[:, where]
        z = (here - location[:, where]) / spread
        value = np.sum(weights[:, where] * scipy.special.stdtr(degrees, z), axis=0) - level[active]
        density = constant * np.exp(-0.5 * (degrees + 1) * np.log1p(z * (z / degrees))) / spread
        slope = np.sum(weights[:, where] * density, axis=0)
        low[active] = np.where(value < 0, here, low[active])
        high[active] = np.where(value > 0, here, high[active])
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = here - value / slope
        inside = (newton > low[active]) & (newton < high[active])
        point[active] = np.where(value == 0, here, np.where(inside, newton, 0.5 * (low[active] + high[active])))
        small = _ACCURACY * np.maximum(np.min(spread, axis=0), 1e-3 * np.abs(here))
        done = (value == 0) | (np.abs(point[active] - here) <= small) | (high[active] - low[active] <= small)
        active = active[~done]
    return point.reshape(shape)
