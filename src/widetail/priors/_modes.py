"""Where a density that somebody else wrote has its modes and jumps."""

import itertools
import warnings
from typing import NamedTuple

import numpy as np

from widetail.numerics import Cuts, integrate
from widetail.priors._base import ScalePrior

# Of the logarithm of the readout variance: a grid for modes that are wide, however little mass they have.
_GRID = np.linspace(-60.0, 60.0, 12_001)
# Cells with more mass than this are halved, down to this width: for modes that are narrow.
_LARGEST_MASS = 1 / 256
_SMALLEST_CELL = 1e-9
# A valley this deep below the lower of its two modes, in nats, separates them.
_DEPTH = 1.0
# A change of the log density within two neighbouring numbers that is this large is a jump.
_JUMP = 0.05
# Far below the highest mode a density is zero for any data that can be stored.
_DEEPEST = 700.0
_NODES = 128
_TOLERABLE = 1e-3


class Modes(NamedTuple):
    """What integrals over a prior need to know of it.

    Attributes:
        cuts: see `ScalePrior.log_cuts`.
        mass_error: see `ScalePrior.mass_error`.
    """

    cuts: Cuts = Cuts()
    mass_error: float = 0.0


@np.errstate(all="ignore")
def find_modes(prior: ScalePrior) -> Modes:
    """Look at the density of the logarithm on a grid, and more closely where the mass is; warn of what is missed."""
    lower, upper = (None if end is None else float(end) for end in prior.log_bounds)
    points = _GRID[((lower if lower is not None else -np.inf) < _GRID) & ((np.inf if upper is None else upper) > _GRID)]
    points = np.union1d(points, _where_the_mass_is(prior, lower, upper))
    if lower is not None and upper is not None:
        points = np.union1d(points, lower + (upper - lower) * np.linspace(0.0, 1.0, 1026)[1:-1])
    values = _log_density(prior, points)
    highest = np.max(values, initial=-np.inf)
    cuts = np.union1d(_jumps(prior, points, values, highest), _valleys(points, values, highest))
    ends = itertools.pairwise([-np.inf, *cuts, np.inf])
    peaks = [points[np.argmax(np.where((points >= low) & (points <= high), values, -np.inf))] for low, high in ends]
    cuts = Cuts(tuple(float(cut) for cut in cuts), tuple(float(peak) for peak in peaks) if len(cuts) else ())
    middle = points[int(np.argmax(values))]
    near = (np.asarray(middle), np.asarray(middle))
    mass = integrate(lambda t: _log_density(prior, t), near, _NODES, prior.log_bounds, cuts)
    found = float(np.exp(mass.log_value))
    missing = abs(found - 1)
    if not missing <= _TOLERABLE:
        warnings.warn(
            f"{prior!r}: quadrature between its {len(cuts.points) + 1} modes and jumps finds {found:.6g} instead of 1 "
            f"as its mass. The density is not normalised, or too rough for what is computed with it; "
            f"diagnostics of posteriors count it as an error.",
            stacklevel=4,
        )
    return Modes(cuts, missing)


def _log_density(prior: ScalePrior, t: np.ndarray) -> np.ndarray:
    values = np.asarray(prior.log_prob_of_log(t), dtype=np.float64)
    return np.where(np.isnan(values), -np.inf, values)


def _where_the_mass_is(prior: ScalePrior, lower: float | None, upper: float | None) -> np.ndarray:
    """Ends of cells of the line that hold little mass each, or are very narrow."""
    left, right = (_GRID[0] if lower is None else lower), (_GRID[-1] if upper is None else upper)
    ends = np.linspace(left, right, 65)
    below = np.asarray(prior.tails_of_log(ends)[0], dtype=np.float64)
    found = [ends[1:-1]]
    cells = np.stack([ends[:-1], ends[1:], below[:-1], below[1:]])
    while True:
        cells = cells[:, (cells[3] - cells[2] > _LARGEST_MASS) & (cells[1] - cells[0] > _SMALLEST_CELL)]
        if not cells.size:
            return np.unique(np.concatenate(found))
        middle = 0.5 * (cells[0] + cells[1])
        below = np.asarray(prior.tails_of_log(middle)[0], dtype=np.float64)
        found.append(middle)
        start, stop, low, high = cells
        cells = np.concatenate([np.stack([start, middle, low, below]), np.stack([middle, stop, below, high])], axis=1)


def _valleys(points: np.ndarray, values: np.ndarray, highest: float) -> list[float]:
    """The lowest point between every two modes that a valley separates."""
    cuts: list[float] = []
    peak = bottom = -np.inf
    at_bottom = 0.0
    for point, value in zip(points, np.maximum(values, highest - _DEEPEST), strict=True):
        if value > bottom + _DEPTH and peak > bottom + _DEPTH and bottom > -np.inf:
            cuts.append(at_bottom)
            peak = bottom = value
        elif value > peak:
            peak = bottom = value
        if value < bottom:
            bottom, at_bottom = value, float(point)
    return cuts


def _jumps(prior: ScalePrior, points: np.ndarray, values: np.ndarray, highest: float) -> np.ndarray:
    """Points where the density jumps, to the last digits: intervals across which it changes are halved."""
    floor = highest - _DEEPEST
    start, stop = points[:-1], points[1:]
    low, high = np.maximum(values[:-1], floor), np.maximum(values[1:], floor)
    while len(start):
        is_rough = (np.abs(high - low) > _JUMP) & np.isfinite(low) & np.isfinite(high)
        start, stop, low, high = (part[is_rough] for part in (start, stop, low, high))
        middle = 0.5 * (start + stop)
        if np.all((middle <= start) | (middle >= stop)):
            break
        at_middle = np.maximum(_log_density(prior, middle), floor)
        is_left = np.abs(at_middle - low) >= np.abs(high - at_middle)
        start, stop = np.where(is_left, start, middle), np.where(is_left, middle, stop)
        low, high = np.where(is_left, low, at_middle), np.where(is_left, at_middle, high)
    return stop
