"""Counts."""

from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from widetail.files import savable
from widetail.predictive import Predictive
from widetail.sparse.likelihoods._base import Likelihood
from widetail.sparse.predictions._counts import CountMixture
from widetail.sparse.predictions._latent import Latent
from widetail.sparse.predictions._observed import Observed

Link = Literal["exp", "softplus"]

PREDICTIVE_NODES = 24


@savable("sparse.Poisson")
class Poisson(Likelihood):
    """y is a count whose mean is a function of f.

    Args:
        link: "exp", or "softplus", log(1 + exp(f)). Under a scale with heavy tails the expectation of exp(f) is
            infinite, and so is that of a count: use "softplus" with every prior but a `PointMass`.
    """

    link: Link = eqx.field(default="exp", static=True)
    has_units: ClassVar[bool] = False

    def __check_init__(self):
        if self.link not in ("exp", "softplus"):
            raise ValueError(f"link must be 'exp' or 'softplus'; got {self.link!r}.")

    def log_rate(self, f: Any) -> Any:
        """Log of the mean of y."""
        # softplus(f) is exp(f) for very negative f, and the log of a vanishing softplus would be -inf
        return f if self.link == "exp" else jnp.where(f < -15, f, jnp.log(jax.nn.softplus(jnp.maximum(f, -16))))

    def log_prob(self, f, y, scale):
        log_rate = self.log_rate(f)
        return y * log_rate - jnp.exp(log_rate) - jax.scipy.special.gammaln(y + 1)

    def expected_log_prob(self, mean, variance, y, scale, draws):
        if self.link != "exp":
            return super().expected_log_prob(mean, variance, y, scale, draws)
        rate = jnp.exp(mean + 0.5 * scale * variance)
        return jnp.sum(y * mean - rate - jax.scipy.special.gammaln(y + 1), axis=-1)

    def sample(self, key, f, scale):
        return jax.random.poisson(key, jnp.exp(self.log_rate(f))).astype(f.dtype)

    def predictive(self, latent: Latent) -> Predictive:
        """A mixture of Poisson distributions, by quadrature over f and the scale."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(PREDICTIVE_NODES)
        f = (latent.mean + np.sqrt(latent.spread)[:, None] * nodes[:, None, None]).reshape(-1, *latent.mean.shape)
        rates = np.exp(f) if self.link == "exp" else np.logaddexp(f, 0.0)
        counts = CountMixture(np.outer(latent.weights, weights / weights.sum()).ravel(), latent.as_targets(rates))
        return Observed(latent, self, counts)

    def guide(self, y: np.ndarray) -> np.ndarray:
        """Logarithms."""
        logs = np.log1p(y)
        return logs - np.mean(logs)

    def check_targets(self, y: np.ndarray) -> None:
        """Integers of at least zero."""
        is_count = (y >= 0) & (y == np.floor(y))
        if not np.all(is_count):
            raise ValueError(f"y must hold counts (0, 1, 2, ...) for Poisson; got {float(y[~is_count].ravel()[0])}.")
