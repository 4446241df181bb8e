"""Linear functions: a straight line whose coefficients are integrated out."""

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
from widetail.kernels.engine._by_hand import ByHand
from widetail.kernels.vectors._vectors import VectorKernel


@savable("kernels.Linear")
class Linear(VectorKernel):
    r"""Linear functions: $\sum_i w_i x_i x'_i + b$, with coefficients $N(0, w_i)$ and an offset $N(0, b)$.

    Added to another kernel it is a linear mean whose coefficients are integrated out exactly; a product of two is a
    quadratic one.

    Args:
        weight_var: $w$, the prior variance of a coefficient, one per feature or one for all.
        bias_var: $b$, the prior variance of the offset.

    Example:
        >>> import numpy as np
        >>> from widetail.kernels import Linear
        >>> Linear(weight_var=2.0, bias_var=1.0).kernel(np.array([[1.0], [3.0]])).nngp
        array([[ 3.,  7.],
               [ 7., 19.]])
    """

    per_feature: ClassVar[tuple[str, ...]] = ("weight_var",)

    weight_var: Any = eqx.field(default=1.0, converter=as_parameter)
    bias_var: Any = eqx.field(default=0.0, converter=as_parameter)

    def __check_init__(self):
        check_variance("weight_var", self.weight_var, may_be_vector=True)
        check_variance("bias_var", self.bias_var)

    def rows_fn(self, get: Get) -> RowsFn:
        return functools.partial(_rows, self)

    def cross_fn(self, get: Get) -> CrossFn:
        return functools.partial(_cross, self)

    def by_hand(self) -> ByHand | None:
        return LinearByHand(self.weight_var, self.bias_var)


class LinearByHand(ByHand):
    """`Linear` in NumPy.

    Args:
        weight_var, bias_var: of the kernel.
    """

    def __init__(self, weight_var: Any, bias_var: Any):
        self.weight_var = np.asarray(weight_var, np.float64)
        self.bias_var = float(bias_var)

    def side(self, x: np.ndarray) -> np.ndarray:
        return x

    def diagonal(self, side: np.ndarray) -> np.ndarray:
        return np.sum(self.weight_var * side**2, axis=1) + self.bias_var

    def values(self, side1: np.ndarray, side2: np.ndarray) -> np.ndarray:
        return (side1 * self.weight_var) @ side2.T + self.bias_var

    def gradient(self, side1: np.ndarray, side2: np.ndarray, weights: np.ndarray) -> list[Any]:
        """Derivatives in the variances of the coefficients and of the offset."""
        by_feature = np.sum(side1 * (weights @ side2), axis=0)
        return [by_feature if self.weight_var.ndim else float(np.sum(by_feature)), float(np.sum(weights))]


@jax.jit
def _rows(kernel: Linear, x: Float[Array, "n d"]) -> Rows:
    diagonal = jnp.sum(jnp.asarray(kernel.weight_var, x.dtype) * x**2, axis=-1) + jnp.asarray(kernel.bias_var, x.dtype)
    return Rows(x, (), KernelValues(diagonal))


@jax.jit
def _cross(kernel: Linear, rows1: Rows, rows2: Rows) -> KernelValues:
    # one side carries the variances whole: their roots would have no derivative at zero
    x1, x2 = rows1.inputs * jnp.asarray(kernel.weight_var, rows1.inputs.dtype), rows2.inputs
    return KernelValues(x1 @ x2.T + jnp.asarray(kernel.bias_var, x1.dtype))
