"""Gamma and beta functions to the last digits.

JAX has them, but compiles each for seconds and loses digits for large parameters; scipy has neither problem and
no derivatives. Concrete numbers go to scipy, traced ones to JAX.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jax.scipy.special
import numpy as np
import scipy.special
from jaxtyping import Array

from widetail._arrays import is_traced


def gammainc(a: Any, x: Any) -> Array:
    """Regularised lower incomplete gamma function."""
    return _call(jax.scipy.special.gammainc, scipy.special.gammainc, a, x)


def gammaincc(a: Any, x: Any) -> Array:
    """Regularised upper incomplete gamma function."""
    return _call(jax.scipy.special.gammaincc, scipy.special.gammaincc, a, x)


def betainc(a: Any, b: Any, x: Any) -> Array:
    """Regularised incomplete beta function; JAX has its derivative in x alone."""
    return _call(jax.scipy.special.betainc, scipy.special.betainc, a, b, x)


def _call(traced: Callable[..., Array], concrete: Callable[..., Any], *arguments: Any) -> Array:
    if is_traced(arguments):
        return traced(*jnp.broadcast_arrays(*(jnp.asarray(argument, float) for argument in arguments)))
    return jnp.asarray(concrete(*(np.asarray(argument, np.float64) for argument in arguments)), float)


def log_gamma_ratio(a: Any, h: Any) -> Array:
    """log(gamma(a + h) / gamma(a)) for h >= 0, without cancellation for a large a.

    JAX's betaln would give it too, but it is only good to some 1e-8.
    """
    is_large = a > 50.0
    small, large = jnp.where(is_large, 1.0, a), jnp.where(is_large, a, 100.0)
    direct = jax.scipy.special.gammaln(small + h) - jax.scipy.special.gammaln(small)
    leading = (large + h - 0.5) * jnp.log1p(h / large) + h * (jnp.log(large) - 1)
    return jnp.where(is_large, leading + _stirling(large + h) - _stirling(large), direct)


def _stirling(x: Any) -> Any:
    """What Stirling's formula lacks of log gamma, for x > 50: the next term of the series is below 1e-17."""
    square = 1 / (x * x)
    return (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / x


def betaln(a: Any, b: Any) -> Array:
    """Log of the beta function, differentiable."""
    low, high = jnp.minimum(a, b), jnp.maximum(a, b)
    return jax.scipy.special.gammaln(low) - log_gamma_ratio(high, low)
