"""Evaluation of kernels at scale: tiles, threads, and a bounded workspace.

A tile is small enough for the cache, and a kernel runs on it as a short sequence of compiled functions
(compiling a deep network into one function makes XLA recompute shared terms again and again). Tiles go to a
pool of threads; JAX releases the interpreter lock while a compiled function runs.
"""

import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail.kernels._values import Get, KernelValues, Rows, RowsFn
from widetail.kernels.engine._memory import check_memory
from widetail.kernels.engine._tiles import PANEL_BYTES, Blocks, tile_rows, tiles_of, worker_count
from widetail.numerics import with_rows
from widetail.progress import Progress, reporter


def evaluate(
    kernel: Any,
    x1: Any,
    x2: Any,
    get: Get,
    *,
    max_memory: float | int | None = None,
    progress: Progress = False,
    rows_per_tile: int | None = None,
    threads: int | None = None,
) -> KernelValues:
    """The kernels of `x1` with `x2` (None: with itself), for concrete arrays; see `Kernel.kernel`.

    A part of a matrix, computed with the `rows_per_tile` of the whole and beginning where one of its tiles begins, has
    the same bits as in the whole.
    """
    symmetric = x2 is None
    source1 = np.asarray(x1)
    source2 = source1 if symmetric else np.asarray(x2)
    numbers = kernel.numbers_per_pair(x1.shape[1:])
    blocks1 = Blocks(len(source1), rows_per_tile or tile_rows(numbers, len(source1)))
    blocks2 = Blocks(len(source2), rows_per_tile or tile_rows(numbers, len(source2)))
    shape = (len(source1), len(source2))
    wanted = KernelValues(
        nngp=get != "ntk" or None,
        ntk=(get != "nngp" and kernel.has_ntk) or None,
    )
    check_memory(shape, wanted, source1.dtype, max_memory)
    out = KernelValues(*(None if want is None else aligned_empty(shape, source1.dtype) for want in wanted))

    rows_fn, cross_fn = kernel.rows_fn(get), kernel.cross_fn(get)

    def evaluate_tile(i: int, j: int, rows1: Rows, rows2: Rows) -> None:
        tile = cross_fn(rows1, rows2)
        for target, values, diagonal in zip(out, tile, rows1.diagonal, strict=True):
            if target is None:
                continue
            here, there = blocks1[i], blocks2[j]
            values = np.asarray(values)[: here.stop - here.start, : there.stop - there.start]
            if symmetric and i == j:
                values = 0.5 * (values + values.T)  # products may round differently across the diagonal
                np.fill_diagonal(values, np.asarray(diagonal)[: len(values)])
            target[here, there] = values
            if symmetric and i != j:
                target[there, here] = values.T

    keep_freed_memory()
    with Workers(double=source1.dtype == np.float64, threads=threads) as workers:
        (first,) = workers.run([lambda: rows_fn(padded_block(source1, blocks1, 0))])
        per_panel = max(1, PANEL_BYTES // _nbytes(first))
        panels1, panels2 = blocks1.panels(per_panel), blocks2.panels(per_panel)
        report = reporter(progress, "kernel")
        total = sum(1 for _ in tiles_of(range(len(blocks1)), range(len(blocks2)), symmetric=symmetric))
        done = 0
        for panel1 in panels1:
            known = {0: first} if panel1.start == 0 else {}
            rows1 = known | _prepare_panel(workers, rows_fn, source1, blocks1, panel1[len(known) :])
            for panel2 in panels2:
                if symmetric and panel2.start < panel1.start:
                    continue
                same = symmetric and panel2 == panel1
                rows2 = rows1 if same else _prepare_panel(workers, rows_fn, source2, blocks2, panel2)
                tasks = [
                    functools.partial(evaluate_tile, i, j, rows1[i], rows2[j])
                    for i, j in tiles_of(panel1, panel2, symmetric=symmetric)
                ]
                workers.run(tasks, lambda count, done=done: report(done + count, total))
                done += len(tasks)
    return _to_jax(out) if isinstance(x1, jax.Array) else out


def evaluate_diagonal(kernel: Any, x: Any, get: Get) -> KernelValues:
    """The kernels of each row with itself, for a concrete array; see `Kernel.diagonal`."""
    source = np.asarray(x)
    blocks = Blocks(len(source), tile_rows(kernel.numbers_per_pair(x.shape[1:]), len(source)))
    rows_fn = kernel.rows_fn(get)
    with Workers(double=source.dtype == np.float64) as workers:
        tasks = [
            functools.partial(lambda i: rows_fn(padded_block(source, blocks, i)).diagonal, i)
            for i in range(len(blocks))
        ]
        parts = workers.run(tasks)
    joined = KernelValues(
        *(None if column[0] is None else np.concatenate(column)[: len(source)] for column in zip(*parts, strict=True))
    )
    return _to_jax(joined) if isinstance(x, jax.Array) else joined


def _to_jax(values: KernelValues) -> KernelValues:
    """The same memory as JAX arrays of the same dtype, whatever `jax_enable_x64` says."""
    with jax.enable_x64(True):
        return KernelValues(*(None if k is None else jax.device_put(k, may_alias=True) for k in values))


def padded_block(source: np.ndarray, blocks: Blocks, index: int) -> jax.Array:
    """One block of rows, filled up with copies of its last row so that every block has one shape."""
    return jnp.asarray(with_rows(source[blocks[index]], blocks.size))


def _prepare_panel(
    workers: "Workers", rows_fn: RowsFn, source: np.ndarray, blocks: Blocks, panel: range
) -> dict[int, Rows]:
    def prepare(index: int) -> Rows:
        return rows_fn(padded_block(source, blocks, index))

    tasks = [functools.partial(prepare, index) for index in panel]
    return dict(zip(panel, workers.run(tasks), strict=True))


def _nbytes(tree: Any) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array))


