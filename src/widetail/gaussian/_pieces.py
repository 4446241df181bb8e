"""Hermite coefficients of a function that is smooth between known points only."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from widetail.gaussian._hermite import with_remainders

FARTHEST = 13  # standard deviations; beyond them the Gaussian weight is below 1e-37
NODES = 24  # in every piece
QUARTERINGS = 11  # of the first of the even pieces


def coefficients_by_pieces(
    fn: Callable[[Any], Any],
    points: Float[Array, "places ..."],
    norm: Float[Array, "..."],
    inverse: Float[Array, "..."],
    order: int,
) -> Any:
    """What `hermite_coefficients` gives, with Gauss-Legendre rules between the points where functions are not smooth.

    Args:
        fn: maps an array to a pytree of arrays of the same shape, one for every function.
        points: distances from zero of the points on either side, as `Breaks.distances` gives them.
        norm: standard deviations of the variable.
        inverse: their reciprocals, or 0 where the variable does not vary.
        order: how many polynomials, an even number.

    Returns:
        For every function an array (order + 2, ...).
    """
    # A piece must be short enough for the waves of the highest polynomial, about sqrt(2 order) radians a unit.
    even_parts = np.linspace(0, FARTHEST, 1 + max(6, math.ceil(math.sqrt(order))))
    # What a function does beside its breaks is close to zero for a variable that varies much more.
    even_parts = np.concatenate([[0], even_parts[1] * 0.25 ** np.arange(QUARTERINGS, 0, -1), even_parts[1:]])
    column = (-1,) + (1,) * norm.ndim
    breaks = jnp.clip(points * inverse, 0, FARTHEST)
    fixed = jnp.broadcast_to(jnp.asarray(even_parts, norm.dtype).reshape(column), (len(even_parts), *norm.shape))
    edges = jnp.sort(jnp.concatenate([fixed, breaks]), axis=0)
    x, legendre = (a.reshape(column).astype(norm.dtype) for a in _gauss_legendre())

    @jax.checkpoint  # or a gradient would keep the nodes of all pieces
    def add_piece(total, ends):
        low, high = ends
        u = low + (high - low) * x
        # The variable and its mirror image at once: every piece stands for the two sides of zero.
        weights = (high - low) * legendre * (math.sqrt(2 / math.pi) * jnp.exp(-0.5 * u**2))
        right, left = fn(u * norm), fn(-u * norm)
        found = jax.tree.map(lambda a, b: _parts(u, weights, 0.5 * (a + b), 0.5 * (a - b), order), right, left)
        return jax.tree.map(jnp.add, total, found), None

    nothing = jnp.zeros((order + 2, *norm.shape), norm.dtype)
    start = jax.tree.map(lambda _: nothing, jax.eval_shape(fn, norm))
    total, _ = jax.lax.scan(add_piece, start, (edges[:-1], edges[1:]))
    return jax.tree.map(lambda sums: with_remainders(sums[:-2], sums[-2], sums[-1]), total)


def _parts(u: Any, weights: Any, even: Any, odd: Any, order: int) -> Float[Array, "terms ..."]:
    """One piece's share of all coefficients, and of the second moments of the even and the odd part."""
    sides = even * weights, odd * weights

    def next_polynomial(carry, j):
        before, polynomial, side, other = carry
        following = (u * polynomial - jnp.sqrt(j) * before) / jnp.sqrt(j + 1)
        return (polynomial, following, other, side), jnp.sum(side * polynomial, axis=0)

    start = (jnp.zeros_like(u), jnp.ones_like(u), *sides)
    _, found = jax.lax.scan(next_polynomial, start, jnp.arange(order, dtype=u.dtype))
    moments = jnp.stack([jnp.sum(sides[0] * even, axis=0), jnp.sum(sides[1] * odd, axis=0)])
    return jnp.concatenate([found, moments])


@functools.cache
def _gauss_legendre() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return 0.5 * (nodes + 1), 0.5 * weights
