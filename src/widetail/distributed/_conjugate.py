"""Conjugate gradients on matrices in a store: solves to a tolerance, and the log determinant with an error bar."""

import dataclasses
from typing import Any

import numpy as np
import scipy.linalg

from widetail.distributed._cluster import Sent, announce, check_client, run_tasks
from widetail.distributed._factor import _checked_noise
from widetail.distributed._gram import Gram
from widetail.distributed._preconditioner import Preconditioner, pivoted_cholesky
from widetail.progress import Progress
from widetail.stores import Tiles

PROBES = 0x70726F62  # beside the seed: data drawn by NumPy with the same seed must not be the probes themselves


@dataclasses.dataclass(frozen=True)
class ConjugateGradients:
    """How to solve by conjugate gradients.

    Args:
        tolerance: of the residuals, relative to the right-hand sides.
        rank: columns of the pivoted-Cholesky preconditioner.
        probes: random vectors for the log determinant; its error falls with their square root.
        seed: of the probes.
        most_iterations: after which a solve counts as failed.
    """

    tolerance: float = 1e-10
    rank: int = 200
    probes: int = 16
    seed: int = 0
    most_iterations: int = 2000

    def __post_init__(self):
        from widetail.checks import check_count

        for name, least in (("rank", 0), ("probes", 2), ("most_iterations", 1)):
            check_count(f"ConjugateGradients: {name}", getattr(self, name), least)
        if not 0 < self.tolerance < 1:
            raise ValueError(f"ConjugateGradients: tolerance must be between 0 and 1; got {self.tolerance!r}.")


