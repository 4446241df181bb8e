"""What workers do with kernels: compute a tile, write it, and say so.

JAX is imported where it is needed: workers that only factor matrices do without its memory.
"""

import dataclasses
import functools
import resource
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from widetail.distributed._allocator import reuse_freed_memory
from widetail.files import fingerprint
from widetail.stores import Tiles

THREADS_PER_TASK = 2  # one computes while the other waits, as in the engine of one machine
MOST_REPORTED = 10


@dataclasses.dataclass(frozen=True)
class KernelJob:
    """A pickled kernel, which each worker unpacks once.

    Attributes:
        pickled: the kernel, by cloudpickle, so that functions of the user's own travel too.
        fingerprint: of the kernel.
        get: "nngp" or "ntk".
        rows_per_tile: of the engine, as it would choose them for the whole matrix; None to let it choose.
        is_function: whether it is a function of the user's own, which knows no tiles.
    """

    pickled: bytes
    fingerprint: str
    get: str
    rows_per_tile: int | None
    is_function: bool = False

    @classmethod
    def of(cls, kernel: Any, get: str, rows_per_tile: int | None) -> "KernelJob":
        """Pack a kernel; `rows_per_tile` is None for a function of the user's own."""
        import cloudpickle

        packed = cloudpickle.dumps(kernel)
        return cls(packed, fingerprint(kernel), get, rows_per_tile, rows_per_tile is None)

    def values(self, x1: np.ndarray, x2: np.ndarray | None) -> np.ndarray:
        """The kernel between rows; None for `x1` with itself."""
        reuse_freed_memory()
        kernel = _unpacked(self.pickled)
        if self.is_function:
            return np.asarray(kernel.kernel(x1, x2, get=self.get).nngp)
        from widetail.distributed._sharded import device_count
        from widetail.kernels import evaluate

        if device_count() > 1:
            return _sharded(self.pickled, self.get)(x1, x2)
        values = evaluate(kernel, x1, x2, self.get, rows_per_tile=self.rows_per_tile, threads=THREADS_PER_TASK)  # type: ignore[arg-type]
        return np.asarray(values.ntk if self.get == "ntk" else values.nngp)


@functools.lru_cache(maxsize=4)
def _unpacked(pickled: bytes) -> Any:
    # one object for all tiles: what JAX compiled for it is found again
    import cloudpickle

    return cloudpickle.loads(pickled)


@functools.lru_cache(maxsize=4)
def _sharded(pickled: bytes, get: Any) -> Any:
    from widetail.distributed._sharded import ShardedKernel

    return ShardedKernel(_unpacked(pickled), get)


class TileReport(NamedTuple):
    """The report of a worker on a tile.

    Attributes:
        poisoned: rows and columns of the matrix where it is not finite, the first ones; the tile was not written then.
        seconds: time to compute, and time to write.
        peak: the largest memory of the worker's process so far, bytes.
    """

    i: int
    j: int
    poisoned: tuple[tuple[int, int], ...]
    seconds: tuple[float, float]
    peak: int


def fill_tile(job: KernelJob, tiles: Tiles, i: int, j: int, x1: np.ndarray, x2: np.ndarray | None) -> TileReport:
    """Compute a tile and write it, unless it is poisoned."""
    start = time.perf_counter()
    values = job.values(x1, x2)
    computed = time.perf_counter()
    poisoned = _not_finite(values, tiles.rows(i).start, tiles.rows(j).start)
    if not poisoned:
        tiles.write(i, j, values)
    return TileReport(i, j, poisoned, (computed - start, time.perf_counter() - computed), peak_memory())


def check_tile(tiles: Tiles, i: int, j: int, sums: list[int]) -> bool:
    """Whether a finished tile is what was written."""
    return tiles.is_whole(i, j, sums)


def _not_finite(values: np.ndarray, row: int, column: int) -> tuple[tuple[int, int], ...]:
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(values, dtype=np.float64)):
            return ()
    bad = np.argwhere(~np.isfinite(values))
    return tuple((int(a) + row, int(b) + column) for a, b in bad[: 100 * MOST_REPORTED])


def peak_memory() -> int:
    """The largest memory that this process ever had, bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # where there is one: the usage below may be that of the process that started this one
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
