"""One-dimensional integrals of smooth, decaying densities given by their logarithm.

The trapezoidal rule converges exponentially for an analytic integrand on the whole line that decays fast.
Three steps make every density of this library such an integrand:

1. an end of the support is moved to infinity by a logarithm;
2. the mode and the distances at which the density has fallen are found by evaluations alone, so that any
   density will do, differentiable or not, concave or not;
3. the variable is stretched, `point = centre + stretch * sinh(u)`, so that a tail that decays like a power of
   the scale costs a few nodes more instead of hundreds.

Densities that JAX cannot trace are integrated in NumPy, by the same code.
Everything is batched: points are the leading axis, `(points, *batch)`, and the density broadcasts.
Placing the grid carries no gradient: the integral does not depend on where its nodes are.
"""

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


class Bounds(NamedTuple):
    """The support of a density; `None` where it has no end."""

    lower: Any = None
    upper: Any = None

    def from_line(self, v: Points) -> tuple[Any, Any]:
        """The point at the unbounded coordinate `v`, and the log of its derivative."""
        lower, upper = self
        xp = namespace(v)
        if lower is not None and upper is not None:
            width, log_left, log_right = upper - lower, -xp.logaddexp(0.0, -v), -xp.logaddexp(0.0, v)
            inside = xp.where(v < 0, lower + width * xp.exp(log_left), upper - width * xp.exp(log_right))
            return inside, xp.log(width) + log_left + log_right
        if lower is not None:
            return lower + xp.exp(v), v
        if upper is not None:
            return upper - xp.exp(-v), -v
        return v, xp.zeros_like(v)

    def to_line(self, point: Any) -> Any:
        """The unbounded coordinate of a point; one outside of the support is moved inside."""
        lower, upper = self
        xp = namespace(point)
        if lower is not None and upper is not None:
            share = xp.clip((point - lower) / (upper - lower), 1e-3, 1 - 1e-3)
            return xp.log(share) - xp.log1p(-share)
        if lower is not None:
            return xp.log(xp.where(point > lower, point - lower, 1.0))
        if upper is not None:
            return -xp.log(xp.where(point < upper, upper - point, 1.0))
        return point


UNBOUNDED = Bounds()


class Placement(NamedTuple):
    """Where the nodes of an integral belong; refine it by asking `grid` for more nodes."""

    centre: Any
    stretch: Any
    left: Any
    right: Any
    proper: Any  # False: the integral diverges
    empty: Any  # True: the integral is zero

    def grid(self, nodes: int, bounds: Bounds = UNBOUNDED) -> tuple[Any, Any]:
        """The nodes and the logs of their weights, both of shape (nodes, *batch)."""
        xp = namespace(self.centre)
        # An even number of steps puts the middle of a symmetric density on a node of the full and of the
        # halved grid; half a step aside, their errors would agree and the error estimate would vanish.
        steps = nodes - nodes % 2
        share = (xp.arange(nodes, dtype=float) / steps).reshape((nodes,) + (1,) * self.centre.ndim)
        u = self.left + (self.right - self.left) * share
        log_step = xp.log(self.right - self.left) - xp.log(float(steps))
        # sinh and cosh, by one exponential: they are most of the time that compiling takes.
        growth, decay = xp.exp(u), xp.exp(-u)
        points, log_slope = bounds.from_line(self.centre + 0.5 * self.stretch * (growth - decay))
        log_weight = log_step + xp.log(0.5 * self.stretch * (growth + decay))
        return points, log_weight + log_slope


class Integral(NamedTuple):
    """An integral with the nodes it was computed on; points and terms have shape (nodes, *batch)."""

    log_value: Any
    points: Any
    log_terms: Any  # their log-sum-exp is log_value
    coarse_gap: Any  # the change of log_value when every second node is left out
    placement: Placement


