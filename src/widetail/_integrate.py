"""One-dimensional integrals of smooth, decaying densities given by their logarithm.

The trapezoidal rule converges exponentially for an analytic integrand on the whole line that decays fast.
Three steps make every density of this library such an integrand:

1. an end of the support is moved to infinity by a logarithm;
2. the mode and the distances at which the density has fallen are found by evaluations alone, so that any
   density will do, differentiable or not, concave or not;
3. the variable is stretched, `point = centre + stretch * sinh(u)`, so that a tail that decays like a power of
   the scale costs a few nodes more instead of hundreds.

Everything is batched: points are the leading axis, `(points, *batch)`, and the density broadcasts.
Placing the grid carries no gradient: the integral does not depend on where its nodes are.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from widetail._arrays import is_traced

# Logarithm of a density on the line, up to a constant: (points, *batch) -> (points, *batch).
LogDensity = Callable[[Float[Array, "points *batch"]], Float[Array, "points *batch"]]

# Falls of the log density: the first sets the width of the bulk, the second ends the grid. It is far more
# than the integral itself needs: the same nodes then serve the far tails of a predictive distribution.
_DROPS = (1.0, 100.0)
_SCAN = 2.0 ** np.arange(-3, 21)
_DISTANCES = 2.0 ** np.arange(-24, 22)
_ZOOMS = 9


class Bounds(NamedTuple):
    """The support of a density; `None` where it has no end."""

    lower: Float[Array, "*#batch"] | None = None
    upper: Float[Array, "*#batch"] | None = None

    def from_line(self, v: Float[Array, "points *batch"]) -> tuple[Array, Array]:
        """The point at the unbounded coordinate `v`, and the log of its derivative."""
        lower, upper = self
        if lower is not None and upper is not None:
            log_left, log_right = jax.nn.log_sigmoid(v), jax.nn.log_sigmoid(-v)
            inside = jnp.where(
                v < 0,
                lower + (upper - lower) * jnp.exp(log_left),
                upper - (upper - lower) * jnp.exp(log_right),
            )
            return inside, jnp.log(upper - lower) + log_left + log_right
        if lower is not None:
            return lower + jnp.exp(v), v
        if upper is not None:
            return upper - jnp.exp(-v), -v
        return v, jnp.zeros_like(v)

    def to_line(self, point: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        """The unbounded coordinate of a point; one outside of the support is moved inside."""
        lower, upper = self
        if lower is not None and upper is not None:
            share = jnp.clip((point - lower) / (upper - lower), 1e-3, 1 - 1e-3)
            return jnp.log(share) - jnp.log1p(-share)
        if lower is not None:
            return jnp.log(jnp.where(point > lower, point - lower, 1.0))
        if upper is not None:
            return -jnp.log(jnp.where(point < upper, upper - point, 1.0))
        return point


UNBOUNDED = Bounds()


class Placement(NamedTuple):
    """Where the nodes of an integral belong; refine it by asking `grid` for more nodes."""

    centre: Float[Array, "*batch"]
    stretch: Float[Array, "*batch"]
    left: Float[Array, "*batch"]
    right: Float[Array, "*batch"]
    proper: Bool[Array, "*batch"]  # False: the integral diverges
    empty: Bool[Array, "*batch"]  # True: the integral is zero

    def grid(self, nodes: int, bounds: Bounds = UNBOUNDED) -> tuple[Array, Array]:
        """The nodes and the logs of their weights, both of shape (nodes, *batch)."""
        # An even number of steps puts the middle of a symmetric density on a node of the full and of the
        # halved grid; half a step aside, their errors would agree and the error estimate would vanish.
        steps = nodes - nodes % 2
        share = (jnp.arange(nodes, dtype=float) / steps).reshape((nodes,) + (1,) * self.centre.ndim)
        u = self.left + (self.right - self.left) * share
        log_step = jnp.log(self.right - self.left) - jnp.log(float(steps))
        # sinh and cosh, by one exponential: they are most of the time that compiling takes.
        growth, decay = jnp.exp(u), jnp.exp(-u)
        points, log_slope = bounds.from_line(self.centre + 0.5 * self.stretch * (growth - decay))
        log_weight = log_step + jnp.log(0.5 * self.stretch * (growth + decay))
        return points, log_weight + log_slope


class Integral(NamedTuple):
    """An integral with the nodes it was computed on."""

    log_value: Float[Array, "*batch"]
    points: Float[Array, "nodes *batch"]
    log_terms: Float[Array, "nodes *batch"]  # their log-sum-exp is log_value
    coarse_gap: Float[Array, "*batch"]  # the change of log_value when every second node is left out
    placement: Placement


def integrate(
    log_density: LogDensity,
    near: tuple[Float[Array, "*#batch"], Float[Array, "*#batch"]],
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
    points, log_weights = placement.grid(nodes, bounds)
    log_terms = log_density(points) + log_weights
    highest = jnp.max(jax.lax.stop_gradient(log_terms), axis=0)
    highest = jnp.where(jnp.isfinite(highest), highest, 0.0)
    terms = jnp.exp(log_terms - highest)
    total, coarse_total = jnp.sum(terms, axis=0), 2 * jnp.sum(terms[::2], axis=0)
    gap = jnp.where(placement.proper, jnp.abs(jnp.log(coarse_total / total)), 0.0)
    log_value = highest + jnp.log(total)
    log_value = jnp.where(placement.proper, log_value, jnp.where(placement.empty, -jnp.inf, jnp.inf))
    return Integral(log_value, points, log_terms, gap, placement)


def place(
    log_density: LogDensity,
    near: tuple[Float[Array, "*#batch"], Float[Array, "*#batch"]],
    bounds: Bounds = UNBOUNDED,
) -> Placement:
    """Find the mode and the extent of a density; see `integrate`."""

    def frozen(v: Array) -> Array:
        points, log_slope = bounds.from_line(v)
        values = jax.lax.stop_gradient(log_density(points) + log_slope)
        return jnp.where(jnp.isnan(values), -jnp.inf, values)

    first, last = (jax.lax.stop_gradient(bounds.to_line(jnp.asarray(point, float))) for point in near)
    centre, peak, inside = _find_mode(frozen, first, last)
    reach, ends = _reach(frozen, centre, peak)
    (near_left, near_right), (far_left, far_right) = reach
    stretch = jnp.minimum(near_left, near_right)
    return Placement(
        centre,
        stretch,
        -_arcsinh(far_left / stretch),
        _arcsinh(far_right / stretch),
        inside & jnp.all(ends, axis=(0, 1)),
        peak == -jnp.inf,
    )


def _find_mode(log_density: LogDensity, first: Array, last: Array) -> tuple[Array, Array, Array]:
    """The highest point seen, its value, and whether it is not at the edge of what was searched."""
    first, last = jnp.broadcast_arrays(first, last)
    column = (-1,) + (1,) * first.ndim
    steps = jnp.asarray(_SCAN, float).reshape(column)
    between = jnp.linspace(0.0, 1.0, 17).reshape(column)
    points = jnp.concatenate([first - steps[::-1], first + (last - first) * between, last + steps])
    values = log_density(points)
    points = jnp.broadcast_to(points, values.shape)
    best = jnp.argmax(values, axis=0)
    inside = (best > 0) & (best < points.shape[0] - 1) & jnp.isfinite(jnp.max(values, axis=0))
    share = jnp.linspace(0.0, 1.0, 11).reshape((-1,) + (1,) * best.ndim)
    low = _pick(points, jnp.maximum(best - 1, 0))
    high = _pick(points, jnp.minimum(best + 1, points.shape[0] - 1))

    def zoom(_: Any, bracket: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        low, high = bracket[:2]
        points = low + (high - low) * share
        values = log_density(points)
        best = jnp.argmax(values, axis=0)
        at_best = _pick(points, best), _pick(values, best)
        return _pick(points, jnp.maximum(best - 1, 0)), _pick(points, jnp.minimum(best + 1, 10)), *at_best

    bracket = (low, high, low, low)
    if is_traced(values):
        bracket = jax.lax.fori_loop(0, _ZOOMS, zoom, bracket)
    else:  # a density that JAX cannot trace
        for step in range(_ZOOMS):
            bracket = zoom(step, bracket)
    return bracket[2], bracket[3], inside


def _reach(log_density: LogDensity, centre: Array, peak: Array) -> tuple[Array, Array]:
    """How far to the left and right of the centre the density has fallen for good by each of `_DROPS`.

    Returns the distances, of shape (drops, sides, *batch), and whether the density ever falls so far.
    """
    distances = jnp.asarray(_DISTANCES, float).reshape((-1,) + (1,) * centre.ndim)
    fall = peak - log_density(jnp.concatenate([centre - distances, centre + distances]))
    falls = jnp.stack(jnp.split(fall, 2), axis=1)
    drops = jnp.asarray(_DROPS, float).reshape((-1, 1) + (1,) * centre.ndim)
    fallen = falls[:, None] > drops
    outer = jnp.minimum(jnp.sum(jnp.cumprod(fallen[::-1].astype(float), axis=0), axis=0), len(distances) - 1.0)
    outer = len(distances) - outer.astype(int)
    inner_fall, outer_fall = (
        _pick(jnp.broadcast_to(falls[:, None], fallen.shape), index)
        for index in (outer - 1, jnp.minimum(outer, len(distances) - 1))
    )
    # Between two distances the fall is close to a power of the distance.
    inner_fall = jnp.maximum(inner_fall, 1e-12)
    growth = jnp.log(outer_fall) - jnp.log(inner_fall)
    share = (jnp.log(drops) - jnp.log(inner_fall)) / jnp.where(growth > 0, growth, 1.0)
    share = jnp.where(jnp.isfinite(growth) & (growth > 0), jnp.clip(share, 0.0, 1.0), 1.0)
    return jnp.asarray(_DISTANCES, float)[outer - 1] * 2.0**share, fallen[-1]


def _arcsinh(x: Array) -> Array:
    return jnp.log(x + jnp.sqrt(x**2 + 1))


def _pick(table: Array, index: Array) -> Array:
    return jnp.take_along_axis(table, index[None], axis=0, mode="promise_in_bounds")[0]
