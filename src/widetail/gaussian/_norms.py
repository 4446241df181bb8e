"""Standard deviations, safe where a variable does not vary."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float


def norm_and_inverse(variance: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Square root and its reciprocal, both 0 with finite gradients where the variance is 0."""
    is_positive = variance > 0
    norm = jnp.sqrt(jnp.where(is_positive, variance, 1))
    return jnp.where(is_positive, norm, 0), jnp.where(is_positive, 1 / norm, 0)


def what_is_left(variance: Any, explained: Any) -> Float[Array, "..."]:
    """The variance of a variable conditional on others.

    Where they determine the variable, rounding errors are all that remains: they count as zero.
    """
    left = variance - explained
    return jnp.where(left > 1e3 * jnp.finfo(left.dtype).eps * variance, left, 0)