def integrate(
    log_density: LogDensity,
    near: tuple[Batch, Batch],
    nodes: int,
    bounds: Bounds = UNBOUNDED,
) -> Integral:
    """Integrate `exp(log_density)` over its support; `+inf` where the integral diverges.

    Args:
        log_density: log of the integrand.
        near: two points, in order, that are likely to have the mode between or near them.
        nodes: how many nodes to use.
        bounds: the ends of the support, if it has any.
    """
    placement = place(log_density, near, bounds)
    xp = namespace(placement.centre)
    points, log_weights = placement.grid(nodes, bounds)
    log_terms = log_density(points) + log_weights
    highest = xp.max(_without_gradient(log_terms), axis=0)
    highest = xp.where(xp.isfinite(highest), highest, 0.0)
    terms = xp.exp(log_terms - highest)
    total, coarse_total = xp.sum(terms, axis=0), 2 * xp.sum(terms[::2], axis=0)
    gap = xp.where(placement.proper, xp.abs(xp.log(coarse_total / total)), 0.0)
    log_value = highest + xp.log(total)
    log_value = xp.where(placement.proper, log_value, xp.where(placement.empty, -xp.inf, xp.inf))
    return Integral(log_value, points, log_terms, gap, placement)


def place(
    log_density: LogDensity,
    near: tuple[Batch, Batch],
    bounds: Bounds = UNBOUNDED,
) -> Placement:
    """Find the mode and the extent of a density; see `integrate`."""
    xp = namespace(near[0])

    def frozen(v):
        points, log_slope = bounds.from_line(v)
        values = _without_gradient(log_density(points) + log_slope)
        return xp.where(xp.isnan(values), -xp.inf, values)

    first, last = (_without_gradient(bounds.to_line(xp.asarray(point, float))) for point in near)
    centre, peak, inside = _find_mode(frozen, first, last)
    reach, ends = _reach(frozen, centre, peak)
    (near_left, near_right), (far_left, far_right) = reach
    stretch = xp.minimum(near_left, near_right)
    return Placement(
        centre,
        stretch,
        -_arcsinh(far_left / stretch),
        _arcsinh(far_right / stretch),
        inside & xp.all(ends, axis=(0, 1)),
        peak == -xp.inf,
    )


def _find_mode(log_density: LogDensity, first: Any, last: Any) -> tuple[Any, Any, Any]:
    """The highest point seen, its value, and whether it is not at the edge of what was searched."""
    xp = namespace(first)
    first, last = xp.broadcast_arrays(first, last)
    column = (-1,) + (1,) * first.ndim
    steps = xp.asarray(_SCAN, float).reshape(column)
    between = xp.linspace(0.0, 1.0, 17).reshape(column)
    points = xp.concatenate([first - steps[::-1], first + (last - first) * between, last + steps])
    values = log_density(points)
    points = xp.broadcast_to(points, values.shape)
    best = xp.argmax(values, axis=0)
    inside = (best > 0) & (best < points.shape[0] - 1) & xp.isfinite(xp.max(values, axis=0))
    share = xp.linspace(0.0, 1.0, 11).reshape((-1,) + (1,) * best.ndim)
    low = _pick(points, xp.maximum(best - 1, 0))
    high = _pick(points, xp.minimum(best + 1, points.shape[0] - 1))

    def zoom(_, bracket):
        low, high = bracket[:2]
        points = low + (high - low) * share
        values = log_density(points)
        best = xp.argmax(values, axis=0)
        at_best = _pick(points, best), _pick(values, best)
        return _pick(points, xp.maximum(best - 1, 0)), _pick(points, xp.minimum(best + 1, 10)), *at_best

    bracket = (low, high, low, low)
    if is_traced(values):
        bracket = jax.lax.fori_loop(0, _ZOOMS, zoom, bracket)
    else:  # a density that JAX cannot trace
        for step in range(_ZOOMS):
            bracket = zoom(step, bracket)
    return bracket[2], bracket[3], inside


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
