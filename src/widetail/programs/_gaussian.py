"""Gaussian variables given others."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float


def what_is_left(variance: Any, explained: Any) -> Float[Array, "..."]:
    """The variance of a variable given those that explain a part of it.

    Where they determine the variable, rounding errors are all that remains: they count as zero.
    """
    left = variance - explained
    return jnp.where(left > 1e3 * jnp.finfo(left.dtype).eps * variance, left, 0)
