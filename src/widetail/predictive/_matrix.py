"""A matrix between the points that is made when it is needed, once."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from widetail._arrays import double_precision, is_traced

# Relative to the mean of the diagonal. Draws are not seen to change by the last of them.
_JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6)


class _Memo:
    """A function without arguments that is called once; what is traced is not kept."""

    def __init__(self, fn: Callable[[], Any]):
        self._fn = fn
        self._value = None

    def __call__(self) -> Any:
        if self._value is not None:
            return self._value
        value = self._fn()
        if not is_traced(value):
            self._value = value
        return value


class LazyMatrix(eqx.Module):
    """A symmetric m x m matrix, or a stack of them, given by a function.

    The function and its result are no part of the pytree: whatever holds this matrix can be passed through
    `jax.jit`, which compiles anew for every matrix.
    """

    values: Callable[[], Any] = eqx.field(static=True)
    exact_factor: Callable[[], Any] = eqx.field(static=True)
    safe_factor: Callable[[], Any] = eqx.field(static=True)

    def __init__(self, fn: Callable[[], Any]):
        self.values = values = _Memo(lambda: _as_double(fn()))
        self.exact_factor = _Memo(lambda: _exact_cholesky(values()))
        self.safe_factor = _Memo(lambda: _safe_cholesky(values()))

    def __getitem__(self, index: Any) -> "LazyMatrix":
        """Rows and columns of some of the points; the whole matrix is made when it is needed."""
        values = self.values
        return LazyMatrix(lambda: values()[..., index, :][..., index])


@double_precision
def _as_double(matrix: Any) -> Any:
    return jnp.asarray(matrix, float)


@double_precision
def _exact_cholesky(matrix: Float[Array, "*nodes m m"]) -> Float[Array, "*nodes m m"]:
    factor = jnp.linalg.cholesky(matrix)
    if not is_traced(factor) and not bool(jnp.all(jnp.isfinite(factor))):
        raise ValueError(
            f"joint_log_prob: the {matrix.shape[-1]} points have no joint density, because their covariance matrix "
            f"is singular to float64; leave out points that are equal or almost equal, or ask for the noisy "
            f"targets y instead of the noise-free function f."
        )
    return factor


@double_precision
def _safe_cholesky(matrix: Float[Array, "*nodes m m"]) -> Float[Array, "*nodes m m"]:
    """A factor to draw with: a singular covariance is no obstacle to that."""
    diagonal = jnp.diagonal(matrix, axis1=-2, axis2=-1)
    unit = jnp.eye(matrix.shape[-1]) * jnp.mean(diagonal, axis=-1)[..., None, None]
    if is_traced(matrix):
        return jnp.linalg.cholesky(matrix + 1e-10 * unit)
    for jitter in _JITTERS:
        factor = jnp.linalg.cholesky(matrix + jitter * unit)
        if bool(jnp.all(jnp.isfinite(factor))):
            return factor
    smallest = float(np.min(np.asarray(jnp.linalg.eigvalsh(matrix))))
    raise ValueError(
        f"sample: the covariance matrix of the points is not positive semidefinite, its smallest eigenvalue is "
        f"{smallest:.3g} and adding {_JITTERS[-1]:g} of its mean diagonal did not help; add noise, or check "
        f"that the kernel is positive semidefinite."
    )


def missing_matrix(size: int) -> LazyMatrix:
    """What stands in where no matrix was given; one point needs none."""

    def refuse() -> jax.Array:
        raise ValueError(
            f"joint_log_prob and sample need the covariance matrix of the {size} points, and none was given; "
            f"pass it, or a function that returns it, when the distribution is made."
        )

    return LazyMatrix(refuse)
