"""Standard deviations, safe where a variable does not vary."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def norm_and_inverse(variance: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Square root and its reciprocal, both 0 with finite gradients where the variance is 0."""
    is_positive = variance > 0
    norm = jnp.sqrt(jnp.where(is_positive, variance, 1))
    return jnp.where(is_positive, norm, 0), jnp.where(is_positive, 1 / norm, 0)
