"""Smooth activations with a closed-form dual."""

import math

import jax
import jax.numpy as jnp

from widetail.files import savable
from widetail.gaussian import arc
from widetail.nn.activations._activation import Activation
from widetail.nn.activations._determinants import OfDeterminant


@savable("nn.Erf")
class Erf(OfDeterminant):
    r"""The error function.

    The dual is $\tfrac{2}{\pi} \arcsin \frac{2 k_{12}}{\sqrt{(1 + 2 k_{11})(1 + 2 k_{22})}}$.
    """

    def function(self, x):
        return jax.scipy.special.erf(x)

    def _rate(self):
        return 2.0

    def _value_and_slope(self, k12, first, second, d, whole):
        scale = first[1] * second[1]
        value = (2 / math.pi) * arc.arcsin_beside(2 * k12 * scale, scale * scale * whole)
        return value, (4 / math.pi) * arc.inverse_sqrt(whole)


@savable("nn.Gelu")
class Gelu(OfDeterminant):
    r"""$x \Phi(x)$ with the normal distribution function $\Phi$ (not its tanh approximation).

    With $D = \frac{1}{2\pi} [(1 + k_{11})(1 + k_{22}) - k_{12}^2]^{-1/2}$ the dual is
    $D\,[k_{11} k_{22} + k_{12}^2 (\tfrac{1}{1 + k_{11}} + \tfrac{1}{1 + k_{22}} - 1)] + k_{12} E[\Phi \Phi']$, where
    $E[\Phi \Phi'] = \tfrac14 + \tfrac{1}{2\pi} \arcsin \frac{k_{12}}{\sqrt{(1 + k_{11})(1 + k_{22})}}$.
    """

    def function(self, x):
        return jax.nn.gelu(x, approximate=False)

    def _rate(self):
        return 1.0

    def _value_and_slope(self, k12, first, second, d, whole):
        # The derivative of the dual, arranged so that large variances do not cancel each other:
        # E[Phi Phi'] + density k12 [2 (s1 + s2) - (1 + k22 s1 + k11 s2 + d (s1 + s2)) / D]
        # with s = 1 / (1 + k).
        (k11, root1), (k22, root2) = first, second
        scale, shrink1, shrink2 = root1 * root2, root1 * root1, root2 * root2
        density = (1 / (2 * math.pi)) * arc.inverse_sqrt(whole)
        both_on = 0.25 + (1 / (2 * math.pi)) * arc.arcsin_beside(k12 * scale, scale * scale * whole)
        shrinks = shrink1 + shrink2
        value = density * (d + k12 * k12 * shrinks) + k12 * both_on
        bracket = 2 * shrinks - (1 + k22 * shrink1 + k11 * shrink2 + d * shrinks) / whole
        return value, both_on + density * k12 * bracket


@savable("nn.Exp")
class Exp(Activation):
    r"""$e^x$: the dual is $e^{(k_{11} + k_{22}) / 2 + k_{12}}$."""

    def function(self, x):
        return jnp.exp(x)

    def statistics(self, variance):
        return 0.5 * variance

    def dual(self, k12, first, second):
        return jnp.exp(first + second + k12)

    def dual_and_slope(self, k12, first, second):
        value = self.dual(k12, first, second)
        return value, value
