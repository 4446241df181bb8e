"""Noise with heavy tails, one scale per point."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from widetail._validation import as_parameter, check_number, check_variance
from widetail.sparse.likelihoods._base import Likelihood


class StudentT(Likelihood):
    """y = f + noise with Student-t tails, independent from point to point: robust to outliers in y.

    A scale mixture alone is not: its one scale is shared by all points, and its location is that of a Gaussian process.

    Args:
        df: degrees of freedom.
        noise: squared scale of the noise; its variance is df / (df - 2) times that.
    """

    df: Any = eqx.field(default=4.0, converter=as_parameter)
    noise: Any = eqx.field(default=0.1, converter=as_parameter)
    learnable: ClassVar[tuple[str, ...]] = ("df", "noise")

    def __check_init__(self):
        check_number("df", self.df, positive=True)
        check_variance("noise", self.noise, positive=True)

    def log_prob(self, f, y, scale):
        df, noise = (jnp.asarray(value, f.dtype) for value in (self.df, self.noise))
        constant = jax.scipy.special.gammaln(0.5 * (df + 1)) - jax.scipy.special.gammaln(0.5 * df)
        constant = constant - 0.5 * jnp.log(df * noise * jnp.asarray(jnp.pi, f.dtype))
        return constant - 0.5 * (df + 1) * jnp.log1p((y - f) ** 2 / (df * noise))

    def sample(self, key, f, scale):
        df, noise = (jnp.asarray(value, f.dtype) for value in (self.df, self.noise))
        return f + jnp.sqrt(noise) * jax.random.t(key, df, f.shape, f.dtype)
