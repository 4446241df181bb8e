"""Activations that vanish far from zero, and the normalised exponential."""

import equinox as eqx
import jax.numpy as jnp

from widetail.checks import as_parameter, check_number
from widetail.files import savable
from widetail.gaussian import norm_and_inverse
from widetail.nn.activations._activation import Activation
from widetail.nn.activations._determinants import OfDeterminant


@savable("nn.Gaussian")
class Gaussian(OfDeterminant):
    r"""$e^{-r x^2}$: the dual is $[(1 + 2 r k_{11})(1 + 2 r k_{22}) - 4 r^2 k_{12}^2]^{-1/2}$.

    Args:
        rate: $r$, positive.
    """

    rate: float = eqx.field(default=1.0, converter=as_parameter)

    def __check_init__(self):
        check_number("rate", self.rate, positive=True)

    def function(self, x):
        return jnp.exp(-jnp.asarray(self.rate, x.dtype) * x * x)

    def _rate(self):
        return 2 * self.rate

    def _value_and_slope(self, k12, first, second, d, whole):
        inverse = 1 / whole
        value = jnp.sqrt(inverse)
        return value, jnp.asarray(self._rate(), k12.dtype) ** 2 * k12 * inverse * value


@savable("nn.Gabor")
class Gabor(OfDeterminant):
    r"""$e^{-x^2} \sin x$.

    With $D = (1 + 2 k_{11})(1 + 2 k_{22}) - 4 k_{12}^2$ the dual is
    $D^{-1/2} \exp(-\tfrac12 + \tfrac{1 + k_{11} + k_{22}}{2 D}) \sinh(k_{12} / D)$.
    """

    def function(self, x):
        return jnp.exp(-x * x) * jnp.sin(x)

    def _rate(self):
        return 2.0

    def _value_and_slope(self, k12, first, second, d, whole):
        inverse = 1 / whole
        half = (1 + first[0] + second[0]) * inverse
        front = jnp.sqrt(inverse) * jnp.exp(0.5 * (half - 1))
        sine, cosine = jnp.sinh(k12 * inverse), jnp.cosh(k12 * inverse)
        relative = k12 * inverse
        slope = front * (4 * relative * (1 + half) * sine + inverse * (1 + 8 * k12 * relative) * cosine)
        return front * sine, slope


@savable("nn.ExpNormalized")
class ExpNormalized(Activation):
    r"""The exponential of normalised features: the dual is $\sqrt{k_{11} k_{22}}\, e^{\gamma (c + s)}$.

    In a finite network the features of a row (at a position) are divided by their root mean square $\rho$, and
    $\rho\, e^{\gamma s / 2}\, e^{\sqrt\gamma x / \rho - \gamma / 2}$ is what comes out.

    Args:
        gamma: $\gamma$, positive.
        shift: $s$; with -1 the second moment of a variable is kept.
    """

    gamma: float = eqx.field(default=1.0, converter=as_parameter)
    shift: float = eqx.field(default=-1.0, converter=as_parameter)
    is_homogeneous = True

    def __check_init__(self):
        check_number("gamma", self.gamma, positive=True)
        check_number("shift", self.shift)

    def function(self, x):
        """The activation, with features in the last axis."""
        gamma, shift = (jnp.asarray(value, x.dtype) for value in (self.gamma, self.shift))
        norm, inverse = norm_and_inverse(jnp.mean(x * x, axis=-1, keepdims=True))
        return norm * jnp.exp(jnp.sqrt(gamma) * (x * inverse) + 0.5 * gamma * (shift - 1))

    def statistics(self, variance):
        return norm_and_inverse(variance)

    def dual(self, k12, first, second):
        (norm1, _), (norm2, _) = first, second
        return (norm1 * norm2) * self._exponential(k12, first, second)

    def dual_and_slope(self, k12, first, second):
        value = self._exponential(k12, first, second)
        (norm1, _), (norm2, _) = first, second
        return (norm1 * norm2) * value, jnp.asarray(self.gamma, k12.dtype) * value

    def _exponential(self, k12, first, second):
        (_, inverse1), (_, inverse2) = first, second
        gamma, shift = (jnp.asarray(value, k12.dtype) for value in (self.gamma, self.shift))
        return jnp.exp(gamma * (k12 * (inverse1 * inverse2) + shift))