@dataclasses.dataclass(frozen=True, eq=False)
class IterativeSolver:
    """Solves with a matrix in a store and noise on its diagonal, without factoring it.

    Attributes:
        log_det: estimate of the log determinant.
        log_det_error: its standard error.
        iterations: that the probes took.
    """

    tiles: Tiles
    client: Any
    noise: np.ndarray
    preconditioner: Preconditioner
    settings: ConjugateGradients
    log_det: float
    log_det_error: float
    iterations: int

    jitter = 0.0

    def solve(self, b: np.ndarray) -> np.ndarray:
        """The inverse of the matrix times b, shape (n, columns)."""
        return _solve(
            self.tiles, self.client, self.noise, self.preconditioner, np.asarray(b, float), self.settings
        ).values

    def weights_and_quad(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The inverse times the targets (n, outputs), and the quadratic form of each output."""
        weights = self.solve(targets)
        return weights, np.sum(weights * targets, axis=0)

    def inverse_diagonal(self) -> np.ndarray:
        """Not without n solves."""
        raise ValueError(
            "conjugate gradients do not give the diagonal of the inverse, which left-out predictions need; use "
            "solver=None, the block Cholesky factorisation."
        )


def conjugate_gradients(
    matrix: Gram,
    client: Any,
    *,
    noise: Any,
    settings: ConjugateGradients | None = None,
    progress: Progress = True,
) -> IterativeSolver:
    """Prepare to solve with a kernel matrix plus noise, and estimate its log determinant.

    The matrix is read once per iteration by the workers, in rows of tiles; nothing of its size is written. The
    preconditioner is that of a pivoted Cholesky factor; the log determinant comes from the Lanczos coefficients of
    probes that are drawn from the preconditioner.

    Args:
        matrix: what `gram` returned.
        client: a `dask.distributed.Client`.
        noise: on the diagonal, positive: a number or one per row.
        settings: tolerance, rank, probes.
        progress: True for the dashboard's address on standard error.

    Example:
        >>> import numpy as np, widetail as wt  # and client = dask.distributed.Client(...)
        >>> K = wt.distributed.gram(wt.kernels.RBF(), np.eye(3), client, store="K.zarr", progress=False)
        >>> solver = wt.distributed.conjugate_gradients(K, client, noise=1.0, progress=False)
        >>> b = np.ones((3, 1))
        >>> bool(np.allclose(solver.solve(b), np.linalg.solve(np.asarray(K) + np.eye(3), b)))
        True
    """
    check_client(client)
    if not isinstance(matrix, Gram):
        raise ValueError(f"matrix must be what wt.distributed.gram returned; got {type(matrix).__name__}.")
    settings = settings or ConjugateGradients()
    tiles = matrix.tiles
    noise = _checked_noise(noise, tiles.n)
    if not np.all(noise > 0):
        raise ValueError("noise must be positive: conjugate gradients need it, and so does their preconditioner.")
    announce(client, progress, "conjugate gradients")
    diagonal = _stacked(client, _diagonal, tiles, [(i,) for i in range(tiles.blocks)], "diagonal")

    def fetch(indices: np.ndarray) -> np.ndarray:
        parts = [(indices, j) for j in range(tiles.blocks)]
        return np.asarray(_stacked(client, _columns, tiles, parts, "preconditioner")).T

    columns = pivoted_cholesky(fetch, diagonal, tiles.block, settings.rank)
    preconditioner = Preconditioner.of(columns, noise)
    probes = preconditioner.sample(np.random.default_rng((PROBES, settings.seed)), settings.probes)
    solved = _solve(tiles, client, noise, preconditioner, probes, settings)
    logs = np.array([_log_quadrature(*coefficients) for coefficients in solved.lanczos])
    log_det = preconditioner.log_det() + tiles.n * float(np.mean(logs))
    error = tiles.n * float(np.std(logs, ddof=1)) / np.sqrt(settings.probes)
    return IterativeSolver(tiles, client, noise, preconditioner, settings, log_det, error, solved.iterations)


@dataclasses.dataclass(frozen=True)
class _Solved:
    values: np.ndarray
    lanczos: list[tuple[np.ndarray, np.ndarray]]  # steps and ratios of every column
    iterations: int


def _solve(
    tiles: Tiles,
    client: Any,
    noise: np.ndarray,
    preconditioner: Preconditioner,
    b: np.ndarray,
    settings: ConjugateGradients,
) -> _Solved:
    """Preconditioned conjugate gradients for all columns together; a column stops when its residual is small enough."""
    lengths = np.linalg.norm(b, axis=0)
    values, residual = np.zeros_like(b), b.copy()
    steps: list[list[float]] = [[] for _ in lengths]
    ratios: list[list[float]] = [[] for _ in lengths]
    active = np.flatnonzero(lengths > 0)
    conditioned = preconditioner.solve(residual)
    direction = conditioned.copy()
    energy = np.sum(residual * conditioned, axis=0)
    iterations = 0
    while len(active):
        if iterations == settings.most_iterations:
            worst = float(np.max(np.linalg.norm(residual[:, active], axis=0) / lengths[active]))
            raise ArithmeticError(
                f"conjugate gradients stopped after {iterations} iterations with a relative residual of {worst:.1e}, "
                f"{settings.tolerance:.1e} was asked for. Use a larger rank of the preconditioner (now "
                f"{settings.rank}), more observation noise, or the block Cholesky factorisation."
            )
        iterations += 1
        product = _product(tiles, client, noise, direction[:, active])
        step = energy[active] / np.sum(direction[:, active] * product, axis=0)
        values[:, active] += step * direction[:, active]
        residual[:, active] -= step * product
        conditioned = preconditioner.solve(residual[:, active])
        after = np.sum(residual[:, active] * conditioned, axis=0)
        ratio = after / energy[active]
        direction[:, active] = conditioned + ratio * direction[:, active]
        energy[active] = after
        for column, one_step, one_ratio in zip(active, step, ratio, strict=True):
            steps[column].append(float(one_step))
            ratios[column].append(float(one_ratio))
        finished = np.linalg.norm(residual[:, active], axis=0) <= settings.tolerance * lengths[active]
        active = active[~finished]
    lanczos = [(np.array(a), np.array(b)) for a, b in zip(steps, ratios, strict=True)]
    return _Solved(values, lanczos, iterations)


def _log_quadrature(steps: np.ndarray, ratios: np.ndarray) -> float:
    """$u^\\top \\log(M) u$ for the unit vector u that conjugate gradients on M began with: Gauss quadrature."""
    diagonal = 1 / steps
    diagonal[1:] += ratios[:-1] / steps[:-1]
    beside = np.sqrt(ratios[:-1]) / steps[:-1]
    nodes, vectors = scipy.linalg.eigh_tridiagonal(diagonal, beside)
    return float(np.sum(vectors[0] ** 2 * np.log(np.maximum(nodes, np.finfo(float).tiny))))


def _product(tiles: Tiles, client: Any, noise: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The matrix with its noise times vectors (n, columns), by rows of tiles on the workers."""
    sent = Sent(client, vectors)
    product = noise[:, None] * vectors

    def submit(i: int) -> Any:
        return client.submit(_row_product, tiles, i, sent.values, pure=False, retries=2)

    for i, values in run_tasks(client, submit, range(tiles.blocks), sent.send, "conjugate gradients"):
        product[tiles.rows(i)] += values
    return product


def _stacked(client: Any, work: Any, tiles: Tiles, parts: list[tuple[Any, ...]], describe: str) -> np.ndarray:
    """Results of a task for each part, in their order, one below the other."""
    found: list[Any] = [None] * len(parts)

    def submit(index: int) -> Any:
        return client.submit(work, tiles, *parts[index], pure=False, retries=2)

    for index, values in run_tasks(client, submit, range(len(parts)), lambda: None, describe):
        found[index] = values
    return np.concatenate(found)


def _row_product(tiles: Tiles, i: int, vectors: np.ndarray) -> np.ndarray:
    # half of the matrix would do, but results would be as long as the vectors, one from every task
    out = np.zeros((tiles.rows(i).stop - tiles.rows(i).start, vectors.shape[1]))
    for j in range(tiles.blocks):
        out += tiles.read(i, j).astype(np.float64, copy=False) @ vectors[tiles.rows(j)]
    return out


def _diagonal(tiles: Tiles, i: int) -> np.ndarray:
    return np.diagonal(tiles.read(i, i)).astype(np.float64)


def _columns(tiles: Tiles, indices: np.ndarray, j: int) -> np.ndarray:
    """Rows `indices`, all of one block, in the columns of block j, transposed."""
    block = int(indices[0]) // tiles.block
    rows = tiles.read(block, j)[indices - tiles.rows(block).start]
    return rows.astype(np.float64).T
