"""The power-exponential kernel: how rough a function is, one feature at a time."""

import functools
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from widetail.checks import as_parameter, check_variance
from widetail.files import savable
from widetail.kernels._values import CrossFn, Get, KernelValues, Rows, RowsFn
from widetail.kernels.vectors._vectors import VectorKernel
from widetail.numerics import is_traced


@savable("kernels.PowerExponential")
class PowerExponential(VectorKernel):
    r"""The kernel $\sigma^2 \exp(-\sum_i |x_i - x'_i|^{p_i} / \ell_i^{p_i})$.

    Args:
        length_scale: $\ell$, a length per feature, or one for all.
        power: $p$, from 0 to 2, per feature or one for all: 2 for functions with all derivatives, 1 for continuous
            ones.
        variance: $\sigma^2$, the value at distance zero.

    Example:
        >>> import numpy as np
        >>> from widetail.kernels import PowerExponential
        >>> PowerExponential(power=1.0).kernel(np.array([[0.0], [1.0]])).nngp.round(4)
        array([[1.    , 0.3679],
               [0.3679, 1.    ]])
    """

    per_feature: ClassVar[tuple[str, ...]] = ("length_scale", "power")

    length_scale: Any = eqx.field(default=1.0, converter=as_parameter)
    power: Any = eqx.field(default=1.9, converter=as_parameter)
    variance: Any = eqx.field(default=1.0, converter=as_parameter)

    def __check_init__(self):
        check_variance("length_scale", self.length_scale, positive=True, may_be_vector=True)
        check_variance("power", self.power, positive=True, may_be_vector=True)
        check_variance("variance", self.variance, positive=True)
        if not is_traced(self.power) and np.any(np.asarray(self.power) > 2):
            raise ValueError(f"power must be at most 2, or the kernel is not positive definite; got {self.power!r}.")

    def rows_fn(self, get: Get) -> RowsFn:
        """Scale the inputs."""
        return functools.partial(_rows, self)

    def cross_fn(self, get: Get) -> CrossFn:
        """The sum of powers, feature by feature."""
        return functools.partial(_cross, self)


@jax.jit
def _rows(kernel: PowerExponential, x: Float[Array, "n d"]) -> Rows:
    scaled = x / jnp.asarray(kernel.length_scale, x.dtype)
    diagonal = jnp.full(x.shape[0], jnp.asarray(kernel.variance, x.dtype))
    return Rows(scaled, (), KernelValues(diagonal))


@jax.jit
def _cross(kernel: PowerExponential, rows1: Rows, rows2: Rows) -> KernelValues:
    x1, x2 = rows1.inputs, rows2.inputs
    powers = jnp.broadcast_to(jnp.asarray(kernel.power, x1.dtype), x1.shape[1:])
    total = jnp.zeros((), x1.dtype)
    for c in range(x1.shape[1]):
        distance = jnp.abs(x1[:, None, c] - x2[None, :, c])
        is_apart = distance > 0  # the derivative of a power at zero, in the power and in the distance
        total += jnp.where(is_apart, jnp.where(is_apart, distance, 1) ** powers[c], 0)
    return KernelValues(jnp.asarray(kernel.variance, x1.dtype) * jnp.exp(-total))