def keep_freed_memory() -> None:
    """Free one block of almost 32 MB, after which glibc keeps freed memory of that order for reuse.

    Otherwise it hands a tile's arrays back to the system after every step, and half of the time goes into
    the page faults of getting them again. Harmless with other allocators.
    """
    np.empty(31 << 20, np.uint8)


def aligned_empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An uninitialised array that JAX can adopt without a copy (it wants 64-byte alignment)."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    buffer = np.empty(size + 64, np.uint8)
    offset = -buffer.ctypes.data % 64
    return buffer[offset : offset + size].view(dtype).reshape(shape)


class Workers:
    """A pool of threads for tasks that call JAX in one precision; leaves no thread behind, ever."""

    def __init__(self, *, double: bool, threads: int | None = None):
        self.double = double
        self.threads = threads or worker_count()
        self.stopped = threading.Event()

    def __enter__(self) -> "Workers":
        self.pool = ThreadPoolExecutor(self.threads, thread_name_prefix="widetail")
        return self

    def __exit__(self, *exception: object) -> None:
        self.stopped.set()
        self.pool.shutdown(wait=True, cancel_futures=True)

    def run(self, tasks: Sequence[Callable[[], Any]], report: Callable[[int], None] | None = None) -> list[Any]:
        """Run `tasks`, in any order, and return their results in the order given."""
        if len(tasks) == 1:  # a thread would cost more than a small task
            results = [self._call(tasks[0])]
            if report:
                report(1)
            return results
        futures = [self.pool.submit(self._call, task) for task in tasks]
        for count, future in enumerate(as_completed(futures), 1):
            future.result()  # an error in one task ends the run
            if report:
                report(count)
        return [future.result() for future in futures]

    def _call(self, task: Callable[[], Any]) -> Any:
        if self.stopped.is_set():
            return None
        with jax.enable_x64(self.double):
            return task()
