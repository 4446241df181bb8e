"""The half-Cauchy distribution."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from widetail.files import savable
from widetail.numerics import Bounds, concrete, namespace
from widetail.priors._base import ScalePrior
from widetail.priors._parameters import Parameter, Values, parameter


@savable("priors.HalfCauchy")
class HalfCauchy(ScalePrior):
    r"""Half-Cauchy, $p(\beta) = \frac{2}{\pi s (1 + (\beta/s)^2)}$; s is `scale`. No mean.

    This is a half-Cauchy *variance*. For a half-Cauchy standard deviation of scale s take
    `BetaPrime(0.5, 0.5, scale=s**2)`.

    Args:
        scale: the median of the variance.

    Example:
        >>> from widetail import priors
        >>> float(priors.HalfCauchy(2.0).mean)
        inf
    """

    scale: Parameter

    def __init__(self, scale: Any = 1.0):
        self.scale = parameter(scale, "HalfCauchy", "scale")

    def log_prob_of_log(self, log_scale: Values) -> Values:
        xp = namespace(self, log_scale)
        x = log_scale - xp.log(self.scale)
        return math.log(2 / math.pi) - xp.logaddexp(x, -x)

    def tails_of_log(self, log_scale: Values) -> tuple[Values, Values]:
        xp = namespace(self, log_scale)
        x = log_scale - xp.log(self.scale)
        return 2 / math.pi * xp.arctan(xp.exp(x)), 2 / math.pi * xp.arctan(xp.exp(-x))

    def log_quantile(self, p: Values) -> Values:
        xp = namespace(self, p)
        lower_half = p < 0.5
        smaller = xp.where(lower_half, p, 1 - p)
        log_tan = xp.log(xp.tan(0.5 * math.pi * smaller))
        return xp.log(self.scale) + xp.where(lower_half, log_tan, -log_tan)

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Values:
        draws = concrete(jax.random.cauchy(key, shape + jnp.shape(self.scale), dtype=float))
        xp = namespace(self, draws)
        return xp.log(self.scale) + xp.log(xp.abs(draws))

    def expectation(self) -> Values:
        xp = namespace(self)
        return xp.full(jnp.shape(self.scale), xp.inf)

    @property
    def tail_index(self) -> Values:
        xp = namespace(self)
        return xp.ones(jnp.shape(self.scale))

    @property
    def log_middle(self) -> Values:
        xp = namespace(self)
        return xp.log(self.scale)

    @property
    def log_bounds(self) -> Bounds:
        return Bounds()
