"""Kernels between new inputs and those of a store, in blocks of new inputs, on the workers."""

import dataclasses
from typing import Any

import numpy as np

from widetail.distributed._cluster import Sent, run_tasks
from widetail.distributed._factor import columns_per_task
from widetail.distributed._factor_work import FactorTiles, solve_forward
from widetail.distributed._inputs import StoredInputs
from widetail.distributed._work import KernelJob
from widetail.stores import Tiles


@dataclasses.dataclass(frozen=True)
class Crosses:
    """The training inputs on the cluster, for predictions.

    Attributes:
        client: of the cluster.
        job: the kernel.
        inputs: training inputs.
        tiles: of their kernel matrix, for the blocks of its rows.
        factor: its Cholesky factor, or None.
    """

    client: Any
    job: KernelJob
    inputs: StoredInputs
    tiles: Tiles
    factor: FactorTiles | None

    @property
    def rows_per_task(self) -> int:
        """New inputs that a task works on: their cross kernel has the size of a few tiles."""
        return columns_per_task(self.tiles.n, self.tiles.block)

    def moments(self, x_new: np.ndarray, weights: np.ndarray, *, reduce: bool) -> tuple[np.ndarray, np.ndarray]:
        """Cross kernel times weights, (m, outputs), and squared lengths of its whitened columns, (m,), if asked."""
        sent = Sent(self.client, weights)

        def submit(start: int) -> Any:
            part = x_new[start : start + self.rows_per_task]
            return self.client.submit(_moments, self._parts(reduce), part, sent.values, pure=False, retries=2)

        location, reduction = np.empty((len(x_new), weights.shape[1])), np.empty(len(x_new))
        starts = range(0, len(x_new), self.rows_per_task)
        for start, (product, lengths) in run_tasks(self.client, submit, starts, sent.send, "prediction"):
            here = slice(start, start + self.rows_per_task)
            location[here], reduction[here] = product, lengths
        return location, reduction

    def columns(self, x_new: np.ndarray) -> np.ndarray:
        """The cross kernel, shape (n, m), in the memory of this process."""
        out = np.empty((self.tiles.n, len(x_new)))

        def submit(start: int) -> Any:
            part = x_new[start : start + self.rows_per_task]
            return self.client.submit(_cross, self._parts(False), part, pure=False, retries=2)

        starts = range(0, len(x_new), self.rows_per_task)
        for start, values in run_tasks(self.client, submit, starts, lambda: None, "prediction"):
            out[:, start : start + self.rows_per_task] = values
        return out

    def inner(self, x1: np.ndarray, x2: np.ndarray | None) -> np.ndarray:
        """Products of whitened columns, shape (m1, m2), by blocks; the columns stay on the workers."""
        first = self._whitened(x1)
        second = first if x2 is None else self._whitened(x2)
        out = np.empty((len(x1), len(x1) if x2 is None else len(x2)))
        pairs = [(a, b) for a in first for b in second if x2 is not None or a <= b]

        def submit(pair: tuple[int, int]) -> Any:
            return self.client.submit(_product, first[pair[0]], second[pair[1]], pure=False, retries=2)

        for (a, b), values in run_tasks(self.client, submit, pairs, lambda: None, "covariance"):
            out[a : a + len(values), b : b + values.shape[1]] = values
            if x2 is None and a != b:
                out[b : b + values.shape[1], a : a + len(values)] = values.T
        return out

    def _whitened(self, x_new: np.ndarray) -> dict[int, Any]:
        step = self.rows_per_task
        return {
            start: self.client.submit(_whitened, self._parts(True), x_new[start : start + step], pure=False, retries=2)
            for start in range(0, len(x_new), step)
        }

    def _parts(self, reduce: bool) -> tuple[KernelJob, StoredInputs, Tiles, FactorTiles | None]:
        return self.job, self.inputs, self.tiles, self.factor if reduce else None


Parts = tuple[KernelJob, StoredInputs, Tiles, FactorTiles | None]


def _cross(parts: Parts, x_new: np.ndarray) -> np.ndarray:
    job, inputs, tiles, _ = parts
    out = np.empty((tiles.n, len(x_new)))
    for i in range(tiles.blocks):
        here = tiles.rows(i)
        out[here] = job.values(x_new, inputs[here]).T
    return out


def _whitened(parts: Parts, x_new: np.ndarray) -> np.ndarray:
    factor = parts[3]
    assert factor is not None
    return solve_forward(factor, _cross(parts, x_new), overwrite=True)


def _moments(parts: Parts, x_new: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    cross = _cross(parts, x_new)
    location = cross.T @ weights
    if parts[3] is None:
        return location, np.zeros(len(x_new))
    solved = solve_forward(parts[3], cross, overwrite=True)
    return location, np.einsum("nm,nm->m", solved, solved)


def _product(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return first.T @ second
