"""Sines and cosines, whose duals are functions of distances."""

import abc
import functools
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from widetail.checks import as_parameter, check_number
from widetail.files import savable
from widetail.nn.activations._activation import Activation


class _Wave(Activation):
    r"""A mixture of $\sin(\omega x)$ and $\cos(\omega x)$.

    Between an input and another one, or its opposite, lie the squared distances
    $d_\mp = k_{11} + k_{22} \mp 2 k_{12}$. Then $S = E[\sin \sin'] = \tfrac12 (e^{-\omega^2 d_- / 2} -
    e^{-\omega^2 d_+ / 2})$ and $C = E[\cos \cos'] = \tfrac12 (e^{-\omega^2 d_- / 2} + e^{-\omega^2 d_+ / 2})$.
    The dual is a sum of the two with weights $a$ and $b$, its derivative $\omega^2 (a\, C + b\, S)$.

    Covariances of large inputs, or of inputs far from the origin, hold few digits of a distance or none, so the
    first layer gets them from differences of the inputs; see `Apart`.
    """

    @abc.abstractmethod
    def _square(self) -> Any:
        """The square of the frequency."""

    @abc.abstractmethod
    def _weights(self) -> tuple[Any, Any]:
        """The weights of sine and cosine in the dual."""

    def needs_distances(self, wanted: bool) -> bool:
        return True

    def statistics(self, variance):
        return variance

    def dual(self, k12, first, second):
        return self._value_and_slope(k12, _apart(k12, first, second))[0]

    def dual_and_slope(self, k12, first, second):
        return self._value_and_slope(k12, _apart(k12, first, second))

    def at_equal(self, variance):
        return self._value_and_slope(variance, (jnp.zeros_like(variance), 4 * variance))

    def limit_cross(self, k, statistics1, statistics2):
        apart = k.apart[:2] if k.apart is not None else _apart(k.nngp, *k.align(statistics1, statistics2))
        value, slope = self._value_and_slope(k.nngp, apart)
        return k.with_values(value, None if k.ntk is None else k.ntk * slope)

    def _value_and_slope(self, k12, apart):
        # With the exponential of the smaller distance taken out, what is left of the difference of the two is
        # 1 - exp(-2 w^2 |k12|), which has its digits at inputs of any size. Chosen by the sign of k12, not by absolute
        # values: so the derivatives are right at zero too.
        square = jnp.asarray(self._square(), k12.dtype)
        is_near, (minus, plus) = k12 >= 0, apart
        nearest = 0.5 * jnp.exp(-0.5 * square * jnp.where(is_near, minus, plus))
        rest = _one_minus_exp(2 * square * jnp.where(is_near, k12, -k12))
        sines, cosines = nearest * jnp.where(is_near, rest, -rest), nearest * (2 - rest)
        a, b = (jnp.asarray(weight, k12.dtype) for weight in self._weights())
        return a * sines + b * cosines, square * (a * cosines + b * sines)


def _one_minus_exp(t):
    """1 - exp(-t) for t >= 0: `expm1`, which XLA calls element by element, ten times as slow."""
    near_zero = t * functools.reduce(lambda total, j: 1 - total * (t * (1 / j)), range(14, 1, -1), jnp.ones_like(t))
    return jnp.where(t < 0.35, near_zero, 1 - jnp.exp(-t))


def _apart(k12, variance1, variance2):
    """Distances from covariances: zero where only rounding may have kept them from being so."""
    total = variance1 + variance2
    least = 8 * jnp.finfo(k12.dtype).eps * total
    minus, plus = total - 2 * k12, total + 2 * k12
    return jnp.where(minus > least, minus, 0), jnp.where(plus > least, plus, 0)


@savable("nn.Sin")
class Sin(_Wave):
    r"""$\sin(\omega x + \varphi)$ with frequency $\omega$ and phase $\varphi$.

    The dual is $\tfrac12 [e^{-\omega^2 (k_{11} + k_{22} - 2 k_{12}) / 2}
    - \cos(2\varphi)\, e^{-\omega^2 (k_{11} + k_{22} + 2 k_{12}) / 2}]$.
    """

    frequency: float = eqx.field(default=1.0, converter=as_parameter)
    phase: float = eqx.field(default=0.0, converter=as_parameter)

    def __check_init__(self):
        check_number("frequency", self.frequency)
        check_number("phase", self.phase)

    def function(self, x):
        return jnp.sin(jnp.asarray(self.frequency, x.dtype) * x + jnp.asarray(self.phase, x.dtype))

    def _square(self):
        return self.frequency**2

    def _weights(self):
        return jnp.cos(self.phase) ** 2, jnp.sin(self.phase) ** 2


@savable("nn.Cos")
class Cos(_Wave):
    r"""$\cos(\omega x)$ with frequency $\omega$.

    The dual is $\tfrac12 [e^{-\omega^2 (k_{11} + k_{22} - 2 k_{12}) / 2}
    + e^{-\omega^2 (k_{11} + k_{22} + 2 k_{12}) / 2}]$.
    """

    frequency: float = eqx.field(default=1.0, converter=as_parameter)

    def __check_init__(self):
        check_number("frequency", self.frequency)

    def function(self, x):
        return jnp.cos(jnp.asarray(self.frequency, x.dtype) * x)

    def _square(self):
        return self.frequency**2

    def _weights(self):
        return 0.0, 1.0


@savable("nn.Rbf")
class Rbf(_Wave):
    r"""$\sqrt2 \sin(\sqrt{2\gamma}\, x + \pi/4)$: random Fourier features.

    The dual is $e^{-\gamma (k_{11} + k_{22} - 2 k_{12})}$.

    After one `Dense(weight_var=w)` on inputs with $d$ features this is the Gaussian kernel
    $\exp(-\gamma w \|x - x'\|^2 / d)$.

    Args:
        gamma: $\gamma$, an inverse squared length.
    """

    gamma: float = eqx.field(default=1.0, converter=as_parameter)

    def __check_init__(self):
        check_number("gamma", self.gamma, positive=True)

    def function(self, x):
        return math.sqrt(2) * jnp.sin(jnp.sqrt(2 * jnp.asarray(self.gamma, x.dtype)) * x + math.pi / 4)

    def _square(self):
        return 2 * self.gamma

    def _weights(self):
        return 1.0, 1.0

    def _value_and_slope(self, k12, apart):
        minus, _ = apart  # sine and cosine together: one exponential
        square = jnp.asarray(self._square(), k12.dtype)
        value = jnp.exp(-0.5 * square * minus)
        return value, square * value
