"""Piecewise linear activations, and the sign."""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from widetail.checks import check_number
from widetail.files import savable
from widetail.gaussian import arc, norm_and_inverse
from widetail.nn.activations._activation import Activation


class _PiecewiseLinear(Activation):
    r"""Slope $s$ below zero and $t$ above.

    With correlation $c$ and the arc-cosine kernels $\kappa_0, \kappa_1$ the dual is
    $\sqrt{k_{11} k_{22}}\, [\tfrac12 (t - s)^2 \kappa_1(c) + s\, t\, c]$ and the dual of the derivative
    $\tfrac12 (t - s)^2 \kappa_0(c) + s\, t$.
    """

    is_homogeneous = True

    @property
    @abc.abstractmethod
    def _below(self) -> float:
        """The slope below zero."""

    @property
    def _above(self) -> float:
        """The slope above zero."""
        return 1.0

    def function(self, x):
        return jnp.where(x > 0, self._above * x, self._below * x)

    def statistics(self, variance):
        return norm_and_inverse(variance)

    def _weight(self) -> float:
        return 0.5 * (self._above - self._below) ** 2

    def _linear(self) -> float:
        return self._below * self._above

    def dual(self, k12, first, second):
        (norm1, inverse1), (norm2, inverse2) = first, second
        value = self._weight() * (norm1 * norm2) * arc.ramp(k12 * (inverse1 * inverse2))
        return value + self._linear() * k12 if self._linear() else value

    def dual_and_slope(self, k12, first, second):
        (_, inverse1), (_, inverse2) = first, second
        slope = self._weight() * arc.half_space(k12 * (inverse1 * inverse2)) + self._linear()
        return self.dual(k12, first, second), slope

    def at_equal(self, variance):
        second_moment = 0.5 * (self._above**2 + self._below**2)
        return second_moment * variance, jnp.full_like(variance, second_moment)


@savable("nn.Relu")
class Relu(_PiecewiseLinear):
    r"""$\max(x, 0)$."""

    @property
    def _below(self) -> float:
        return 0.0


def _as_static(value: Any) -> Any:
    """A number that can be part of a compiled function: arrays cannot."""
    return float(value) if isinstance(value, (jax.Array, np.ndarray)) and value.ndim == 0 else value


@savable("nn.LeakyRelu")
class LeakyRelu(_PiecewiseLinear):
    r"""$x$ above zero, `negative_slope` times $x$ below.

    Args:
        negative_slope: 0 for the relu, 1 for the identity.
    """

    negative_slope: float = eqx.field(static=True, default=0.01, converter=_as_static)

    def __check_init__(self):
        check_number("negative_slope", self.negative_slope)

    @property
    def _below(self) -> float:
        return self.negative_slope


@savable("nn.ABRelu")
class ABRelu(_PiecewiseLinear):
    r"""`below` times $x$ below zero, `above` times $x$ above.

    Args:
        below: the slope on the negative side.
        above: the slope on the positive side.
    """

    below: float = eqx.field(static=True, converter=_as_static)
    above: float = eqx.field(static=True, converter=_as_static)

    def __check_init__(self):
        check_number("below", self.below)
        check_number("above", self.above)

    @property
    def _below(self) -> float:
        return self.below

    @property
    def _above(self) -> float:
        return self.above


@savable("nn.Abs")
class Abs(_PiecewiseLinear):
    r"""$|x|$."""

    @property
    def _below(self) -> float:
        return -1.0


@savable("nn.Sign")
class Sign(Activation):
    r"""The sign of $x$: the dual is $\tfrac{2}{\pi} \arcsin c$.

    Its derivative is zero almost everywhere, so nothing below it is ever trained and the tangent kernel
    from below is 0, as automatic differentiation of the finite network says too.
    """

    def function(self, x):
        return jnp.sign(x)

    def statistics(self, variance):
        return norm_and_inverse(variance)[1]

    def dual(self, k12, first, second):
        return (2 / math.pi) * arc.arcsin(arc.snap(k12 * (first * second)))

    def dual_and_slope(self, k12, first, second):
        return self.dual(k12, first, second), jnp.zeros_like(k12)

    def at_equal(self, variance):
        return jnp.where(variance > 0, jnp.ones_like(variance), 0), jnp.zeros_like(variance)
