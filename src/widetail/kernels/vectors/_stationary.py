"""Stationary kernels, as baselines for wide networks."""

import abc
import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from widetail.checks import as_parameter, check_number, check_variance
from widetail.files import savable
from widetail.kernels._values import CrossFn, Get, KernelValues, Rows, RowsFn
from widetail.kernels.vectors._distances import squared_distances
from widetail.kernels.vectors._vectors import VectorKernel


class Stationary(VectorKernel):
    """A function of the scaled distance between two vectors."""

    length_scale: eqx.AbstractVar[Any]
    variance: eqx.AbstractVar[Any]

    def __check_init__(self):
        check_variance("length_scale", self.length_scale, positive=True, may_be_vector=True)
        check_variance("variance", self.variance, positive=True)

    @abc.abstractmethod
    def profile(self, squared: Float[Array, "..."]) -> Float[Array, "..."]:
        """The kernel of unit variance at a squared scaled distance."""

    def rows_fn(self, get: Get) -> RowsFn:
        """The inputs as they are: scaled before their differences are taken, large ones would lose digits."""
        return functools.partial(_rows, self)

    def cross_fn(self, get: Get) -> CrossFn:
        """The profile of every squared distance."""
        leaves, structure = jax.tree.flatten(self)
        return functools.partial(_cross, structure, leaves)


@jax.jit
def _rows(kernel: Stationary, x: Float[Array, "n d"]) -> Rows:
    diagonal = jnp.full(x.shape[0], jnp.asarray(kernel.variance, x.dtype))
    return Rows(x, None, KernelValues(diagonal))


@functools.partial(jax.jit, static_argnums=0)
def _cross(structure: Any, leaves: list[Any], rows1: Rows, rows2: Rows) -> KernelValues:
    kernel = jax.tree.unflatten(structure, leaves)
    dtype = rows1.inputs.dtype
    squared = squared_distances(rows1.inputs, rows2.inputs, 1 / jnp.asarray(kernel.length_scale, dtype))
    return KernelValues(jnp.asarray(kernel.variance, dtype) * kernel.profile(squared))


@savable("kernels.RBF")
class RBF(Stationary):
    r"""The Gaussian kernel $\sigma^2 \exp(-\tfrac12 \sum_i (x_i - x'_i)^2 / \ell_i^2)$.

    Args:
        length_scale: $\ell$, a length (not squared), or a vector of them, one per feature.
        variance: $\sigma^2$, the value at distance zero.

    Example:
        >>> import numpy as np
        >>> from widetail.kernels import RBF
        >>> RBF(length_scale=1.0).kernel(np.array([[0.0], [1.0]])).nngp.round(4)
        array([[1.    , 0.6065],
               [0.6065, 1.    ]])
    """

    length_scale: Any = eqx.field(default=1.0, converter=as_parameter)
    variance: Any = eqx.field(default=1.0, converter=as_parameter)

    def profile(self, squared):
        return jnp.exp(-0.5 * squared)


@savable("kernels.Matern")
class Matern(Stationary):
    r"""The Matern kernel of smoothness $\nu$, with scaled distance $r$ and $s = \sqrt{2\nu}\, r$.

    It is $\sigma^2 e^{-s}$ for $\nu = 1/2$, $\sigma^2 (1 + s) e^{-s}$ for $\nu = 3/2$ and
    $\sigma^2 (1 + s + s^2/3) e^{-s}$ for $\nu = 5/2$.

    Args:
        length_scale: a length (not squared), or a vector of them, one per feature.
        variance: $\sigma^2$, the value at distance zero.
        nu: smoothness: 0.5, 1.5 or 2.5.
    """

    length_scale: Any = eqx.field(default=1.0, converter=as_parameter)
    variance: Any = eqx.field(default=1.0, converter=as_parameter)
    nu: float = eqx.field(static=True, default=2.5)

    def __check_init__(self):
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"nu must be 0.5, 1.5 or 2.5; got {self.nu!r}.")

    def profile(self, squared):
        is_apart = squared > 0
        s = math.sqrt(2 * self.nu) * jnp.where(is_apart, jnp.sqrt(jnp.where(is_apart, squared, 1)), 0)
        polynomial = {0.5: 1.0, 1.5: 1 + s, 2.5: 1 + s + s * s / 3}[self.nu]
        return polynomial * jnp.exp(-s)


@savable("kernels.RationalQuadratic")
class RationalQuadratic(Stationary):
    r"""The kernel $\sigma^2 (1 + r^2 / (2 \alpha))^{-\alpha}$ of the scaled distance $r$.

    A scale mixture of Gaussian kernels of many lengths; for large $\alpha$ a single one.

    Args:
        length_scale: a length (not squared), or a vector of them, one per feature.
        variance: $\sigma^2$, the value at distance zero.
        alpha: how alike the lengths are; positive.
    """

    length_scale: Any = eqx.field(default=1.0, converter=as_parameter)
    variance: Any = eqx.field(default=1.0, converter=as_parameter)
    alpha: Any = eqx.field(default=1.0, converter=as_parameter)

    def __check_init__(self):
        check_number("alpha", self.alpha, positive=True)

    def profile(self, squared):
        alpha = jnp.asarray(self.alpha, squared.dtype)
        return jnp.exp(-alpha * jnp.log1p(squared / (2 * alpha)))
