"""Vectorised root finding inside a bracket."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from widetail.numerics._arrays import namespace

_MAX_STEPS = 120

Values = Float[Array | np.ndarray, "*batch"]


def increasing_root(
    value_and_slope: Callable[[Any], tuple[Any, Any]],
    lower: Values,
    upper: Values,
    guess: Values | None = None,
    *,
    unit: Any = 1.0,
) -> Values:
    """The root of an increasing function: Newton's steps, replaced by bisection when they do not help.

    With a bracket of NumPy arrays all of it runs in NumPy, for functions that JAX cannot trace.

    Args:
        value_and_slope: the function and its derivative, elementwise; infinite values are understood.
        lower, upper: a bracket of the root; where it holds none, the nearer end is returned.
        guess: where to start, the middle of the bracket by default.
        unit: a natural size of the argument; the root is found to the rounding error of it.
    """
    xp = namespace(lower)
    rounding = 8 * float(np.finfo(lower.dtype).eps)

    def unfinished(state):
        _, low, high, _, done, step = state
        return (step < _MAX_STEPS) & ~xp.all(done | (low >= high))

    def advance(state):
        point, low, high, last_move, done, step = state
        value, slope = value_and_slope(point)
        low = xp.where(value < 0, point, low)
        high = xp.where(value > 0, point, high)
        newton = point - value / slope
        # A Newton step that leaves the bracket, or that does not halve the last move, is not trusted.
        trusted = (newton > low) & (newton < high) & (xp.abs(newton - point) < 0.5 * xp.abs(last_move))
        proposal = xp.where(trusted, newton, 0.5 * (low + high))
        # A step or a bracket as small as rounding is the end, even where rounding makes the step look useless.
        smallest = rounding * xp.maximum(xp.abs(point), unit)
        done = done | (value == 0) | (xp.abs(newton - point) <= smallest) | (high - low <= smallest)
        proposal = xp.where(done, point, proposal)
        move = proposal - point
        return proposal, low, high, move, done, step + 1

    start = xp.clip(0.5 * (lower + upper) if guess is None else guess, lower, upper)
    state = (start, lower, upper, upper - lower, xp.zeros(lower.shape, bool), 0)
    if xp is jnp:
        return jax.lax.while_loop(unfinished, advance, state)[0]
    while unfinished(state):
        state = advance(state)
    return state[0]
