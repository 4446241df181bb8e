"""Special functions of NumPy and of JAX arrays.

NumPy arrays go to scipy: nothing is compiled, and the incomplete functions keep their digits for large parameters.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jax.scipy.special
import numpy as np
import scipy.special

from widetail.numerics._arrays import namespace


def _either(name: str) -> Callable[..., Any]:
    in_jax, in_scipy = getattr(jax.scipy.special, name), getattr(scipy.special, name)

    def call(*arguments: Any) -> Any:
        if namespace(arguments) is np:
            return in_scipy(*arguments)
        return in_jax(*jnp.broadcast_arrays(*(jnp.asarray(argument, float) for argument in arguments)))

    call.__doc__ = f"`scipy.special.{name}`."
    return call


ndtr = _either("ndtr")
log_ndtr = _either("log_ndtr")
ndtri = _either("ndtri")
erf = _either("erf")
gammaln = _either("gammaln")
gammainc = _either("gammainc")
gammaincc = _either("gammaincc")
betainc = _either("betainc")  # JAX has its derivative in the last argument alone


def logsumexp(x: Any) -> Any:
    """Log of the sum of the exponentials along the first axis."""
    if namespace(x) is jnp:
        return jax.nn.logsumexp(x, axis=0)
    highest = np.max(x, axis=0)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    return highest + np.log(np.sum(np.exp(x - highest), axis=0))


def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    return namespace(x).logaddexp(x, 0.0)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return jax.nn.sigmoid(x) if namespace(x) is jnp else scipy.special.expit(x)


def log_gamma_ratio(a: Any, h: Any) -> Any:
    """log(gamma(a + h) / gamma(a)) for h >= 0, without cancellation for a large a.

    JAX's betaln would give it too, but it is only good to some 1e-8.
    """
    xp = namespace(a, h)
    is_large = a > 50.0
    small, large = xp.where(is_large, 1.0, a), xp.where(is_large, a, 100.0)
    direct = gammaln(small + h) - gammaln(small)
    leading = (large + h - 0.5) * xp.log1p(h / large) + h * (xp.log(large) - 1)
    return xp.where(is_large, leading + _stirling(large + h) - _stirling(large), direct)


def _stirling(x: Any) -> Any:
    """What Stirling's formula lacks of log gamma, for x > 50: the next term of the series is below 1e-17."""
    square = 1 / (x * x)
    return (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / x


def betaln(a: Any, b: Any) -> Any:
    """Log of the beta function, differentiable, to the last digits."""
    xp = namespace(a, b)
    low, high = xp.minimum(a, b), xp.maximum(a, b)
    return gammaln(low) - log_gamma_ratio(high, low)
