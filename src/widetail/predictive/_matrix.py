"""A matrix between the points, and their variances, that are made when they are needed, once."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from widetail.numerics import cholesky, cholesky_in_jax, double_precision, is_traced, namespace

Matrix = Float[Array | np.ndarray, "*nodes m m"]

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


class LazyVector(eqx.Module):
    """Numbers of the points, given by a function that is called when they are first needed; see `LazyMatrix`."""

    values: Callable[[], Any] = eqx.field(static=True)

    def __init__(self, fn: Callable[[], Any]):
        self.values = _Memo(lambda: _outside_of_traces(fn))


class LazyMatrix(eqx.Module):
    """A symmetric m x m matrix, or a stack of them, given by a function.

    The function and its result are no part of the pytree: whatever holds this matrix can be passed through
    `jax.jit`, which compiles anew for every matrix.
    """

    values: Callable[[], Any] = eqx.field(static=True)
    exact_factor: Callable[[], Any] = eqx.field(static=True)
    safe_factor: Callable[[], Any] = eqx.field(static=True)

    def __init__(self, fn: Callable[[], Any]):
        self.values = values = _Memo(lambda: _in_float64(fn()))
        self.exact_factor = _Memo(lambda: _exact_cholesky(values()))
        self.safe_factor = _Memo(lambda: _safe_cholesky(values()))

    def __getitem__(self, index: Any) -> "LazyMatrix":
        """Rows and columns of some of the points; the whole matrix is made when it is needed."""
        values = self.values
        return LazyMatrix(lambda: values()[..., index, :][..., index])


def _outside_of_traces(fn: Callable[[], Any]) -> Any:
    # What first asks may be a compiled function; the numbers do not depend on its arguments.
    with jax.ensure_compile_time_eval():
        return fn()


@double_precision
def _in_float64(matrix: Any) -> Any:
    return namespace(matrix).asarray(matrix, float)


@double_precision
def _exact_cholesky(matrix: Matrix) -> Matrix:
    factor = _factorise(matrix)
    if not is_traced(factor) and not np.all(np.isfinite(factor)):
        raise ValueError(
            f"joint_log_prob: the {matrix.shape[-1]} points have no joint density, because their covariance matrix "
            f"is singular to float64; leave out points that are equal or almost equal, or ask for the noisy "
            f"targets y instead of the noise-free function f."
        )
    return factor


@double_precision
def _safe_cholesky(matrix: Matrix) -> Matrix:
    """A factor to draw with: a singular covariance is no obstacle to that."""
    xp = namespace(matrix)
    diagonal = xp.diagonal(matrix, axis1=-2, axis2=-1)
    unit = xp.eye(matrix.shape[-1]) * xp.mean(diagonal, axis=-1)[..., None, None]
    if is_traced(matrix):
        return _factorise(matrix + 1e-10 * unit)
    for jitter in _JITTERS:
        factor = _factorise(matrix + jitter * unit)
        if np.all(np.isfinite(factor)):
            return factor
    smallest = float(np.min(np.linalg.eigvalsh(matrix)))
    raise ValueError(
        f"sample: the covariance matrix of the points is not positive semidefinite, its smallest eigenvalue is "
        f"{smallest:.3g} and adding {_JITTERS[-1]:g} of its mean diagonal did not help; add noise, or check "
        f"that the kernel is positive semidefinite."
    )


def _factorise(matrix: Matrix) -> Matrix:
    """Cholesky factor; NaN where there is none."""
    if namespace(matrix) is jnp:
        return cholesky_in_jax(matrix)
    try:
        return cholesky(np.asarray(matrix))
    except np.linalg.LinAlgError:
        return np.full(matrix.shape, np.nan)


def missing_matrix(size: int) -> LazyMatrix:
    """What stands in where no matrix was given; one point needs none."""

    def refuse() -> jax.Array:
        raise ValueError(
            f"joint_log_prob and sample need the covariance matrix of the {size} points, and none was given; "
            f"pass it, or a function that returns it, when the distribution is made."
        )

    return LazyMatrix(refuse)
