"""Polynomial activations: their duals are polynomials too, exact at any variance."""

import abc
import functools
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from widetail.checks import as_parameter, check_count
from widetail.files import savable
from widetail.nn.activations._activation import Activation


class _Polynomial(Activation):
    r"""$\phi(x) = \sum_m c_m x^m$.

    In Hermite polynomials of a variable with variance $k$ the coefficients are $k^{j/2}\, b_j(k)$ with polynomials
    $b_j$, so that the dual is $\sum_j b_j(k_{11})\, b_j(k_{22})\, k_{12}^j$: finite sums, no root and no division.
    """

    @abc.abstractmethod
    def _coefficients(self) -> Any:
        """The numbers $c_m$, from the constant up, shape (degree + 1,)."""

    def function(self, x):
        coefficients = jnp.asarray(self._coefficients(), x.dtype)
        return _horner([coefficients[m] for m in range(len(coefficients))], x)

    def statistics(self, variance):
        coefficients = jnp.asarray(self._coefficients(), variance.dtype)
        degree = len(coefficients) - 1
        parts = []
        for j in range(degree + 1):
            terms = [coefficients[m] * _hermite_part(m, j) for m in range(j, degree + 1, 2)]
            parts.append(_horner(terms, variance))
        return jnp.stack(parts)

    def dual(self, k12, first, second):
        return _horner([first[j] * second[j] for j in range(len(first))], k12)

    def dual_and_slope(self, k12, first, second):
        slope = [j * (first[j] * second[j]) for j in range(1, len(first))]
        return self.dual(k12, first, second), _horner(slope, k12) if slope else jnp.zeros_like(k12)


def _horner(terms, x):
    """The sum of `terms[m] * x**m`."""
    total = jnp.broadcast_to(terms[-1], jnp.broadcast_shapes(jnp.shape(terms[-1]), x.shape))
    for term in reversed(terms[:-1]):
        total = total * x + term
    return total


@functools.cache
def _hermite_part(m: int, j: int) -> float:
    """What the monomial x^m holds of the j-th normalised Hermite polynomial, at variance one."""
    half = (m - j) // 2
    return math.factorial(m) / (2**half * math.factorial(half) * math.sqrt(math.factorial(j)))


@savable("nn.Polynomial")
class Polynomial(_Polynomial):
    r"""$c_0 + c_1 x + c_2 x^2 + \dots$

    Args:
        coefficients: $c_0, c_1, \dots$, the constant first.

    Example:
        >>> import numpy as np
        >>> from widetail import nn
        >>> net = nn.Sequential(nn.Dense(), nn.Polynomial([0.0, 0.0, 1.0]))
        >>> net.kernel(np.array([[2.0]]), get="nngp").nngp  # E[z^4] = 3 k^2
        array([[48.]])
    """

    coefficients: Any = eqx.field(converter=as_parameter)

    def __check_init__(self):
        if jnp.ndim(self.coefficients) != 1 or jnp.shape(self.coefficients)[0] == 0:
            raise ValueError(
                f"nn.Polynomial: coefficients must be a list of numbers, the constant first, such as [0, 1, 0.5]; "
                f"got {self.coefficients!r}."
            )
        if isinstance(self.coefficients, np.ndarray) and not np.all(np.isfinite(self.coefficients)):
            raise ValueError(f"nn.Polynomial: coefficients must be finite; got {self.coefficients.tolist()}.")

    def _coefficients(self):
        return self.coefficients


# The moments of a higher power leave the range of single precision at variances that people have.
HIGHEST_DEGREE = 20


class _OfDegree(_Polynomial):
    degree: eqx.AbstractVar[int]

    def __check_init__(self):
        check_degree(f"nn.{type(self).__name__}", self.degree)


def check_degree(layer: str, degree: Any) -> None:
    """A degree that has a use and whose moments can be computed."""
    if check_count(f"{layer}: degree", degree, 0) > HIGHEST_DEGREE:
        raise ValueError(f"{layer}: degree must be at most {HIGHEST_DEGREE}; got {degree}.")


@savable("nn.Monomial")
class Monomial(_OfDegree):
    """The power `x**degree`."""

    degree: int = eqx.field(static=True)

    def _coefficients(self):
        return np.eye(self.degree + 1)[self.degree]


@savable("nn.Hermite")
class Hermite(_OfDegree):
    r"""The normalised (probabilists') Hermite polynomial $h_j$ of this degree.

    Under a standard normal variable $E[h_j(z)\, h_j(z')] = k_{12}^j$; variances other than one are taken as they are.
    """

    degree: int = eqx.field(static=True)

    def _coefficients(self):
        unit = np.eye(self.degree + 1)[self.degree]
        return np.polynomial.hermite_e.herme2poly(unit) / math.sqrt(math.factorial(self.degree))
