"""The Burr XII distribution."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from widetail._integrate import Bounds
from widetail._special import betaln
from widetail.priors._base import ScalePrior
from widetail.priors._parameters import Parameter, parameter


class BurrXII(ScalePrior):
    r"""Burr XII, $P(\beta > x) = (1 + (x/s)^c)^{-k}$; s is `scale`.

    The tail is a power law of index c k; the mean exists for c k > 1.

    Args:
        c: shape; near zero the density behaves as $\beta^{c-1}$.
        k: shape of the tail.
        scale: a scale (not a rate) of the variance.

    Example:
        >>> from widetail import priors
        >>> float(priors.BurrXII(2.0, 1.0, scale=3.0).quantile(0.5))
        3.0
    """

    c: Parameter
    k: Parameter
    scale: Parameter

    def __init__(self, c: Any, k: Any, scale: Any = 1.0):
        self.c = parameter(c, "BurrXII", "c")
        self.k = parameter(k, "BurrXII", "k")
        self.scale = parameter(scale, "BurrXII", "scale")

    def log_prob_of_log(self, log_scale: Float[Array, "..."]) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        x = self.c * (log_scale - jnp.log(self.scale))
        return jnp.log(self.c) + jnp.log(self.k) - jax.nn.softplus(-x) - self.k * jax.nn.softplus(x)

    def tails_of_log(self, log_scale: Float[Array, "..."]) -> tuple[Array, Array]:
        """See `ScalePrior`."""
        log_above = -self.k * jax.nn.softplus(self.c * (log_scale - jnp.log(self.scale)))
        return -jnp.expm1(log_above), jnp.exp(log_above)

    def log_quantile(self, p: Float[Array, "..."]) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        return self._at_exponential(-jnp.log1p(-p))

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        batch = jnp.broadcast_shapes(jnp.shape(self.c), jnp.shape(self.k), jnp.shape(self.scale))
        return self._at_exponential(jax.random.exponential(key, shape + batch, dtype=float))

    def _at_exponential(self, level: Float[Array, "..."]) -> Float[Array, "..."]:
        """Log of the value that is exceeded with probability exp(-level)."""
        x = level / self.k
        log_expm1 = x + jnp.log(-jnp.expm1(-x))
        return jnp.log(self.scale) + jnp.where(jnp.isinf(x), jnp.inf, log_expm1) / self.c

    def expectation(self) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        exists = self.c * self.k > 1
        c, k = jnp.where(exists, self.c, 2.0), jnp.where(exists, self.k, 1.0)
        return jnp.where(exists, self.scale * k * jnp.exp(betaln(k - 1 / c, 1 + 1 / c)), jnp.inf)

    @property
    def tail_index(self) -> Float[ArrayLike, "..."]:
        """See `ScalePrior`."""
        return self.c * self.k

    @property
    def log_middle(self) -> Float[ArrayLike, "..."]:
        """See `ScalePrior`."""
        return jnp.log(self.scale) - jnp.log(self.k) / self.c

    @property
    def log_bounds(self) -> Bounds:
        """See `ScalePrior`."""
        return Bounds()
