"""Noise with heavy tails, one scale per point."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from widetail.checks import as_parameter, check_number, check_variance
from widetail.files import savable
from widetail.predictive import Predictive
from widetail.sparse.likelihoods._base import Likelihood
from widetail.sparse.predictions._latent import Latent
from widetail.sparse.predictions._observed import Observed
from widetail.sparse.scales import InverseGammaScale


@savable("sparse.StudentT")
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
    is_centred_at_f: ClassVar[bool] = True

    def __check_init__(self):
        check_number("df", self.df, positive=True)
        check_variance("noise", self.noise, positive=True)

    def log_prob(self, f, y, scale):
        df, noise = (jnp.asarray(value, f.dtype) for value in (self.df, self.noise))
        constant = jax.scipy.special.gammaln(0.5 * (df + 1)) - jax.scipy.special.gammaln(0.5 * df)
        constant = constant - 0.5 * jnp.log(df * noise * jnp.asarray(jnp.pi, f.dtype))
        return constant - 0.5 * (df + 1) * jnp.log1p((y - f) ** 2 / (df * noise))

    def predictive(self, latent: Latent) -> Predictive:
        """Noise is normal given a scale of its own: a mixture over both scales."""
        df = float(self.df)
        own_scales, own_weights = InverseGammaScale(0.5 * df, 0.5 * df, 1.0, 1.0).nodes()
        noise = float(self.noise) * own_scales
        dispersion = (latent.spread[:, None] + noise[None, :, None, None]).reshape(-1, *latent.mean.shape)
        weights = np.outer(latent.weights, own_weights).ravel()
        return Observed(latent, self, latent.mixture(dispersion, weights, min(latent.tail_index, 0.5 * df)))

    def sample(self, key, f, scale):
        df, noise = (jnp.asarray(value, f.dtype) for value in (self.df, self.noise))
        return f + jnp.sqrt(noise) * jax.random.t(key, df, f.shape, f.dtype)
