"""Factors and inverses of large symmetric matrices, in place, block by block.

The Cholesky factorisation of OpenBLAS (potrf), on more than one thread, writes outside of its buffers somewhere between
15,000 and 17,000 rows and ends the process. So LAPACK sees blocks of a thousand rows here, and what is between
them are matrix products and triangular solves. It takes 1.2 times as long: these products are nearly all of the work.

Matrices are in Fortran order. Panels are kept transposed, so that some rows of a panel are whole columns of memory,
which BLAS takes without a copy.
"""

from collections.abc import Iterator

import numpy as np
import scipy.linalg

from widetail.progress import Progress, reporter

_potrf, _potri = scipy.linalg.get_lapack_funcs(("potrf", "potri"), dtype=np.float64)
_gemm, _trsm = scipy.linalg.get_blas_funcs(("gemm", "trsm"), dtype=np.float64)

BLOCK = 1024
# Columns of a product at a time: what is kept beside the matrix is a panel and this.
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
    for start, stop in _spans(0, n, block or BLOCK):
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
        for left, right in _spans(stop, n, COLUMNS):
            rows, columns = panel[:, left - stop :], panel[:, left - stop : right - stop]
            update = _gemm(-1.0, rows, columns, trans_a=1)
            update[: right - left] = np.tril(update[: right - left])
            work[left:, left:right] += update
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
    for start, stop in reversed(list(_spans(0, n, block or BLOCK))):
        corner = np.array(work[start:stop, start:stop], order="F")
        own = _symmetric(_potri(corner, lower=1)[0])
        if stop < n:
            # T^T, by L_jj^T T^T = L_{>j,j}^T
            panel = np.array(work[stop:, start:stop].T, order="F")
            panel = _trsm(1.0, corner, panel, lower=1, trans_a=1, overwrite_b=1)
            product = np.zeros((n - stop, stop - start), order="F")  # Z T
            for left, right in _spans(stop, n, COLUMNS):
                columns, rows = work[stop:, left:right], panel[:, left - stop : right - stop]
                product = _gemm(1.0, columns, rows, beta=1.0, c=product, trans_b=1, overwrite_c=1)
            own += _symmetric(_gemm(1.0, panel, product))
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
    for first, last in _spans(0, n, COLUMNS):
        columns = np.zeros((n - first, last - first))
        columns[: last - first] = np.eye(last - first)
        squares = np.zeros(last - first)
        for start, stop in _spans(first, n, block or BLOCK):
            here = np.asfortranarray(columns[start - first : stop - first])
            solved = _trsm(1.0, lower[start:stop, start:stop], here, lower=1, overwrite_b=1)
            squares += np.einsum("ij,ij->j", solved, solved)
            if stop < n:
                columns[stop - first :] -= _gemm(1.0, lower[stop:, start:stop], solved)
        diagonal[first:last] = squares
    return diagonal


def _spans(start: int, stop: int, step: int) -> Iterator[tuple[int, int]]:
    for left in range(start, stop, step):
        yield left, min(left + step, stop)


def _symmetric(square: np.ndarray) -> np.ndarray:
    """The symmetric matrix with this lower triangle."""
    return np.tril(square) + np.tril(square, -1).T
