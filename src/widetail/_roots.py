"""Vectorised root finding inside a bracket."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_MAX_STEPS = 120


def increasing_root(
    value_and_slope: Callable[[Array], tuple[Array, Array]],
    lower: Float[Array, "*batch"],
    upper: Float[Array, "*batch"],
    guess: Float[Array, "*batch"] | None = None,
    *,
    traceable: bool = True,
) -> Float[Array, "*batch"]:
    """The root of an increasing function: Newton's steps, replaced by bisection when they do not help.

    Args:
        value_and_slope: the function and its derivative, elementwise; infinite values are understood.
        lower, upper: a bracket of the root; where it holds none, the nearer end is returned.
        guess: where to start, the middle of the bracket by default.
        traceable: False when the function cannot be traced by JAX; the loop then runs in Python.
    """
    tiny = jnp.finfo(lower.dtype).eps

    def unfinished(state: tuple) -> Array:
        _, low, high, _, done, step = state
        return (step < _MAX_STEPS) & ~jnp.all(done | (low >= high))

    def advance(state: tuple) -> tuple:
        point, low, high, last_move, done, step = state
        value, slope = value_and_slope(point)
        low = jnp.where(value < 0, point, low)
        high = jnp.where(value > 0, point, high)
        newton = point - value / slope
        # A Newton step that leaves the bracket, or that does not halve the last move, is not trusted.
        trusted = (newton > low) & (newton < high) & (jnp.abs(newton - point) < 0.5 * jnp.abs(last_move))
        proposal = jnp.where(trusted, newton, 0.5 * (low + high))
        proposal = jnp.where(done | (value == 0), point, proposal)
        move = proposal - point
        done = done | (jnp.abs(move) <= 2 * tiny * jnp.abs(point)) | (value == 0)
        return proposal, low, high, move, done, step + 1

    start = jnp.clip(0.5 * (lower + upper) if guess is None else guess, lower, upper)
    state = (start, lower, upper, upper - lower, jnp.zeros(lower.shape, bool), 0)
    if traceable:
        return jax.lax.while_loop(unfinished, advance, state)[0]
    while unfinished(state):
        state = advance(state)
    return state[0]
