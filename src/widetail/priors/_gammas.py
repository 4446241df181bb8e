"""The gamma distribution, its inverse, and the ratio of two of them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, PRNGKeyArray

from widetail.files import savable
from widetail.numerics import Bounds, concrete, is_traced, namespace
from widetail.numerics.special import betainc, betaln, gammainc, gammaincc, gammaln, sigmoid, softplus
from widetail.priors._base import ScalePrior
from widetail.priors._inversion import LOG_LARGEST, LOG_SMALLEST, log_quantile_by_root
from widetail.priors._parameters import Parameter, Values, parameter


@savable("priors.InverseGamma")
class InverseGamma(ScalePrior):
    r"""Inverse gamma, $p(\beta) = \frac{b^a}{\Gamma(a)} \beta^{-a-1} e^{-b/\beta}$.

    With it the network is a Student-t process of $2a$ degrees of freedom, in closed form.

    Args:
        a: shape; the mean exists for a > 1, the variance for a > 2.
        b: rate of $1/\beta$, which is a *scale* of $\beta$: doubling b doubles the variance $\beta$.

    Example:
        >>> from widetail import priors
        >>> float(priors.InverseGamma(3.0, 4.0).mean)
        2.0
    """

    a: Parameter
    b: Parameter

    def __init__(self, a: Any, b: Any):
        self.a = parameter(a, "InverseGamma", "a")
        self.b = parameter(b, "InverseGamma", "b")

    def log_prob_of_log(self, log_scale: Values) -> Values:
        xp = namespace(self, log_scale)
        x = xp.log(self.b) - log_scale
        return self.a * x - xp.exp(x) - gammaln(self.a)

    def tails_of_log(self, log_scale: Values) -> tuple[Values, Values]:
        xp = namespace(self, log_scale)
        above, below = _gamma_tails(self.a, xp.log(self.b) - log_scale)
        return below, above

    def log_quantile(self, p: Values) -> Values:
        if is_traced(self, p):
            return log_quantile_by_root(self, p)
        return np.log(self.b) - np.log(scipy.special.gammainccinv(self.a, p))

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Values:
        a, b = namespace(self).broadcast_arrays(self.a, self.b)
        log_gamma = _log_gamma(key, a, shape + a.shape)
        return namespace(b, log_gamma).log(b) - log_gamma

    def expectation(self) -> Values:
        xp = namespace(self)
        exists = self.a > 1
        return xp.where(exists, self.b / (xp.where(exists, self.a, 2.0) - 1), xp.inf)

    @property
    def tail_index(self) -> Values:
        return self.a

    @property
    def log_middle(self) -> Values:
        xp = namespace(self)
        return xp.log(self.b) - xp.log(self.a)

    @property
    def log_bounds(self) -> Bounds:
        return Bounds()


@savable("priors.Gamma")
class Gamma(ScalePrior):
    r"""Gamma, $p(\beta) = \frac{b^a}{\Gamma(a)} \beta^{a-1} e^{-b\beta}$. Light tails: every moment exists.

    Args:
        a: shape.
        b: *rate*; the mean is a / b.

    Example:
        >>> from widetail import priors
        >>> float(priors.Gamma(3.0, 2.0).mean)
        1.5
    """

    a: Parameter
    b: Parameter

    def __init__(self, a: Any, b: Any):
        self.a = parameter(a, "Gamma", "a")
        self.b = parameter(b, "Gamma", "b")

    def log_prob_of_log(self, log_scale: Values) -> Values:
        xp = namespace(self, log_scale)
        x = xp.log(self.b) + log_scale
        return self.a * x - xp.exp(x) - gammaln(self.a)

    def tails_of_log(self, log_scale: Values) -> tuple[Values, Values]:
        xp = namespace(self, log_scale)
        return _gamma_tails(self.a, xp.log(self.b) + log_scale)

    def log_quantile(self, p: Values) -> Values:
        if is_traced(self, p):
            return log_quantile_by_root(self, p)
        return np.log(scipy.special.gammaincinv(self.a, p)) - np.log(self.b)

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Values:
        a, b = namespace(self).broadcast_arrays(self.a, self.b)
        log_gamma = _log_gamma(key, a, shape + a.shape)
        return log_gamma - namespace(b, log_gamma).log(b)

    def expectation(self) -> Values:
        return self.a / self.b

    @property
    def tail_index(self) -> Values:
        xp = namespace(self)
        return xp.full(jnp.broadcast_shapes(jnp.shape(self.a), jnp.shape(self.b)), xp.inf)

    @property
    def log_middle(self) -> Values:
        xp = namespace(self)
        return xp.log(self.a) - xp.log(self.b)

    @property
    def log_bounds(self) -> Bounds:
        return Bounds()


@savable("priors.BetaPrime")
class BetaPrime(ScalePrior):
    r"""Beta prime, $p(\beta) = \frac{(\beta/s)^{a-1} (1 + \beta/s)^{-a-b}}{s\,B(a, b)}$; s is `scale`.

    The ratio of two gamma variables. With a = b = 1/2 the standard deviation $\sqrt\beta$ is half-Cauchy
    (the horseshoe). Its cdf and quantile are not differentiable in a and b; everything else is.

    Args:
        a: shape at zero.
        b: shape of the tail; the mean exists for b > 1.
        scale: a scale (not a rate) of the variance.

    Example:
        >>> from widetail import priors
        >>> float(priors.BetaPrime(2.0, 3.0).mean)
        1.0
    """

    a: Parameter
    b: Parameter
    scale: Parameter

    def __init__(self, a: Any, b: Any, scale: Any = 1.0):
        self.a = parameter(a, "BetaPrime", "a")
        self.b = parameter(b, "BetaPrime", "b")
        self.scale = parameter(scale, "BetaPrime", "scale")

    def log_prob_of_log(self, log_scale: Values) -> Values:
        xp = namespace(self, log_scale)
        x = log_scale - xp.log(self.scale)
        # Symmetric form: no difference of large numbers in either tail.
        return -self.a * softplus(-x) - self.b * softplus(x) - betaln(self.a, self.b)

    def tails_of_log(self, log_scale: Values) -> tuple[Values, Values]:
        xp = namespace(self, log_scale)
        x = log_scale - xp.log(self.scale)
        return betainc(self.a, self.b, sigmoid(x)), betainc(self.b, self.a, sigmoid(-x))

    def log_quantile(self, p: Values) -> Values:
        if is_traced(self, p):
            return log_quantile_by_root(self, p)
        share = scipy.special.betaincinv(self.a, self.b, p)
        rest = scipy.special.betaincinv(self.b, self.a, 1 - p)
        return np.log(self.scale) + np.log(share) - np.log(rest)

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Values:
        a, b, scale = namespace(self).broadcast_arrays(self.a, self.b, self.scale)
        shape, (above, below) = shape + a.shape, jax.random.split(key)
        numerator = _log_gamma(above, a, shape)
        return namespace(scale, numerator).log(scale) + numerator - _log_gamma(below, b, shape)

    def expectation(self) -> Values:
        xp = namespace(self)
        exists = self.b > 1
        return xp.where(exists, self.scale * self.a / (xp.where(exists, self.b, 2.0) - 1), xp.inf)

    @property
    def tail_index(self) -> Values:
        return self.b

    @property
    def log_middle(self) -> Values:
        xp = namespace(self)
        return xp.log(self.scale) + xp.log(self.a) - xp.log(self.b)

    @property
    def log_bounds(self) -> Bounds:
        return Bounds()


def _gamma_tails(a: Parameter, log_x: Values) -> tuple[Values, Values]:
    """Probabilities that a standard gamma variable of shape a is below and above x."""
    xp = namespace(a, log_x)
    x = xp.exp(xp.clip(log_x, LOG_SMALLEST, LOG_LARGEST))
    return gammainc(a, x), gammaincc(a, x)


def _log_gamma(key: PRNGKeyArray | Array, a: Any, shape: tuple[int, ...]) -> Any:
    """Logarithms of gamma variables of shapes a."""
    return concrete(jax.random.loggamma(key, a, shape, dtype=float))
