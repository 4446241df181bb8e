"""The Cholesky factor that everything else reuses, and the inverse that gradients need."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from widetail.numerics import _blocks
from widetail.numerics._blas import one_thread
from widetail.progress import Progress

# Relative to the mean of the diagonal. Beyond the last one the model, not rounding, is at fault.
JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6)
ROWS_PER_COPY = 512
# JAX calls the factorisation of LAPACK, which more rows may not survive: see `_blocks`.
ROWS_FOR_JAX = 8192


@dataclasses.dataclass(frozen=True)
class CholeskyFactor:
    """The lower factor of a positive definite matrix; the strict upper triangle of `lower` is not used.

    Attributes:
        lower: shape (n, n), in Fortran order.
        jitter: what had to be added to the diagonal, 0 if nothing.
    """

    lower: np.ndarray
    jitter: float

    @classmethod
    def of(cls, matrix: np.ndarray, progress: Progress = False) -> "CholeskyFactor":
        """Factor a symmetric matrix in place: `matrix` is overwritten.

        One triangle is written only, so that the other one and a copy of the diagonal are enough to start
        again with more jitter: the memory is that of the matrix and a quarter of it at most.

        Args:
            matrix: symmetric, shape (n, n), float64.
            progress: True for a bar on a terminal, or a function of (columns factored, in all).
        """
        work = matrix.T if matrix.flags.c_contiguous else np.asfortranarray(matrix)
        diagonal = np.diagonal(work).copy()
        scale = float(np.mean(np.abs(diagonal)))
        for relative in JITTERS:
            if relative:
                _restore(work, diagonal + relative * scale)
            with one_thread():
                is_definite = _blocks.factor(work, progress=progress)
            if is_definite:
                return cls(work, relative * scale)
        _restore(work, diagonal)
        raise np.linalg.LinAlgError(
            f"The {len(work)} x {len(work)} covariance matrix is not positive definite: its smallest eigenvalue is "
            f"about {_smallest_eigenvalue(work):.3g}, and adding {JITTERS[-1]:g} of its mean diagonal ({scale:.3g}) "
            f"did not help. Use more observation noise, drop repeated rows, or, with a kernel of your own, check that "
            f"it is symmetric and positive semi-definite."
        )

    def solve_lower(self, b: np.ndarray, *, overwrite: bool = False) -> np.ndarray:
        """Solve L v = b."""
        with one_thread():
            if b.ndim == 2 and b.shape[1] > _blocks.COLUMNS:
                return _blocks.solve(self.lower, b)
            return scipy.linalg.solve_triangular(self.lower, b, lower=True, overwrite_b=overwrite, check_finite=False)

    def solve_upper(self, b: np.ndarray) -> np.ndarray:
        """Solve L^T v = b."""
        with one_thread():
            return scipy.linalg.solve_triangular(self.lower, b, lower=True, trans=1, check_finite=False)

    def solve(self, b: np.ndarray) -> np.ndarray:
        """Solve L L^T v = b."""
        with one_thread():
            return scipy.linalg.cho_solve((self.lower, True), b, check_finite=False)

    def log_det(self) -> float:
        """Log determinant of the factored matrix."""
        return 2.0 * float(np.sum(np.log(np.diagonal(self.lower))))

    def inverse(self, *, overwrite: bool = False) -> np.ndarray:
        """The inverse of the factored matrix, both triangles; for gradients, not for solving."""
        work = self.lower if overwrite else self.lower.copy(order="F")
        with one_thread():
            _blocks.invert(work)
        return work

    def inverse_diagonal(self) -> np.ndarray:
        """The diagonal of the inverse, at the cost of the factorisation and a few columns of memory."""
        with one_thread():
            return _blocks.inverse_diagonal(self.lower)

    def extend(self, off_diagonal: np.ndarray, corner: np.ndarray) -> "CholeskyFactor":
        """The factor of the matrix with m rows more: `off_diagonal` (n, m) and `corner` (m, m) of it.

        Costs n^2 m instead of n^3 / 3.
        """
        n, m = off_diagonal.shape
        below = self.solve_lower(off_diagonal)
        schur = CholeskyFactor.of(corner + self.jitter * np.eye(m) - below.T @ below)
        lower = np.zeros((n + m, n + m), order="F")
        lower[:n, :n] = self.lower
        lower[n:, :n] = below.T
        lower[n:, n:] = schur.lower
        return CholeskyFactor(lower, max(self.jitter, schur.jitter))


def _restore(work: np.ndarray, diagonal: np.ndarray) -> None:
    """Put the matrix back together from its strict upper triangle and a diagonal."""
    for start in range(0, len(work), ROWS_PER_COPY):
        stop = start + ROWS_PER_COPY
        block = work[start:stop, start:]
        square = block[:, :ROWS_PER_COPY]
        upper = np.triu(square[:, : len(square)], 1)
        work[start:stop, start : start + len(square)] = upper + upper.T
        work[start + len(square) :, start:stop] = work[start:stop, start + len(square) :].T
    np.fill_diagonal(work, diagonal)


def _smallest_eigenvalue(matrix: np.ndarray) -> float:
    if len(matrix) <= 512:
        return float(scipy.linalg.eigvalsh(matrix)[0])
    try:
        return float(scipy.sparse.linalg.eigsh(matrix, k=1, which="SA", return_eigenvectors=False)[0])
    except scipy.sparse.linalg.ArpackNoConvergence:
        return float("nan")


def cholesky(matrix: np.ndarray) -> np.ndarray:
    """The lower factor of a symmetric matrix or a stack of them, as by `np.linalg.cholesky`, for large ones as well.

    Raises `LinAlgError` where the matrix is not positive definite; nothing is added to it.
    """
    if matrix.shape[-1] <= _blocks.BLOCK:
        return np.linalg.cholesky(matrix)
    if matrix.ndim > 2:
        return np.stack([cholesky(one) for one in matrix])
    work = np.array(matrix, dtype=np.float64, order="F")
    if not _blocks.factor(work):
        raise np.linalg.LinAlgError("Matrix is not positive definite")
    return np.tril(work)


def cholesky_in_jax(matrix: Any) -> Any:
    """The lower factor as by `jnp.linalg.cholesky`, for large matrices as well; NaN where there is none.

    A large matrix is factored by halves, so that LAPACK sees only parts of it.

    Args:
        matrix: symmetric, shape (..., n, n), a JAX array, traced or not.
    """
    n = matrix.shape[-1]
    if n <= ROWS_FOR_JAX:
        return jnp.linalg.cholesky(matrix)
    half = n // 2
    above, below = matrix[..., :half, half:], matrix[..., half:, :half]
    first = cholesky_in_jax(matrix[..., :half, :half])
    side = jax.scipy.linalg.solve_triangular(first, 0.5 * (above + below.mT), lower=True).mT
    last = cholesky_in_jax(matrix[..., half:, half:] - side @ side.mT)
    top = jnp.concatenate([first, jnp.zeros_like(above)], axis=-1)
    return jnp.concatenate([top, jnp.concatenate([side, last], axis=-1)], axis=-2)
