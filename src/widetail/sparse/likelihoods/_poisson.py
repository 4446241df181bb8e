"""Counts."""

import jax
import jax.numpy as jnp
import numpy as np

from widetail.sparse.likelihoods._base import Likelihood


class Poisson(Likelihood):
    """y is a count with mean exp(f)."""

    def log_prob(self, f, y, scale):
        return y * f - jnp.exp(f) - jax.scipy.special.gammaln(y + 1)

    def expected_log_prob(self, mean, variance, y, scale, draws):
        rate = jnp.exp(mean + 0.5 * scale * variance)
        return jnp.sum(y * mean - rate - jax.scipy.special.gammaln(y + 1), axis=-1)

    def sample(self, key, f, scale):
        return jax.random.poisson(key, jnp.exp(f)).astype(f.dtype)

    def check_targets(self, y: np.ndarray) -> None:
        """Integers of at least zero."""
        is_count = (y >= 0) & (y == np.floor(y))
        if not np.all(is_count):
            raise ValueError(f"y must hold counts (0, 1, 2, ...) for Poisson; got {float(y[~is_count].ravel()[0])}.")
