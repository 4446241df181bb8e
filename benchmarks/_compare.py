"""Do two libraries give the same numbers?"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks._nets import Net
from benchmarks._process import Worker

AGREE = 2e-7  # relative


@contextmanager
def saved(**arrays: np.ndarray | None) -> Iterator[dict[str, str | None]]:
    """Arrays as files that workers can read; None stays None."""
    with tempfile.TemporaryDirectory() as folder:
        paths: dict[str, str | None] = {}
        for name, array in arrays.items():
            paths[name] = None if array is None else str(Path(folder) / f"{name}.npy")
            if array is not None:
                np.save(Path(folder) / f"{name}.npy", array)
        yield paths


def inputs(n: int, *shape: int, seed: int = 0) -> np.ndarray:
    """Random inputs of which rows 0 and 1 are equal and row 2 is opposite to them."""
    x = np.random.default_rng(seed).normal(size=(n, *shape))
    x[1], x[2] = x[0], -x[0]
    return x


def last_values(worker: Worker, rows: list[int] | None = None) -> dict[str, np.ndarray]:
    """What the worker computed last, or some rows of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "values.npz")
        worker.ask("values", path=path, rows=rows)
        with np.load(path) as file:
            return dict(file)


def kernel_of(worker: Worker, net: Net, x1: np.ndarray, x2: np.ndarray | None, get: str) -> dict[str, np.ndarray]:
    """The kernels that a worker computes."""
    with saved(x1=x1, x2=x2) as paths:
        worker.ask("kernel", net=net, get=get, **paths)
    return last_values(worker)


def difference(found: dict[str, np.ndarray], reference: dict[str, np.ndarray]) -> float:
    """The largest relative difference of any entry of any kernel.

    Entries that cancel to less than a millionth of the largest one are measured against that millionth.
    """
    worst = 0.0
    for name, expected in reference.items():
        floor = 1e-6 * np.max(np.abs(expected))
        worst = max(worst, float(np.max(np.abs(found[name] - expected) / np.maximum(np.abs(expected), floor))))
    return worst
