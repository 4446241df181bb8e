"""Modes and jumps of densities from other libraries, found numerically."""

import itertools
import warnings
from typing import Any, NamedTuple

import numpy as np

from widetail.numerics import Bounds, Cuts, integrate
from widetail.priors._base import ScalePrior

# Of the logarithm of the readout variance: a grid for modes that are wide, however little mass they have.
_GRID = np.linspace(-60.0, 60.0, 12_001)
# Cells with more mass than this are halved, down to this width: for modes that are narrow.
_LARGEST_MASS = 1 / 256
_SMALLEST_CELL = 1e-9
# Where the log density lies this far, in nats, below its smallest concave bound, there is a valley, or the foot of a
# narrow mode on the slope of a wide one. The later numbers are for densities whose mass shows that it was not enough.
_DEPTHS = (0.5, 0.1, 0.02, 0.004)
# A change of the log density within two neighbouring numbers that is this large is a jump.
_JUMP = 0.05
# Far below the highest mode a density is zero for any data that can be stored.
_DEEPEST = 700.0
# Between points of the grid it is straight up to this, in nats.
_STRAIGHT = 0.05
# The mass is integrated as posteriors are: nodes are doubled until they agree.
_NODES = (64, 128, 256, 512, 1024, 2048, 4096)
_AGREEMENT = 1e-8
_TOLERABLE = 1e-3


class Modes(NamedTuple):
    """The pieces that integrals over a prior are cut into.

    Attributes:
        cuts: see `ScalePrior.log_cuts`.
        mass_error: see `ScalePrior.mass_error`.
    """

    cuts: Cuts = Cuts()
    mass_error: float = 0.0


@np.errstate(all="ignore")
def find_modes(prior: ScalePrior) -> Modes:
    """Evaluate the density of the logarithm on a grid, finer where the mass is; warn if mass is missed."""
    lower, upper = (None if end is None else float(end) for end in prior.log_bounds)
    points = _GRID[((lower if lower is not None else -np.inf) < _GRID) & ((np.inf if upper is None else upper) > _GRID)]
    points = np.union1d(points, _where_the_mass_is(prior, lower, upper))
    if lower is not None and upper is not None:
        points = np.union1d(points, lower + (upper - lower) * np.linspace(0.0, 1.0, 1026)[1:-1])
    points, values, floor = _resolved(prior, points)
    jumps = _jumps(prior, points, values, floor)
    cuts, found, missing = Cuts(), 0.0, 1.0
    for depth in _DEPTHS:
        cuts = _between_modes(points, values, floor, prior.log_bounds, jumps, depth)
        found = _mass(prior, cuts, points[int(np.argmax(values))])
        missing = abs(found - 1)
        if missing < _AGREEMENT:
            break
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


