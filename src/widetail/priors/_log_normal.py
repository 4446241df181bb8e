"""The log-normal distribution."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from widetail.files import savable
from widetail.numerics import Bounds, concrete, namespace
from widetail.numerics.special import ndtr, ndtri
from widetail.priors._base import ScalePrior
from widetail.priors._parameters import Parameter, Values, parameter


@savable("priors.LogNormal")
class LogNormal(ScalePrior):
    r"""Log-normal, $\log\beta \sim \mathcal N(\mu, \sigma^2)$; $\mu$ is `loc`, $\sigma$ is `scale`.

    Every moment exists, but the tail is heavier than any exponential.

    Args:
        loc: mean of the *logarithm* of the variance.
        scale: *standard deviation* of the logarithm.

    Example:
        >>> from widetail import priors
        >>> float(priors.LogNormal(0.0, 2.0).quantile(0.5))
        1.0
    """

    loc: Parameter
    scale: Parameter

    def __init__(self, loc: Any = 0.0, scale: Any = 1.0):
        self.loc = parameter(loc, "LogNormal", "loc", positive=False)
        self.scale = parameter(scale, "LogNormal", "scale")

    def log_prob_of_log(self, log_scale: Values) -> Values:
        xp = namespace(self, log_scale)
        z = (log_scale - self.loc) / self.scale
        return -0.5 * z**2 - xp.log(self.scale) - 0.5 * math.log(2 * math.pi)

    def tails_of_log(self, log_scale: Values) -> tuple[Values, Values]:
        z = (log_scale - self.loc) / self.scale
        return ndtr(z), ndtr(-z)

    def log_quantile(self, p: Values) -> Values:
        return self.loc + self.scale * ndtri(p)

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Values:
        batch = jnp.broadcast_shapes(jnp.shape(self.loc), jnp.shape(self.scale))
        return self.loc + self.scale * concrete(jax.random.normal(key, shape + batch, dtype=float))

    def expectation(self) -> Values:
        xp = namespace(self)
        return xp.exp(self.loc + 0.5 * self.scale**2)

    @property
    def tail_index(self) -> Values:
        xp = namespace(self)
        return xp.full(jnp.broadcast_shapes(jnp.shape(self.loc), jnp.shape(self.scale)), xp.inf)

    @property
    def log_middle(self) -> Values:
        return self.loc

    @property
    def log_bounds(self) -> Bounds:
        return Bounds()
