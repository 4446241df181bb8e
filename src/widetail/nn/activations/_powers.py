"""Powers of the positive part: arc-cosine kernels of any order."""

import functools
import math
from fractions import Fraction

import equinox as eqx
import jax
import jax.numpy as jnp

from widetail.files import savable
from widetail.gaussian import arc, norm_and_inverse
from widetail.nn.activations._activation import Activation
from widetail.nn.activations._polynomials import check_degree


@savable("nn.RectifiedMonomial")
class RectifiedMonomial(Activation):
    r"""$\max(x, 0)^m$; for $m = 0$ the step function.

    With correlation $c = \cos\theta$ the dual is $\tfrac{1}{2\pi} (k_{11} k_{22})^{m/2} J_m(c)$, where
    $J_0 = \pi - \theta$, $J_1 = \sin\theta + (\pi - \theta) \cos\theta$ and $J_m' = m^2 J_{m-1}$ (Cho and Saul, 2009).
    The derivative of the step is zero almost everywhere, so nothing below it is trained.

    Args:
        degree: the power $m$.
    """

    degree: int = eqx.field(static=True)

    def __check_init__(self):
        check_degree("nn.RectifiedMonomial", self.degree)

    def function(self, x):
        if self.degree == 0:
            return jnp.where(x > 0, jnp.ones_like(x), 0)
        return jnp.maximum(x, 0) ** self.degree

    def statistics(self, variance):
        return norm_and_inverse(variance)

    def dual(self, k12, first, second):
        value = self._moment(self.degree, k12, first, second)
        if self.degree == 0:  # the step is 0 at zero, where a variable that does not vary stays
            return jnp.where(first[1] * second[1] > 0, value, 0)
        return value

    def dual_and_slope(self, k12, first, second):
        if self.degree == 0:
            return self.dual(k12, first, second), jnp.zeros_like(k12)
        slope = self.degree**2 * self._moment(self.degree - 1, k12, first, second)
        return self.dual(k12, first, second), slope

    def _moment(self, degree, k12, first, second):
        """The expectation of the product of this power of both positive parts."""
        (norm1, inverse1), (norm2, inverse2) = first, second
        return 0.5 * (norm1 * norm2) ** degree * _arc_cosine(degree, k12 * (inverse1 * inverse2))

    def at_equal(self, variance):
        value = 0.5 * _odd_product(2 * self.degree - 1) * variance**self.degree
        if self.degree == 0:
            return jnp.where(variance > 0, value, 0), jnp.zeros_like(variance)
        below = 0.5 * _odd_product(2 * self.degree - 3) * variance ** (self.degree - 1)
        return value, self.degree**2 * below


def _odd_product(last: int) -> int:
    """1 * 3 * 5 * ... up to `last`."""
    return math.prod(range(1, last + 1, 2))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _arc_cosine(degree, c):
    r"""$J_m(c) / \pi$, as $P(c) \sin\theta / \pi + Q(c) (\pi - \theta) / \pi$ with polynomials $P$ and $Q$."""
    if degree == 0:
        return arc.half_space(c)
    if degree == 1:
        return arc.ramp(c)
    c = arc.snap(c)
    with_sine, with_angle = _polynomials(degree)
    sine = jnp.sqrt(jnp.maximum((1 - c) * (1 + c), 0))
    return _horner(with_sine, c) * (sine * (1 / math.pi)) + _horner(with_angle, c) * arc.half_space(c)


@_arc_cosine.defjvp
def _arc_cosine_jvp(degree, primals, tangents):
    (c,), (dc,) = primals, tangents
    value = _arc_cosine(degree, c)
    if degree == 0:
        return value, jax.jvp(arc.half_space, (c,), (dc,))[1]
    return value, degree**2 * _arc_cosine(degree - 1, c) * dc


def _horner(coefficients, x):
    total = jnp.full_like(x, float(coefficients[-1]))
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + float(coefficient)
    return total


@functools.cache
def _polynomials(degree: int) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    r"""The coefficients of $P$ and $Q$, from the constant up.

    Put into $J_m' = m^2 J_{m-1}$ they give $Q_m' = m^2 Q_{m-1}$ and
    $(1 - c^2) P_m' - c P_m = m^2 (1 - c^2) P_{m-1} - Q_m$, which is solved from the highest power down.
    """
    if degree == 0:
        return (Fraction(0),), (Fraction(1),)
    lower_p, lower_q = _polynomials(degree - 1)
    square = Fraction(degree**2)
    q = [Fraction(0), *(square * value / (j + 1) for j, value in enumerate(lower_q))]
    right = [-value for value in q] + [Fraction(0)] * 2
    for j, value in enumerate(lower_p):
        right[j] += square * value
        right[j + 2] -= square * value
    p = [Fraction(0)] * (degree + 2)
    for j in range(degree, 0, -1):
        p[j - 1] = ((j + 1) * p[j + 1] - right[j]) / j
    q[0] = right[0] - p[1]  # the constant of the integration, which the lowest power fixes
    return tuple(p[:degree]), tuple(q)
