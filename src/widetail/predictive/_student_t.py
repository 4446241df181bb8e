"""The multivariate t predictive distribution."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array

from widetail.mixing import log_inverse_gamma_integral
from widetail.numerics import concrete, increasing_root, namespace
from widetail.numerics.special import betainc, betaln, ndtri
from widetail.predictive._elliptical import Elliptical, checked_location, double_or_traced
from widetail.predictive._matrix import LazyMatrix
from widetail.priors import Values


class StudentT(Elliptical):
    r"""Multivariate t: $y_d \mid \beta \sim \mathcal N(\mathrm{loc}_d, \beta V)$ with $\beta \sim
    \mathrm{InverseGamma}(\nu/2, s\nu/2)$; $\nu$ is `df`, s is `scale`.

    The matrix $s V$ is the dispersion ("scale matrix"), not the covariance, which is $\nu/(\nu - 2)$ times that.
    The mean exists for df > 1, the variance for df > 2; quantiles and densities always do.

    Args:
        df: degrees of freedom, a number or one for each output.
        loc: location and median, of shape (m,) or (m, D).
        dispersion: diagonal of V, of shape (m,), or a function without arguments that returns it, called when first
            needed: means and medians do not.
        matrix: V itself, or a function without arguments that returns it, called when first needed; only
            `joint_log_prob` and `sample` need it.
        scale: s, a number, or one for each output when each has a scale of its own.

    Example:
        >>> import numpy as np
        >>> from widetail import predictive
        >>> dist = predictive.StudentT(4.0, np.zeros(2), np.ones(2))
        >>> dist.var.tolist()
        [2.0, 2.0]
    """

    df: Any
    loc: Any
    _dispersion: Any
    matrix: LazyMatrix
    scale: Any

    def __init__(self, df: Any, loc: Any, dispersion: Any, matrix: Any = None, scale: Any = 1.0):
        self.df = double_or_traced(df)
        self.loc, self._dispersion, self.matrix = checked_location("StudentT", loc, dispersion, matrix)
        self.scale = double_or_traced(scale)

    def _at_points(self, loc: Any, dispersion: Any, matrix: LazyMatrix | None) -> "StudentT":
        return StudentT(self.df, loc, dispersion, matrix, self.scale)

    @property
    def _law_shape(self) -> tuple[int, ...]:
        return jnp.broadcast_shapes(jnp.shape(self.df), jnp.shape(self.scale))

    def _standard_mean_exists(self) -> Any:
        return self.df > 1

    def _standard_var(self) -> Values:
        xp = namespace(self)
        exists = self.df > 2
        df = xp.where(exists, self.df, 3.0)
        return xp.where(exists, self.scale * df / (df - 2), xp.where(self.df > 1, xp.inf, xp.nan))

    def _standard_cdf(self, z: Values) -> Values:
        x = z / self.scale**0.5
        tail = _upper_tail(abs(x), self.df)
        return namespace(self, z).where(x < 0, tail, 1 - tail)

    def _standard_quantile(self, p: Values) -> Values:
        return self.scale**0.5 * _quantile(p, self.df)

    def _standard_crps(self, z: Values) -> Values:
        return self.scale**0.5 * _crps(z / self.scale**0.5, self.df)

    def _log_expected_gaussian(self, count: int, quad: Values) -> Values:
        a = 0.5 * self.df
        return log_inverse_gamma_integral(a, a * self.scale, 0.5 * count, 0.5 * quad)

    def _draw_scale(self, key: Array, shape: tuple[int, ...]) -> Values:
        a = namespace(self).broadcast_to(0.5 * self.df, self._law_shape)
        log_gamma = concrete(jax.random.loggamma(key, a, shape + a.shape, dtype=float))
        xp = namespace(self, log_gamma)
        return xp.exp(xp.log(a * self.scale) - log_gamma)


def _upper_tail(x: Any, df: Any) -> Any:
    """Probability of more than x >= 0, standard t."""
    if namespace(x, df) is np:
        return scipy.special.stdtr(df, -x)
    # Whichever incomplete beta function is the smaller has all its digits.
    ratio = x * (x / df)
    far = 0.5 * betainc(0.5 * df, 0.5, 1 / (1 + ratio))
    near = 0.5 - 0.5 * betainc(0.5, 0.5 * df, ratio / (1 + ratio))
    return jnp.where(x < 1, near, far)


def _log_density(x: Any, df: Any) -> Any:
    xp = namespace(x, df)
    return -0.5 * (df + 1) * xp.log1p(x * (x / df)) - 0.5 * xp.log(df) - betaln(0.5 * df, 0.5)


def _quantile(p: Any, df: Any) -> Any:
    if namespace(p, df) is not np:
        return _traced_quantile(*jnp.broadcast_arrays(jnp.asarray(p, float), jnp.asarray(df, float)))
    tail = np.minimum(p, 1 - p)
    with np.errstate(divide="ignore", over="ignore"):
        # one term of the incomplete beta function, which has all digits far out, where scipy's solver overflows
        log_far = 0.5 * np.log(df) - (np.log(tail * df) + betaln(0.5 * df, 0.5)) / df
        x = np.where(log_far - 0.5 * np.log(df) > 20.0, np.exp(log_far), -scipy.special.stdtrit(df, tail))
    return np.where(p < 0.5, -x, x)


@jax.jit
def _traced_quantile(p: Array, df: Array) -> Array:
    """Solved for the logarithm of the quantile, in the tail that p lies in."""
    tail = jnp.where(p < 0.5, p, 1 - p)

    def value_and_slope(log_x):
        x = jnp.exp(log_x)
        upper = _upper_tail(x, df)
        return jnp.log(tail) - jnp.log(upper), jnp.exp(_log_density(x, df) + log_x) / upper

    guess = jnp.log(jnp.maximum(-ndtri(tail), 1e-3))
    log_x = increasing_root(value_and_slope, jnp.full_like(p, -700.0), jnp.full_like(p, 709.0), guess)
    x = jnp.where(tail == 0.5, 0.0, jnp.where(tail == 0, jnp.inf, jnp.exp(log_x)))
    return jnp.where(p < 0.5, -x, x)


def _crps(z: Any, df: Any) -> Any:
    """Standard t. The formula holds for df > 1/2, with a removable singularity at 1."""
    xp = namespace(z, df)
    offset = xp.where(abs(df - 1) < 1e-5, 1e-5, 0.0)
    both_sides = 0.5 * (_crps_away_from_one(z, df + offset) + _crps_away_from_one(z, df - offset))
    return xp.where(df > 0.5, both_sides, xp.inf)


def _crps_away_from_one(z: Any, df: Any) -> Any:
    xp = namespace(z, df)
    df = xp.where(df > 0.5, df, 2.0)
    z = abs(z)
    spread = 2 * xp.sqrt(df) / (df - 1) * xp.exp(betaln(0.5, df - 0.5) - 2 * betaln(0.5, 0.5 * df))
    density = xp.exp(_log_density(z, df))
    return z * (1 - 2 * _upper_tail(z, df)) + 2 * density * (df + z**2) / (df - 1) - spread
