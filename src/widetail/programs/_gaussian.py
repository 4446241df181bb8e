"""Conditional variances of Gaussian variables."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float


def what_is_left(variance: Any, explained: Any) -> Float[Array, "..."]:
    """The variance of a variable conditional on others.

    Where they determine the variable, rounding errors are all that remains: they count as zero.
    """
    left = variance - explained
    return jnp.where(left > 1e3 * jnp.finfo(left.dtype).eps * variance, left, 0)
