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
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from widetail._arrays import is_traced

# Logarithm of a density on the line, up to a constant: (points, *batch) -> (points, *batch).
LogDensity = Callable[[Float[Array, "points *batch"]], Float[Array, "points *batch"]]

# The grid ends where the log density has fallen by this much. It is far more than the integral itself needs:
# the same nodes then serve the far tails of a predictive distribution.
_DROP = 100.0
_NEAR_DROP = 1.0
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
        log_weight = log_step + jnp.log(self.stretch) + jnp.log(jnp.cosh(u))
        points, log_slope = bounds.from_line(self.centre + self.stretch * jnp.sinh(u))
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
    log_value = jax.nn.logsumexp(log_terms, axis=0)
    log_coarse = jax.nn.logsumexp(log_terms[::2], axis=0) + jnp.log(2.0)
    gap = jnp.where(placement.proper, jnp.abs(log_value - log_coarse), 0.0)
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
    distances = jnp.asarray(_DISTANCES, float).reshape((-1,) + (1,) * centre.ndim)
    both_sides = peak - frozen(jnp.concatenate([centre - distances, centre + distances]))
    left_drop, right_drop = jnp.split(both_sides, 2)
    near_left, _ = _distance_of_drop(left_drop, distances, _NEAR_DROP)
    near_right, _ = _distance_of_drop(right_drop, distances, _NEAR_DROP)
    far_left, left_ends = _distance_of_drop(left_drop, distances, _DROP)
    far_right, right_ends = _distance_of_drop(right_drop, distances, _DROP)
    stretch = jnp.minimum(near_left, near_right)
    return Placement(
        centre,
        stretch,
        -jnp.arcsinh(far_left / stretch),
        jnp.arcsinh(far_right / stretch),
        inside & left_ends & right_ends,
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

    def zoom(_: int, bracket: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
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


def _distance_of_drop(drops: Array, distances: Array, drop: float) -> tuple[Array, Array]:
    """The outermost distance at which the density has fallen by `drop`, and whether it ever has for good."""
    fallen = drops > drop
    last_above = drops.shape[0] - 1 - jnp.argmin(fallen[::-1], axis=0)
    last_above = jnp.where(jnp.all(fallen, axis=0), 0, last_above)
    ends = fallen[-1]
    outer = jnp.minimum(last_above + 1, drops.shape[0] - 1)
    distances = jnp.broadcast_to(distances, drops.shape)
    inner_drop = jnp.maximum(_pick(drops, last_above), 1e-12)
    outer_drop = jnp.maximum(_pick(drops, outer), inner_drop * (1 + 1e-9))
    share = (jnp.log(drop) - jnp.log(inner_drop)) / (jnp.log(outer_drop) - jnp.log(inner_drop))
    share = jnp.where(jnp.isfinite(outer_drop), jnp.clip(share, 0.0, 1.0), 1.0)
    return _pick(distances, last_above) * 2.0**share, ends


def _pick(table: Array, index: Array) -> Array:
    return jnp.take_along_axis(table, index[None], axis=0)[0]
