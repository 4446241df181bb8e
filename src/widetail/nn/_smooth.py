"""Smooth activations with a closed-form dual."""

import math

import jax
import jax.numpy as jnp

from widetail.files import savable
from widetail.gaussian import arc
from widetail.nn._activation import Activation


@savable("nn.Erf")
class Erf(Activation):
    r"""The error function.

    The dual is $\tfrac{2}{\pi} \arcsin \frac{2 k_{12}}{\sqrt{(1 + 2 k_{11})(1 + 2 k_{22})}}$.
    """

    def function(self, x):
        return jax.scipy.special.erf(x)

    def statistics(self, variance):
        return math.sqrt(2) / jnp.sqrt(1 + 2 * variance)

    def dual(self, k12, first, second):
        return (2 / math.pi) * arc.arcsin(k12 * (first * second))

    def dual_and_slope(self, k12, first, second):
        scale = first * second
        c = k12 * scale
        rest = _one_minus_square(c, 0.5 * first * first, 0.5 * second * second)
        return (2 / math.pi) * arc.arcsin(c), (2 / math.pi) * scale * arc.inverse_sqrt(rest)

    def at_equal(self, variance):
        statistics = self.statistics(variance)
        return self.dual(variance, statistics, statistics), (4 / math.pi) / jnp.sqrt(1 + 4 * variance)


@savable("nn.Gelu")
class Gelu(Activation):
    r"""$x \Phi(x)$ with the normal distribution function $\Phi$ (not its tanh approximation).

    With $D = \frac{1}{2\pi} [(1 + k_{11})(1 + k_{22}) - k_{12}^2]^{-1/2}$ the dual is
    $D\,[k_{11} k_{22} + k_{12}^2 (\tfrac{1}{1 + k_{11}} + \tfrac{1}{1 + k_{22}} - 1)] + k_{12} E[\Phi \Phi']$, where
    $E[\Phi \Phi'] = \tfrac14 + \tfrac{1}{2\pi} \arcsin \frac{k_{12}}{\sqrt{(1 + k_{11})(1 + k_{22})}}$.
    """

    def function(self, x):
        return jax.nn.gelu(x, approximate=False)

    def statistics(self, variance):
        return variance, 1 / (1 + variance), 1 / jnp.sqrt(1 + variance)

    def dual(self, k12, first, second):
        (k11, shrink1, root1), (k22, shrink2, root2) = first, second
        scale = root1 * root2
        c = k12 * scale
        density = (1 / (2 * math.pi)) * scale * arc.inverse_sqrt(_one_minus_square(c, shrink1, shrink2))
        both_on = 0.25 + (1 / (2 * math.pi)) * arc.arcsin(c)
        return density * (k11 * k22 + k12 * k12 * (shrink1 + shrink2 - 1)) + k12 * both_on

    def dual_and_slope(self, k12, first, second):
        # The derivative of the dual, arranged so that large variances do not cancel each other:
        # E[Phi Phi'] + D k12 [2 (s1 + s2) - (1 + k22 s1 + k11 s2 + d (s1 + s2)) / (1 + k11 + k22 + d)]
        # with s = 1 / (1 + k) and d = k11 k22 - k12^2.
        (k11, shrink1, root1), (k22, shrink2, root2) = first, second
        scale = root1 * root2
        c = k12 * scale
        rest = _one_minus_square(c, shrink1, shrink2)
        density = (1 / (2 * math.pi)) * scale * arc.inverse_sqrt(rest)
        both_on = 0.25 + (1 / (2 * math.pi)) * arc.arcsin(c)
        shrinks, least = shrink1 + shrink2, 1 + k11 + k22
        whole = rest * ((1 + k11) * (1 + k22))
        bracket = 2 * shrinks - (1 + k22 * shrink1 + k11 * shrink2 + (whole - least) * shrinks) / whole
        return self.dual(k12, first, second), both_on + density * k12 * bracket


def _one_minus_square(c, shrink1, shrink2):
    """1 - c^2, where c^2 <= (1 - shrink1)(1 - shrink2): a bound that rounding breaks where the variances are huge.

    Half of the bound, so that it stays out of derivatives where equal inputs attain it.
    """
    return jnp.maximum((1 - c) * (1 + c), 0.5 * (shrink1 + shrink2 - shrink1 * shrink2))


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
