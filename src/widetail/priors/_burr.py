"""The Burr XII distribution."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from widetail.files import savable
from widetail.numerics import Bounds, concrete, namespace
from widetail.numerics.special import betaln, softplus
from widetail.priors._base import ScalePrior
from widetail.priors._parameters import Parameter, Values, parameter


@savable("priors.BurrXII")
class BurrXII(ScalePrior):
    r"""Burr XII, $P(\beta > x) = (1 + (x/s)^c)^{-k}$; s is `scale`.

    The tail is a power law of index c k; the mean exists for c k > 1.

    Args:
        c: shape; near zero the density behaves as $\beta^{c-1}$.
        k: shape of the tail.
        scale: a scale (not a rate) of the variance.

    Example:
        >>> from widetail import priors
        >>> round(float(priors.BurrXII(2.0, 1.0, scale=3.0).quantile(0.5)), 12)
        3.0
    """

    c: Parameter
    k: Parameter
    scale: Parameter

    def __init__(self, c: Any, k: Any, scale: Any = 1.0):
        self.c = parameter(c, "BurrXII", "c")
        self.k = parameter(k, "BurrXII", "k")
        self.scale = parameter(scale, "BurrXII", "scale")

    def log_prob_of_log(self, log_scale: Values) -> Values:
        xp = namespace(self, log_scale)
        x = self.c * (log_scale - xp.log(self.scale))
        return xp.log(self.c) + xp.log(self.k) - softplus(-x) - self.k * softplus(x)

    def tails_of_log(self, log_scale: Values) -> tuple[Values, Values]:
        xp = namespace(self, log_scale)
        log_above = -self.k * softplus(self.c * (log_scale - xp.log(self.scale)))
        return -xp.expm1(log_above), xp.exp(log_above)

    def log_quantile(self, p: Values) -> Values:
        xp = namespace(self, p)
        return self._at_exponential(-xp.log1p(-p))

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Values:
        batch = jnp.broadcast_shapes(jnp.shape(self.c), jnp.shape(self.k), jnp.shape(self.scale))
        return self._at_exponential(concrete(jax.random.exponential(key, shape + batch, dtype=float)))

    def _at_exponential(self, level: Values) -> Values:
        """Log of the value that is exceeded with probability exp(-level)."""
        xp = namespace(self, level)
        x = level / self.k
        log_expm1 = x + xp.log(-xp.expm1(-x))
        return xp.log(self.scale) + xp.where(xp.isinf(x), xp.inf, log_expm1) / self.c

    def expectation(self) -> Values:
        xp = namespace(self)
        exists = self.c * self.k > 1
        c, k = xp.where(exists, self.c, 2.0), xp.where(exists, self.k, 1.0)
        return xp.where(exists, self.scale * k * xp.exp(betaln(k - 1 / c, 1 + 1 / c)), xp.inf)

    @property
    def tail_index(self) -> Values:
        return self.c * self.k

    @property
    def log_middle(self) -> Values:
        xp = namespace(self)
        return xp.log(self.scale) - xp.log(self.k) / self.c

    @property
    def log_bounds(self) -> Bounds:
        return Bounds()