def _resolved(prior: ScalePrior, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Points between which the log density is close to straight, its values, and below which it counts as zero."""
    values = _log_density(prior, points)
    floor = np.max(values, initial=-np.inf) - _DEEPEST
    left, right, at_left, at_right = points[:-1], points[1:], values[:-1], values[1:]
    while len(left):
        middle = 0.5 * (left + right)
        at_middle = _log_density(prior, middle)
        points, values = np.append(points, middle), np.append(values, at_middle)
        low, centre, high = (np.maximum(part, floor) for part in (at_left, at_middle, at_right))
        bends = (np.abs(centre - 0.5 * (low + high)) > _STRAIGHT) & (right - left > _SMALLEST_CELL)
        left, right = np.append(left[bends], middle[bends]), np.append(middle[bends], right[bends])
        at_left, at_right = np.append(at_left[bends], at_middle[bends]), np.append(at_middle[bends], at_right[bends])
    order = np.argsort(points)
    return points[order], values[order], floor


def _mass(prior: ScalePrior, cuts: Cuts, middle: float) -> float:
    near = (np.asarray(middle), np.asarray(middle))
    log_mass = -np.inf
    for nodes in _NODES:
        mass = integrate(lambda t: _log_density(prior, t), near, nodes, prior.log_bounds, cuts)
        log_mass = float(mass.log_value)
        if mass.coarse_gap < _AGREEMENT:
            break
    return float(np.exp(log_mass))


def _between_modes(
    points: np.ndarray, values: np.ndarray, floor: float, bounds: Bounds, jumps: np.ndarray, depth: float
) -> Cuts:
    """Cuts such that the log density, as integrals see it between jumps, is nearly concave between them."""
    found = list(jumps)
    ends = [bounds.lower, *jumps, bounds.upper]
    for lower, upper in itertools.pairwise(ends):
        inside = _inside(points, lower, upper) & (values > -np.inf)
        above = np.flatnonzero(values[inside] > floor)
        if len(above):  # what lies below the floor on the outside belongs to no mode
            kept = slice(above[0], above[-1] + 1)
            part, part_values = points[inside][kept], np.maximum(values[inside][kept], floor)
            found += [float(part[i]) for i in _feet(part, part_values, Bounds(lower, upper), depth)]
    cuts = np.unique(found)
    pieces = itertools.pairwise([None, *cuts, None])
    peaks = [_highest(points, np.where(_inside(points, *piece), values, -np.inf), piece) for piece in pieces]
    return Cuts(tuple(float(cut) for cut in cuts), tuple(peaks) if len(cuts) else ())


def _inside(points: np.ndarray, lower: Any, upper: Any) -> np.ndarray:
    return ((-np.inf if lower is None else lower) < points) & (points < (np.inf if upper is None else upper))


def _highest(points: np.ndarray, values: np.ndarray, piece: tuple[float | None, float | None]) -> float:
    """The highest point of a piece; one of its ends where it has no points with a density."""
    best = int(np.argmax(values))
    if values[best] > -np.inf:
        return float(points[best])
    return float(next(end for end in piece if end is not None))


def _feet(points: np.ndarray, values: np.ndarray, bounds: Bounds, depth: float) -> list[int]:
    """Where the values are further than `depth` below a concave bound: at the lowest such point, again and again.

    Concave in the points, or in the coordinate that integrals between the bounds use.
    """
    line = np.asarray(bounds.to_line(points, margin=1e-15))
    on_line = values + np.asarray(bounds.from_line(line)[1])

    def search(start: int, stop: int) -> list[int]:
        part = slice(start, stop)
        gap = np.minimum(_below_hull(points[part], values[part]), _below_hull(line[part], on_line[part]))
        lowest = start + int(np.argmax(gap))
        if not gap[lowest - start] > depth:
            return []
        return [*search(start, lowest + 1), lowest, *search(lowest, stop)]

    return search(0, len(points))


def _below_hull(points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """How far each value lies below the smallest concave function above all of them."""
    x, y = points.tolist(), values.tolist()
    hull = [0]
    for i in range(1, len(x)):
        while len(hull) > 1:
            before, last = hull[-2], hull[-1]
            if (y[last] - y[before]) * (x[i] - x[before]) > (y[i] - y[before]) * (x[last] - x[before]):
                break
            hull.pop()
        hull.append(i)
    return np.interp(points, points[hull], values[hull]) - values


def _jumps(prior: ScalePrior, points: np.ndarray, values: np.ndarray, floor: float) -> np.ndarray:
    """Points where the density jumps, to the last digits: intervals across which it changes are halved."""
    # a density that is infinite at an end of one of its parts jumps there, too
    ceiling = np.max(values, where=np.isfinite(values), initial=floor) + _DEEPEST
    start, stop = points[:-1], points[1:]
    low, high = np.clip(values[:-1], floor, ceiling), np.clip(values[1:], floor, ceiling)
    while len(start):
        is_rough = (np.abs(high - low) > _JUMP) & np.isfinite(low) & np.isfinite(high)
        start, stop, low, high = (part[is_rough] for part in (start, stop, low, high))
        middle = 0.5 * (start + stop)
        if np.all((middle <= start) | (middle >= stop)):
            break
        at_middle = np.clip(_log_density(prior, middle), floor, ceiling)
        is_left = np.abs(at_middle - low) >= np.abs(high - at_middle)
        start, stop = np.where(is_left, start, middle), np.where(is_left, middle, stop)
        low, high = np.where(is_left, low, at_middle), np.where(is_left, at_middle, high)
    return np.unique(stop)
