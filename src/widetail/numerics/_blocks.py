"""Factors and inverses of large symmetric matrices, in place, block by block.

The Cholesky factorisation of OpenBLAS (potrf), on more than one thread, writes outside of its buffers somewhere between
15,000 and 17,000 rows and ends the process. So LAPACK sees blocks of some hundred rows here, and what is between
them are matrix products and triangular solves, which are nearly all of the work. They are independent of each other,
a few columns at a time, and go to threads of our own (`_blas` says why).

Matrices are in Fortran order. Panels are kept transposed, so that some rows of a panel are whole columns of memory,
which BLAS takes without a copy.
"""

from collections.abc import Iterator

import numpy as np
import scipy.linalg

from widetail.numerics._blas import in_parallel
from widetail.progress import Progress, reporter

_potrf, _potri = scipy.linalg.get_lapack_funcs(("potrf", "potri"), dtype=np.float64)
(_trsm,) = scipy.linalg.get_blas_funcs(("trsm",), dtype=np.float64)

# Up to here LAPACK alone is the fastest for a factor.
BLOCK = 1024
# For inverses products are faster from fewer rows on, and other threads can run beside them.
INVERSE_BLOCK = 96
# SciPy's functions hold the interpreter lock and NumPy's products do not: blocks so small that nearly all is products.
SMALL_BLOCK = 256
# Columns of a product at a time: what is kept beside the matrix is a panel and this for every thread.
COLUMNS = 256


def factor(work: np.ndarray, block: int | None = None, progress: Progress = False) -> bool:
    """Write the lower Cholesky factor over the lower triangle of `work`; the strict upper one stays as it was.

    Args:
        work: shape (n, n), in Fortran order; overwritten.
        block: rows of a block.
        progress: True for a bar on a terminal, or a function of (columns factored, in all).

    Returns:
        Whether the matrix is positive definite. If not, its lower triangle is of no use.
    """
    n = len(work)
    report = reporter(progress, "factor")
    report(0, n)
    for start, stop in _spans(0, n, block or _block(n)):
        corner, failed = _potrf(work[start:stop, start:stop], lower=1, clean=0, overwrite_a=1)
        if failed:
            return False
        if not np.may_share_memory(corner, work):  # LAPACK was given a copy, as it is of any part of the matrix
            work[start:stop, start:stop] = corner
        if stop == n:
            break
        panel = np.array(work[stop:, start:stop].T, order="F")
        panel = _trsm(1.0, corner, panel, lower=1, overwrite_b=1)
        work[stop:, start:stop] = panel.T

        def subtract(span: tuple[int, int], stop: int = stop, panel: np.ndarray = panel) -> None:
            left, right = span
            update = panel[:, left - stop : right - stop].T @ panel[:, left - stop :]
            update[:, : right - left] = np.triu(update[:, : right - left])
            work[left:, left:right] -= update.T

        in_parallel(subtract, list(_spans(stop, n, COLUMNS)), 0.5 * (n - stop) ** 2 * (stop - start))
        report(stop, n)
    report(n, n)
    return True


def invert(work: np.ndarray, block: int | None = None) -> None:
    r"""Write the inverse of $A = L L^\top$ over its factor L, both triangles of it.

    From the last block j to the first, with $T = L_{>j,j} L_{jj}^{-1}$: $Z_{>j,j} = -Z_{>j,>j} T$ and
    $Z_{jj} = L_{jj}^{-\top} L_{jj}^{-1} + T^\top Z_{>j,>j} T$ for the inverse Z.

    Args:
        work: the factor in the lower triangle, shape (n, n), in Fortran order; overwritten.
        block: rows of a block.
    """
    n = len(work)
    for start, stop in reversed(list(_spans(0, n, block or (INVERSE_BLOCK if n <= BLOCK else SMALL_BLOCK)))):
        corner = np.array(work[start:stop, start:stop], order="F")
        own = _symmetric(_potri(corner, lower=1)[0])
        if stop < n:
            # T^T, by L_jj^T T^T = L_{>j,j}^T
            panel = np.array(work[stop:, start:stop].T, order="F")
            panel = _trsm(1.0, corner, panel, lower=1, trans_a=1, overwrite_b=1)

            def multiply(span: tuple[int, int], stop: int = stop, panel: np.ndarray = panel) -> np.ndarray:
                return work[stop:, slice(*span)].T @ panel.T  # some rows of Z, which are its columns

            spans = list(_spans(stop, n, COLUMNS))
            product = np.concatenate(in_parallel(multiply, spans, (n - stop) ** 2 * (stop - start)))  # Z T
            own += _symmetric(panel @ product)
            work[stop:, start:stop] = -product
            work[start:stop, stop:] = -product.T
        work[start:stop, start:stop] = own


def inverse_diagonal(lower: np.ndarray, block: int | None = None) -> np.ndarray:
    """The diagonal of the inverse of L L^T: squared lengths of the columns of the inverse of L.

    Args:
        lower: the factor, shape (n, n), in Fortran order.
        block: rows of a block.
    """
    n = len(lower)
    diagonal = np.empty(n)

    def squared(span: tuple[int, int]) -> None:
        first, last = span
        columns = np.zeros((n - first, last - first))
        columns[: last - first] = np.eye(last - first)
        _solve_below(lower, columns, first, block)
        diagonal[first:last] = np.einsum("ij,ij->j", columns, columns)

    in_parallel(squared, list(_spans(0, n, COLUMNS)), n**3 / 3)
    return diagonal


def solve(lower: np.ndarray, b: np.ndarray, block: int | None = None) -> np.ndarray:
    """Solve L v = b for many columns, some of them at a time.

    Args:
        lower: the factor, shape (n, n), in Fortran order.
        b: shape (n, m).
        block: rows of a block.
    """

    def columns(span: tuple[int, int]) -> np.ndarray:
        part = np.array(b[:, slice(*span)], order="C")
        _solve_below(lower, part, 0, block)
        return part

    spans = list(_spans(0, b.shape[1], COLUMNS))
    return np.concatenate(in_parallel(columns, spans, 0.5 * lower.size * b.shape[1]), axis=1)


def _solve_below(lower: np.ndarray, columns: np.ndarray, first: int, block: int | None) -> None:
    """Solve with the part of the factor from row `first` on, in place."""
    n = len(lower)
    for start, stop in _spans(first, n, block or _block(n)):
        here = np.asfortranarray(columns[start - first : stop - first])
        solved = _trsm(1.0, lower[start:stop, start:stop], here, lower=1, overwrite_b=1)
        columns[start - first : stop - first] = solved
        if stop < n:
            columns[stop - first :] -= lower[stop:, start:stop] @ solved


def _block(n: int) -> int:
    return n if n <= BLOCK else SMALL_BLOCK


def _spans(start: int, stop: int, step: int) -> Iterator[tuple[int, int]]:
    for left in range(start, stop, step):
        yield left, min(left + step, stop)


def _symmetric(square: np.ndarray) -> np.ndarray:
    """The symmetric matrix with this lower triangle."""
    return np.tril(square) + np.tril(square, -1).T
