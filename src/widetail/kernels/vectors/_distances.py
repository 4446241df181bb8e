"""Distances between inputs, from their differences."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# Up to here squares are summed feature by feature, which is exact for close points wherever they lie. Beyond, the
# product of the inputs, seen from the middle of all of them, is faster, at the price of rounding errors of the order
# of eps times the square of their spread.
MOST_FEATURES_SUMMED = 32


def squared_distances(
    x1: Float[Array, "n d"], x2: Float[Array, "m d"], scale: Any = 1.0, factor: Any = 1.0
) -> Float[Array, "n m"]:
    """The squared distances of the rows of `x1` to those of `x2`, after a product of every feature with `scale`.

    The difference is taken before anything else, so that an offset which all rows share does no harm.

    Args:
        x1: rows (n, d).
        x2: rows (m, d) of the same dtype.
        scale: a number, or one per feature, shape (d,).
        factor: what the rows of `x2` are multiplied by, a number or one per pair, shape (n, m).
    """
    scale = jnp.broadcast_to(jnp.asarray(scale, x1.dtype), x1.shape[-1:])
    factor = jnp.asarray(factor, x1.dtype)
    if x1.shape[-1] <= MOST_FEATURES_SUMMED:
        columns = range(x1.shape[-1])
        terms = (((x1[:, None, c] - factor * x2[None, :, c]) * scale[c]) ** 2 for c in columns)
        return sum(terms, jnp.zeros((), x1.dtype))
    products, (squares1, squares2), (along1, along2), square, same = _about_the_middle(x1, x2, scale)
    # x1 - factor x2 in terms of rows about the middle: what the factors leave of the middle is added, and is small.
    factor = factor * same
    rest = 1 - factor
    squares = squares1[:, None] + factor**2 * squares2 + rest**2 * square
    along = rest * (along1[:, None] - factor * along2)
    return jnp.maximum(squares + 2 * (along - factor * products), 0)


def inner_products(x1: Float[Array, "n d"], x2: Float[Array, "m d"], scale: Any = 1.0) -> Float[Array, "n m"]:
    """Inner products of the rows after a product of every feature with `scale`.

    Where distances of the same rows are wanted too, both are made of the same large product.
    """
    scale = jnp.broadcast_to(jnp.asarray(scale, x1.dtype), x1.shape[-1:])
    if x1.shape[-1] <= MOST_FEATURES_SUMMED:
        return (x1 * scale) @ (x2 * scale).T
    products, _, (along1, along2), square, same = _about_the_middle(x1, x2, scale)
    return same * (products + along1[:, None] + along2 + square)


def _about_the_middle(x1: Any, x2: Any, scale: Any) -> tuple[Any, ...]:
    """Of rows seen from the middle: products, squares, products with the middle; its square; which lie together."""
    (side1, side2), middle = middle_of(x1, x2)
    x1, x2 = ((side[:, None] * x - middle) * scale for side, x in ((side1, x1), (side2, x2)))
    middle = middle * scale
    squares = [jnp.sum(x**2, axis=-1) for x in (x1, x2)]
    return x1 @ x2.T, squares, (x1 @ middle, x2 @ middle), middle @ middle, side1[:, None] * side2


def middle_of(x1: Float[Array, "n d"], x2: Float[Array, "m d"]) -> tuple[tuple[Any, ...], Float[Array, "d"]]:
    """On which side of the origin every row lies (1 or -1), and the middle of the rows brought to the same side."""
    sides = tuple(jnp.where(x @ x1[0] < 0, -1, 1).astype(x.dtype) for x in (x1, x2))
    means = [jnp.mean(side[:, None] * x, axis=0) for side, x in zip(sides, (x1, x2), strict=True)]
    return sides, jax.lax.stop_gradient(0.5 * (means[0] + means[1]))
