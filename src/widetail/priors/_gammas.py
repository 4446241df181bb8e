"""The gamma distribution, its inverse, and the ratio of two of them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy.special import gammaln
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from widetail._arrays import is_traced
from widetail._integrate import Bounds
from widetail._special import betainc, betaln, gammainc, gammaincc
from widetail.priors._base import ScalePrior
from widetail.priors._inversion import LOG_LARGEST, LOG_SMALLEST, log_quantile_by_root
from widetail.priors._parameters import Parameter, parameter


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

    def log_prob_of_log(self, log_scale: Float[Array, "..."]) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        x = jnp.log(self.b) - log_scale
        return self.a * x - jnp.exp(x) - gammaln(self.a)

    def tails_of_log(self, log_scale: Float[Array, "..."]) -> tuple[Array, Array]:
        """See `ScalePrior`."""
        above, below = _gamma_tails(self.a, jnp.log(self.b) - log_scale)
        return below, above

    def log_quantile(self, p: Float[Array, "..."]) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        if is_traced(self, p):
            return log_quantile_by_root(self, p)
        return jnp.log(self.b) - _log(scipy.special.gammainccinv(self.a, np.asarray(p)))

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        a, b = jnp.broadcast_arrays(self.a, self.b)
        return jnp.log(b) - jax.random.loggamma(key, a, shape + a.shape, dtype=float)

    def expectation(self) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        exists = self.a > 1
        return jnp.where(exists, self.b / (jnp.where(exists, self.a, 2.0) - 1), jnp.inf)

    @property
    def tail_index(self) -> Float[ArrayLike, "..."]:
        """See `ScalePrior`."""
        return self.a

    @property
    def log_middle(self) -> Float[ArrayLike, "..."]:
        """See `ScalePrior`."""
        return jnp.log(self.b) - jnp.log(self.a)

    @property
    def log_bounds(self) -> Bounds:
        """See `ScalePrior`."""
        return Bounds()


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

    def log_prob_of_log(self, log_scale: Float[Array, "..."]) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        x = jnp.log(self.b) + log_scale
        return self.a * x - jnp.exp(x) - gammaln(self.a)

    def tails_of_log(self, log_scale: Float[Array, "..."]) -> tuple[Array, Array]:
        """See `ScalePrior`."""
        return _gamma_tails(self.a, jnp.log(self.b) + log_scale)

    def log_quantile(self, p: Float[Array, "..."]) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        if is_traced(self, p):
            return log_quantile_by_root(self, p)
        return _log(scipy.special.gammaincinv(self.a, np.asarray(p))) - jnp.log(self.b)

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        a, b = jnp.broadcast_arrays(self.a, self.b)
        return jax.random.loggamma(key, a, shape + a.shape, dtype=float) - jnp.log(b)

    def expectation(self) -> Float[ArrayLike, "..."]:
        """See `ScalePrior`."""
        return self.a / self.b

    @property
    def tail_index(self) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        return jnp.full(jnp.broadcast_shapes(jnp.shape(self.a), jnp.shape(self.b)), jnp.inf)

    @property
    def log_middle(self) -> Float[ArrayLike, "..."]:
        """See `ScalePrior`."""
        return jnp.log(self.a) - jnp.log(self.b)

    @property
    def log_bounds(self) -> Bounds:
        """See `ScalePrior`."""
        return Bounds()


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

    def log_prob_of_log(self, log_scale: Float[Array, "..."]) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        x = log_scale - jnp.log(self.scale)
        # Symmetric form: no difference of large numbers in either tail.
        return -self.a * jax.nn.softplus(-x) - self.b * jax.nn.softplus(x) - betaln(self.a, self.b)

    def tails_of_log(self, log_scale: Float[Array, "..."]) -> tuple[Array, Array]:
        """See `ScalePrior`."""
        x = log_scale - jnp.log(self.scale)
        return betainc(self.a, self.b, jax.nn.sigmoid(x)), betainc(self.b, self.a, jax.nn.sigmoid(-x))

    def log_quantile(self, p: Float[Array, "..."]) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        if is_traced(self, p):
            return log_quantile_by_root(self, p)
        share = scipy.special.betaincinv(self.a, self.b, np.asarray(p))
        rest = scipy.special.betaincinv(self.b, self.a, 1 - np.asarray(p))
        return jnp.log(self.scale) + _log(share) - _log(rest)

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        a, b, scale = jnp.broadcast_arrays(self.a, self.b, self.scale)
        shape, (above, below) = shape + a.shape, jax.random.split(key)
        numerator = jax.random.loggamma(above, a, shape, dtype=float)
        return jnp.log(scale) + numerator - jax.random.loggamma(below, b, shape, dtype=float)

    def expectation(self) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        exists = self.b > 1
        return jnp.where(exists, self.scale * self.a / (jnp.where(exists, self.b, 2.0) - 1), jnp.inf)

    @property
    def tail_index(self) -> Float[ArrayLike, "..."]:
        """See `ScalePrior`."""
        return self.b

    @property
    def log_middle(self) -> Float[ArrayLike, "..."]:
        """See `ScalePrior`."""
        return jnp.log(self.scale) + jnp.log(self.a) - jnp.log(self.b)

    @property
    def log_bounds(self) -> Bounds:
        """See `ScalePrior`."""
        return Bounds()


def _gamma_tails(a: Parameter, log_x: Float[Array, "..."]) -> tuple[Array, Array]:
    """Probabilities that a standard gamma variable of shape a is below and above x."""
    x = jnp.exp(jnp.clip(log_x, LOG_SMALLEST, LOG_LARGEST))
    return gammainc(a, x), gammaincc(a, x)


def _log(value: np.ndarray | float) -> Array:
    with np.errstate(divide="ignore"):
        return jnp.asarray(np.log(value), float)
