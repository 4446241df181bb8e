"""Gaussian noise."""

import dataclasses
import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from widetail.checks import as_parameter, check_variance
from widetail.files import savable
from widetail.predictive import Predictive
from widetail.sparse.likelihoods._base import Likelihood
from widetail.sparse.predictions._latent import Latent


@savable("sparse.Gaussian")
class Gaussian(Likelihood):
    """y = f + noise of variance `noise`, or of `scale * noise` where it is inside of the scale.

    Inside of the scale the bound is exact when every row is an inducing input: the process is then a Student-t process
    for an inverse gamma prior. Outside of it the noise is ordinary, and the bound is a little below.

    Args:
        noise: variance.
        scaled: whether the noise is inside of the scale.
    """

    noise: Any = eqx.field(default=0.1, converter=as_parameter)
    scaled: bool = eqx.field(default=True, static=True)
    learnable: ClassVar[tuple[str, ...]] = ("noise",)
    is_centred_at_f: ClassVar[bool] = True

    def __check_init__(self):
        check_variance("noise", self.noise, positive=True)

    def variance(self, scale: Any, dtype: Any) -> Any:
        """Variance of the noise at a scale."""
        noise = jnp.asarray(self.noise, dtype)
        return noise * scale if self.scaled else noise

    def noise_at(self, scales: np.ndarray) -> np.ndarray:
        return float(self.noise) * (scales if self.scaled else np.ones_like(scales))

    def under_scale(self, factor: float) -> "Gaussian":
        return dataclasses.replace(self, noise=float(self.noise) / factor) if self.scaled else self

    def log_prob(self, f, y, scale):
        variance = self.variance(scale, f.dtype)
        return -0.5 * ((y - f) ** 2 / variance + jnp.log(variance) + math.log(2 * math.pi))

    def expected_log_prob(self, mean, variance, y, scale, draws):
        return jnp.sum(self.log_prob(mean, y, scale) - 0.5 * scale * variance / self.variance(scale, mean.dtype), -1)

    def log_predictive(self, mean, variance, y, scales, weights, draws):
        def given(scale: Any) -> Any:
            total = scale * variance + self.variance(scale, mean.dtype)
            return -0.5 * jnp.sum((y - mean) ** 2 / total + jnp.log(total) + math.log(2 * math.pi), axis=-1)

        return jax.nn.logsumexp(jax.vmap(given)(scales), axis=0, b=weights[:, None])

    def predictive(self, latent: Latent) -> Predictive:
        """A mixture of normal distributions, joint over points and outputs too."""
        return latent.with_noise(float(self.noise) * (latent.scales if self.scaled else 1.0))

    def sample(self, key, f, scale):
        return f + jnp.sqrt(self.variance(scale, f.dtype)) * jax.random.normal(key, f.shape, f.dtype)
