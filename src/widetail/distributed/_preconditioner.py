"""A preconditioner for kernel matrices: a few pivoted columns of their Cholesky factor, and the noise."""

import dataclasses
from collections.abc import Callable

import numpy as np
import scipy.linalg

CANDIDATES = 16  # rows that are fetched together, all of one block
KEEP_GOING = 0.3  # a candidate is used while its variance is not much less than the largest anywhere


@dataclasses.dataclass(frozen=True)
class Preconditioner:
    r"""$P = C C^\top + D$ with C of shape (n, rank) and D the noise; solves and determinants cost n rank^2.

    Attributes:
        columns: C.
        noise: the diagonal of D, positive, shape (n,).
        inner: Cholesky factor of $I + C^\top D^{-1} C$.
    """

    columns: np.ndarray
    noise: np.ndarray
    inner: np.ndarray

    @classmethod
    def of(cls, columns: np.ndarray, noise: np.ndarray) -> "Preconditioner":
        """Factor the small matrix."""
        small = np.eye(columns.shape[1]) + columns.T @ (columns / noise[:, None])
        return cls(columns, noise, scipy.linalg.cholesky(small, lower=True, check_finite=False))

    def solve(self, b: np.ndarray) -> np.ndarray:
        """$P^{-1} b$ for b of shape (n, columns)."""
        scaled = b / self.noise[:, None]
        small = scipy.linalg.cho_solve((self.inner, True), self.columns.T @ scaled, check_finite=False)
        return scaled - (self.columns @ small) / self.noise[:, None]

    def log_det(self) -> float:
        """Log determinant of P."""
        return float(np.sum(np.log(self.noise)) + 2 * np.sum(np.log(np.diagonal(self.inner))))

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws from N(0, P), shape (n, count)."""
        n, rank = self.columns.shape
        noise = rng.normal(size=(n, count)) * np.sqrt(self.noise)[:, None]
        return noise + self.columns @ rng.normal(size=(rank, count))


def pivoted_cholesky(
    fetch: Callable[[np.ndarray], np.ndarray], diagonal: np.ndarray, block: int, rank: int, tolerance: float = 1e-10
) -> np.ndarray:
    r"""Columns C, at most `rank`, such that $C C^\top$ is close to a matrix of which single rows can be fetched.

    The row with the largest variance left is taken next. Rows are fetched some at a time, all of one block, since they
    are in the same tiles.

    Args:
        fetch: rows of the matrix, (count, n), by their indices.
        diagonal: of the matrix.
        block: rows of a tile.
        rank: the most columns.
        tolerance: no columns are added once the largest variance left is this small, relative to the largest.
    """
    n = len(diagonal)
    left = np.array(diagonal, dtype=np.float64)
    columns = np.zeros((n, min(rank, n)))
    count, largest = 0, float(np.max(left))
    while count < columns.shape[1] and np.max(left) > tolerance * largest:
        block_start = int(np.argmax(left)) // block * block
        inside = left[block_start : block_start + block]
        candidates = block_start + np.argsort(-inside)[:CANDIDATES]
        rows = fetch(candidates)
        open_candidates = list(range(len(candidates)))
        is_first = True
        while open_candidates and count < columns.shape[1]:
            best = max(open_candidates, key=lambda index: left[candidates[index]])
            pivot = int(candidates[best])
            highest = float(np.max(left))
            if left[pivot] <= tolerance * largest or (not is_first and left[pivot] < KEEP_GOING * highest):
                break
            column = (rows[best] - columns[:, :count] @ columns[pivot, :count]) / np.sqrt(left[pivot])
            columns[:, count] = column
            left = np.maximum(left - column**2, 0.0)
            left[pivot] = 0.0
            open_candidates.remove(best)
            count, is_first = count + 1, False
    return columns[:, :count]
