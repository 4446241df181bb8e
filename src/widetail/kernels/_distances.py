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
    x1: Float[Array, "n d"], x2: Float[Array, "m d"], scale: Any = 1.0, is_opposite: Any = False
) -> Float[Array, "n m"]:
    """The squared distances of the rows of `x1` to those of `x2`, after a product of every feature with `scale`.

    The difference is taken before anything else, so that an offset which all rows share does no harm.

    Args:
        x1: rows (n, d).
        x2: rows (m, d) of the same dtype.
        scale: a number, or one per feature, shape (d,).
        is_opposite: truth values (n, m): for which pairs the distance to minus the row of `x2` is meant.
    """
    scale = jnp.broadcast_to(jnp.asarray(scale, x1.dtype), x1.shape[-1:])
    if x1.shape[-1] <= MOST_FEATURES_SUMMED:
        sign = jnp.where(is_opposite, -1, 1).astype(x1.dtype)
        columns = range(x1.shape[-1])
        terms = (((x1[:, None, c] - sign * x2[None, :, c]) * scale[c]) ** 2 for c in columns)
        return sum(terms, jnp.zeros((), x1.dtype))
    if is_opposite is False:
        return _by_product(x1, x2, scale)
    return jnp.where(is_opposite, _by_product(x1, -x2, scale), _by_product(x1, x2, scale))


def _by_product(x1: Float[Array, "n d"], x2: Float[Array, "m d"], scale: Float[Array, "d"]) -> Float[Array, "n m"]:
    middle = jax.lax.stop_gradient(0.5 * (jnp.mean(x1, axis=0) + jnp.mean(x2, axis=0)))
    x1, x2 = (x1 - middle) * scale, (x2 - middle) * scale
    norms = jnp.sum(x1**2, axis=-1)[:, None] + jnp.sum(x2**2, axis=-1)[None, :]
    return jnp.maximum(norms - 2 * x1 @ x2.T, 0)
