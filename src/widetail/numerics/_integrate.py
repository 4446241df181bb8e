"""One-dimensional integrals of smooth, decaying densities given by their logarithm.

The trapezoidal rule converges exponentially for an analytic integrand on the whole line that decays fast.
Three steps make every density of this library such an integrand:

1. an end of the support is moved to infinity by a logarithm;
2. the mode and the distances at which the density has fallen are found by evaluations alone, so that any
   density will do, differentiable or not, concave or not;
3. the variable is stretched, `point = centre + stretch * sinh(u)`, so that a tail that decays like a power of
   the scale costs a few nodes more instead of hundreds.

A density with several modes, or with jumps, is integrated between cuts, each piece with a grid of its own.
An end of the support, where the density may be infinite, is approached closer than numbers near it can tell apart:
there the log density is continued in a straight line, as every power of the distance is one.

Densities that JAX cannot trace are integrated in NumPy, by the same code.
Everything is batched: points are the leading axis, `(points, *batch)`, and the density broadcasts.
Placing the grid carries no gradient: the integral does not depend on where its nodes are.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from widetail.numerics._arrays import is_traced, namespace

# Logarithm of a density on the line, up to a constant: (points, *batch) -> (points, *batch).
Points = Float[Array | np.ndarray, "points *batch"]
LogDensity = Callable[[Any], Any]
Batch = Float[ArrayLike, "*#batch"]

# Functions inside of functions carry no annotations here: with type checking on they would be rebuilt at each call.

# Falls of the log density: the first sets the width of the bulk, the second ends the grid. It is far more
# than the integral itself needs: the same nodes then serve the far tails of a predictive distribution.
_DROPS = (1.0, 100.0)
_SCAN = 2.0 ** np.arange(-3, 21)
_DISTANCES = 2.0 ** np.arange(-24, 22)
_ZOOMS = 9
_CLIFF = np.log(8.0)  # a log density that falls faster than the third power of the distance
# How near to a finite end the density itself is asked, relative to the end; 1 / 1000 of the digits are left.
_NEAREST = 1e-10


class Bounds(NamedTuple):
    """The support of a density; `None` where it has no end."""

    lower: Any = None
    upper: Any = None

    def from_line(self, v: Points) -> tuple[Any, Any]:
        """The point at the unbounded coordinate `v`, and the log of its derivative."""
        lower, upper = self
        xp = namespace(v)
        if lower is not None and upper is not None:
            width = xp.where(upper > lower, upper - lower, 1.0)  # a part without points is left out later
            log_left, log_right = -xp.logaddexp(0.0, -v), -xp.logaddexp(0.0, v)
            inside = xp.where(v < 0, lower + width * xp.exp(log_left), upper - width * xp.exp(log_right))
            return inside, xp.log(width) + log_left + log_right
        if lower is not None:
            return lower + xp.exp(v), v
        if upper is not None:
            return upper - xp.exp(-v), -v
        return v, xp.zeros_like(v)

    def to_line(self, point: Any, margin: float = 1e-3) -> Any:
        """The unbounded coordinate of a point; one outside of the support is moved inside.

        Between two ends so is one that is nearer to an end than `margin` of their distance.
        """
        lower, upper = self
        xp = namespace(point)
        if lower is not None and upper is not None:
            width = xp.where(upper > lower, upper - lower, 1.0)
            share = xp.clip((point - lower) / width, margin, 1 - margin)
            return xp.log(share) - xp.log1p(-share)
        if lower is not None:
            return xp.log(xp.where(point > lower, point - lower, 1.0))
        if upper is not None:
            return -xp.log(xp.where(point < upper, upper - point, 1.0))
        return point


UNBOUNDED = Bounds()


class Cuts(NamedTuple):
    """Points, in order, between which a density has one mode and no jump, and a point near each of these modes."""

    points: tuple[float, ...] = ()
    peaks: tuple[float, ...] = ()


NO_CUTS = Cuts()


class Placement(NamedTuple):
    """Where the nodes of an integral belong; refine it by asking `grid` for more nodes."""

    centre: Any
    stretch: Any
    left: Any
    right: Any
    proper: Any  # False: the integral diverges
    empty: Any  # True: the integral is zero

    def grid(self, nodes: int) -> tuple[Any, Any]:
        """The nodes in the unbounded coordinate and the logs of their weights, both of shape (nodes, *batch)."""
        xp = namespace(self.centre)
        # An even number of steps puts the middle of a symmetric density on a node of the full and of the
        # halved grid; half a step aside, their errors would agree and the error estimate would vanish.
        steps = nodes - nodes % 2
        share = (xp.arange(nodes, dtype=float) / steps).reshape((nodes,) + (1,) * self.centre.ndim)
        u = self.left + (self.right - self.left) * share
        log_step = xp.log(self.right - self.left) - xp.log(float(steps))
        # sinh and cosh, by one exponential: they are most of the time that compiling takes.
        growth, decay = xp.exp(u), xp.exp(-u)
        v = self.centre + 0.5 * self.stretch * (growth - decay)
        return v, log_step + xp.log(0.5 * self.stretch * (growth + decay))


class Piece(NamedTuple):
    """A part of an integral: the nodes of a part of the support."""

    placement: Placement
    bounds: Bounds

    def terms(self, log_density: LogDensity, nodes: int) -> tuple[Any, Any]:
        """The nodes, and the logs of density times weight, both of shape (nodes, *batch)."""
        v, log_weights = self.placement.grid(nodes)
        xp = namespace(v)
        log_terms = _on_line(log_density, self.bounds)(v) + log_weights
        return self.bounds.from_line(v)[0], xp.where(self.placement.empty, -xp.inf, log_terms)


class Integral(NamedTuple):
    """An integral with the nodes it was computed on, in order; points and terms have shape (nodes, *batch)."""

    log_value: Any
    points: Any
    log_terms: Any  # their log-sum-exp is log_value
    coarse_gap: Any  # the change of log_value when every second node is left out
    pieces: tuple[Piece, ...]

    @property
    def empty(self) -> Any:
        """Where the integral is zero."""
        return functools.reduce(lambda one, other: one & other, [piece.placement.empty for piece in self.pieces])

    def terms(self, log_density: LogDensity, nodes: int) -> tuple[Any, Any]:
        """Points and log terms for another number of nodes of each piece."""
        parts = [piece.terms(log_density, nodes) for piece in self.pieces]
        xp = namespace(parts[0][0])
        return tuple(xp.concatenate(part) for part in zip(*parts, strict=True))  # type: ignore[return-value]


def integrate(
    log_density: LogDensity,
    near: tuple[Batch, Batch],
    nodes: int,
    bounds: Bounds = UNBOUNDED,
    cuts: Cuts = NO_CUTS,
) -> Integral:
    """Integrate `exp(log_density)` over its support; `+inf` where the integral diverges.

    Args:
        log_density: log of the integrand.
        near: two points, in order, that are likely to have the mode between or near them.
        nodes: how many nodes to use, for each piece.
        bounds: the ends of the support, if it has any.
        cuts: where the density, or the rougher of its factors, has jumps and valleys, and its modes between them.
    """
    parts = zip(cuts.peaks or [None], _between(cuts.points, bounds), strict=True)
    pieces = [Piece(place(log_density, near, part, peak), part) for peak, part in parts]
    parts = [piece.terms(log_density, nodes) for piece in pieces]
    xp = namespace(parts[0][0])
    points, log_terms = (xp.concatenate(part) for part in zip(*parts, strict=True))
    highest = xp.max(_without_gradient(log_terms), axis=0)
    highest = xp.where(xp.isfinite(highest), highest, 0.0)
    terms = [xp.exp(part - highest) for _, part in parts]
    total = sum(xp.sum(part, axis=0) for part in terms)
    coarse_total = 2 * sum(xp.sum(part[::2], axis=0) for part in terms)
    whole = Integral(None, points, log_terms, None, tuple(pieces))
    # a piece far below the others may have no end that can be resolved, and needs none
    proper = functools.reduce(
        lambda one, other: one & other,
        [
            piece.placement.proper | piece.placement.empty | (xp.max(part, axis=0) == 0)
            for piece, part in zip(pieces, terms, strict=True)
        ],
    )
    is_value = proper & ~whole.empty
    gap = xp.where(is_value, xp.abs(xp.log(coarse_total / total)), 0.0)
    log_value = highest + xp.log(total)
    log_value = xp.where(is_value, log_value, xp.where(whole.empty, -xp.inf, xp.inf))
    return whole._replace(log_value=log_value, coarse_gap=gap)


def _between(cuts: tuple[float, ...], bounds: Bounds) -> list[Bounds]:
    """The parts of the support between cuts; those outside of it have their ends in the wrong order."""
    lower, upper = bounds
    if not cuts:
        return [bounds]
    xp = namespace(*(end for end in bounds if end is not None))
    ends = [lower, *(cut if lower is None else xp.maximum(cut, lower) for cut in cuts)]
    starts = [*(cut if upper is None else xp.minimum(cut, upper) for cut in cuts), upper]
    return [Bounds(*pair) for pair in zip(ends, starts, strict=True)]


def _on_line(log_density: LogDensity, bounds: Bounds) -> LogDensity:
    """The log density of the unbounded coordinate, continued where points cannot be told apart from an end."""
    lower, upper = bounds

    def direct(v):
        points, log_slope = bounds.from_line(v)
        return log_density(points) + log_slope

    if lower is None and upper is None:
        return direct

    def continued(v):
        xp = namespace(v)
        edges = [(xp.broadcast_to(edge, v.shape[1:]), inward) for edge, inward in _edges(bounds, xp)]
        near = v
        for edge, inward in edges:
            near = xp.maximum(near, edge) if inward > 0 else xp.minimum(near, edge)
        at_edges = xp.stack([point for edge, inward in edges for point in (edge, edge + inward)])
        values = direct(xp.concatenate([near, at_edges]))
        continuation = values[: len(v)]
        for i, (edge, inward) in enumerate(edges):
            rise = values[len(v) + 2 * i] - values[len(v) + 2 * i + 1]
            distance = xp.maximum(inward * (edge - v), 0.0)
            continuation = continuation + xp.where(xp.isfinite(rise), rise, 0.0) * distance
        return continuation

    return continued


def _edges(bounds: Bounds, xp: Any) -> list[tuple[Any, float]]:
    """The outermost coordinates whose points are well apart from the finite ends, each with the way inwards."""
    lower, upper = bounds

    def nearest(end):
        return xp.log(_NEAREST * xp.maximum(1.0, xp.abs(end)))

    if lower is not None and upper is not None:
        log_width = xp.log(xp.where(upper > lower, upper - lower, 1.0))
        left, right = nearest(lower) - log_width, log_width - nearest(upper)
        return [(xp.minimum(left, -2.0), 1.0), (xp.maximum(right, 2.0), -1.0)]
    return [(nearest(lower), 1.0)] if lower is not None else [(-nearest(upper), -1.0)]


def place(
    log_density: LogDensity,
    near: tuple[Batch, Batch],
    bounds: Bounds = UNBOUNDED,
    known: float | None = None,
) -> Placement:
    """Find the mode and the extent of a density; see `integrate`.

    A `known` mode of a factor of the density is a point of the search: a narrow one would not be met by chance.
    """
    xp = namespace(near[0])
    on_line = _on_line(log_density, bounds)

    def frozen(v):
        values = _without_gradient(on_line(v))
        return xp.where(xp.isnan(values), -xp.inf, values)

    first, last = (_without_gradient(bounds.to_line(xp.asarray(point, float))) for point in near)
    middle = 0.5 * (first + last)
    if known is not None:
        middle = _without_gradient(bounds.to_line(xp.asarray(known, float)))
        first, last = xp.minimum(first, middle), xp.maximum(middle, last)
    centre, peak, inside = _find_mode(frozen, first, middle, last)
    reach, ends = _reach(frozen, centre, peak)
    (near_left, near_right), (far_left, far_right) = reach
    stretch = xp.minimum(near_left, near_right)
    lower, upper = bounds
    is_nowhere = False if lower is None or upper is None else xp.logical_not(upper > lower)
    return Placement(
        centre,
        stretch,
        -_arcsinh(far_left / stretch),
        _arcsinh(far_right / stretch),
        inside & xp.all(ends, axis=(0, 1)),
        (peak == -xp.inf) | is_nowhere,
    )


def _find_mode(log_density: LogDensity, first: Any, middle: Any, last: Any) -> tuple[Any, Any, Any]:
    """The highest point seen, its value, and whether it is not at the edge of what was searched."""
    xp = namespace(first)
    first, middle, last = xp.broadcast_arrays(first, middle, last)
    column = (-1,) + (1,) * first.ndim
    steps = xp.asarray(_SCAN, float).reshape(column)
    points = xp.concatenate([first - steps[::-1], _around(first, middle, last, 8), last + steps])
    values = log_density(points)
    points = xp.broadcast_to(points, values.shape)
    best = xp.argmax(values, axis=0)
    inside = (best > 0) & (best < points.shape[0] - 1) & xp.isfinite(xp.max(values, axis=0))
    low = _pick(points, xp.maximum(best - 1, 0))
    high = _pick(points, xp.minimum(best + 1, points.shape[0] - 1))

    def zoom(_, bracket):
        low, high, middle, _ = bracket
        # the best point is asked again: it may be the only one that is high
        points = _around(low, middle, high, 5)
        values = log_density(points)
        best = xp.argmax(values, axis=0)
        at_best = _pick(points, best), _pick(values, best)
        return _pick(points, xp.maximum(best - 1, 0)), _pick(points, xp.minimum(best + 1, 10)), *at_best

    bracket = (low, high, _pick(points, best), low)
    if is_traced(values):
        bracket = jax.lax.fori_loop(0, _ZOOMS, zoom, bracket)
    else:  # a density that JAX cannot trace
        for step in range(_ZOOMS):
            bracket = zoom(step, bracket)
    return bracket[2], bracket[3], inside


def _around(first: Any, middle: Any, last: Any, steps: int) -> Any:
    """Points in order, with as many steps on both sides of the middle one."""
    xp = namespace(first)
    share = (xp.arange(steps, dtype=float) / steps).reshape((-1,) + (1,) * first.ndim)
    return xp.concatenate([first + (middle - first) * share, middle + (last - middle) * share, last[None]])


def _reach(log_density: LogDensity, centre: Any, peak: Any) -> tuple[Any, Any]:
    """How far to the left and right of the centre the density has fallen for good by each of `_DROPS`.

    Returns the distances, of shape (drops, sides, *batch), and whether the density ever falls so far.
    """
    xp = namespace(centre)
    distances = xp.asarray(_DISTANCES, float).reshape((-1,) + (1,) * centre.ndim)
    fall = peak - log_density(xp.concatenate([centre - distances, centre + distances]))
    falls = xp.stack(xp.split(fall, 2), axis=1)
    drops = xp.asarray(_DROPS, float).reshape((-1, 1) + (1,) * centre.ndim)
    fallen = falls[:, None] > drops
    outer = xp.minimum(xp.sum(xp.cumprod(fallen[::-1].astype(float), axis=0), axis=0), len(distances) - 1.0)
    outer = len(distances) - outer.astype(int)
    inner_fall, outer_fall = (
        _pick(xp.broadcast_to(falls[:, None], fallen.shape), index)
        for index in (outer - 1, xp.minimum(outer, len(distances) - 1))
    )
    # Between two distances the fall is close to a power of the distance.
    inner_fall = xp.maximum(inner_fall, 1e-12)
    growth = xp.log(outer_fall) - xp.log(inner_fall)
    share = (xp.log(drops) - xp.log(inner_fall)) / xp.where(growth > 0, growth, 1.0)
    share = xp.where(xp.isfinite(growth) & (growth > 0), xp.clip(share, 0.0, 1.0), 1.0)
    # Not so where a plateau ends in a cliff: the grid goes as far as the density was seen to have fallen.
    share = xp.where(growth > _CLIFF, 1.0, share)
    return xp.asarray(_DISTANCES, float)[outer - 1] * 2.0**share, fallen[-1]


def _arcsinh(x: Any) -> Any:
    xp = namespace(x)
    return xp.log(x + xp.sqrt(x**2 + 1))


def _pick(table: Any, index: Any) -> Any:
    if isinstance(table, np.ndarray):
        return np.take_along_axis(table, np.asarray(index)[None], axis=0)[0]
    return jnp.take_along_axis(table, index[None], axis=0, mode="promise_in_bounds")[0]


def _without_gradient(x: Any) -> Any:
    return x if namespace(x) is np else jax.lax.stop_gradient(x)
