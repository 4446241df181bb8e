"""Kernels and factorisations on a cluster of two single-threaded workers, against one process on the same two cores.

Next to other work wall times say little: the ratio of processor time, of all processes that take part, is given too.
"""

import contextlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

from benchmarks._registry import Result, benchmark
from widetail import distributed as wd
from widetail import kernels, nn
from widetail.distributed._gram import default_block
from widetail.distributed._work import KernelJob
from widetail.kernels import matrix_facts, tile_rows
from widetail.stores import TileStore

ROUNDS = int(os.environ.get("WIDETAIL_BENCHMARK_ROUNDS", "2"))  # of which the best counts; the sides take turns
OVERHEAD, FACTOR = 1.15, 2.0
ROWS = int(os.environ.get("WIDETAIL_BENCHMARK_ROWS", "12000"))  # of the matrix that is factored
CASES = (
    ("CNN 3 x (3x3, relu), flatten, 16x16, n = 2000, nngp", nn.cnn(3, "relu"), (2000, 16, 16, 1)),
    ("MLP erf, depth 3, n = 20000, nngp", nn.mlp(3, "erf"), (20_000, 20)),
)


@benchmark("distributed", "kernels and factors by two single-threaded Dask workers, against one process")
def run() -> Iterator[Result]:
    print(f"load average at the start: {os.getloadavg()[0]:.2f} (it should be near 0)")
    with tempfile.TemporaryDirectory(dir=os.environ.get("WIDETAIL_BENCHMARK_DISK")) as name:
        folder = Path(name)
        with _cluster() as client:
            for case, net, shape in CASES:
                yield from _kernel(client, folder, case, net, np.random.default_rng(0).normal(size=shape))
            x = np.random.default_rng(0).normal(size=(ROWS, 8))
            matrix = wd.gram(kernels.RBF(2.0), x, client, folder / "K.zarr", progress=False)
        yield from _factor(matrix, folder, x)
    print(f"load average at the end: {os.getloadavg()[0]:.2f}")


def _kernel(client: Any, folder: Path, case: str, net: Any, x: np.ndarray) -> Iterator[Result]:
    """The engine into memory, the engine into a store, and the cluster into a store."""
    reports: list[wd.Gram] = []

    def by_cluster() -> None:
        shutil.rmtree(folder / "cluster", ignore_errors=True)
        reports.append(wd.gram(net, x, client, folder / "cluster" / "K.zarr", progress=False))

    def by_one_process() -> None:
        shutil.rmtree(folder / "one", ignore_errors=True)
        rows = tile_rows(net.numbers_per_pair(x.shape[1:]), len(x))
        job, block = KernelJob.of(net, "nngp", rows), default_block(len(x), rows)
        with TileStore(folder / "one" / "K.zarr", len(x), block, x.dtype, matrix_facts(net, x, "nngp", rows)) as store:
            store.fill_here(
                lambda here, there: job.values(x[here], None if here == there else x[there], threads=None),
                lambda done, total: None,
            )

    def into_memory() -> None:
        net.kernel(x, get="nngp")

    few = x[: max(2 * default_block(len(x), tile_rows(net.numbers_per_pair(x.shape[1:]), len(x))), 4)]
    net.kernel(few, get="nngp")  # compiles
    wd.gram(net, few, client, folder / "warm" / "K.zarr", progress=False)
    shutil.rmtree(folder / "warm")
    best, cpu = _take_turns({"cluster": by_cluster, "one": by_one_process, "memory": into_memory}, client)
    same = np.array_equal(
        wd.Gram(reports[-1].tiles).array[: 2 * reports[-1].tiles.block],
        net.kernel(x[: 2 * reports[-1].tiles.block], x, get="nngp").nngp,
    ) or _is_equal_by_tiles(reports[-1], net, x)
    tile = reports[-1].tiles
    facts = {
        "seconds per tile": sum(reports[-1].seconds) / tile.total,
        "of them writing": reports[-1].seconds[1] / tile.total,
        "tile MB": tile.block**2 * 8 / 1e6,
        "worker MB": reports[-1].peak_memory / 1e6,
    }
    for name, other in (("one process, same store", "one"), ("one process, memory", "memory")):
        ratio = best["cluster"] / best[other]
        yield {
            "case": f"{case}: {name}",
            "ours s": best["cluster"],
            "other s": best[other],
            "ratio": ratio,
            "to reach": OVERHEAD,
            "reached": "yes" if same and ratio <= OVERHEAD else "NO",
            "CPU ratio": cpu["cluster"] / cpu[other],
            "CPU s": cpu["cluster"],
            **facts,
        }


def _is_equal_by_tiles(found: wd.Gram, net: Any, x: np.ndarray) -> bool:
    """Bit for bit, on the first rows of tiles."""
    rows = tile_rows(net.numbers_per_pair(x.shape[1:]), len(x))
    job, tiles = KernelJob.of(net, "nngp", rows), found.tiles
    pairs = [(0, 0), (0, tiles.blocks - 1), (tiles.blocks - 1, tiles.blocks - 1)]
    return all(
        np.array_equal(tiles.read(i, j), job.values(x[tiles.rows(i)], None if i == j else x[tiles.rows(j)]))
        for i, j in pairs
    )


def _factor(matrix: wd.Gram, folder: Path, x: np.ndarray) -> Iterator[Result]:
    """Block Cholesky with a quarter of the matrix as memory of a worker, against LAPACK with all of it."""
    n, noise = len(x), 0.1
    limit = n * n * 8 // 4
    y = np.sin(x[:, :1])
    found: list[Any] = []
    with _cluster(memory_limit=limit) as client:

        def by_cluster() -> None:
            found[:] = [wd.cholesky(matrix, client, folder / "L.zarr", noise=noise, restart=True, progress=False)]

        def by_lapack() -> None:
            dense = np.asfortranarray(np.asarray(matrix))
            dense[np.diag_indices(n)] += noise
            start, processor = time.perf_counter(), time.process_time()
            lower, failed = scipy.linalg.lapack.dpotrf(dense, lower=1, clean=0, overwrite_a=1)
            assert not failed
            found_by_lapack["seconds"] = min(found_by_lapack.get("seconds", np.inf), time.perf_counter() - start)
            found_by_lapack["cpu"] = min(found_by_lapack.get("cpu", np.inf), time.process_time() - processor)
            found_by_lapack["log_det"] = 2 * np.sum(np.log(np.diagonal(lower)))
            found_by_lapack["solved"] = scipy.linalg.cho_solve((lower, True), y)

        found_by_lapack: dict[str, Any] = {}
        with threadpool_limits(limits=2):
            best, cpu = _take_turns({"cluster": by_cluster, "lapack": by_lapack}, client)
        factor = found[0]
        difference = float(np.max(np.abs(factor.solve(y) - found_by_lapack["solved"])))
        difference = max(difference, abs(factor.log_det - found_by_lapack["log_det"]) / n)
        ratio = best["cluster"] / found_by_lapack["seconds"]
        yield {
            "case": f"block Cholesky, n = {n}, workers of {limit / 1e6:.0f} MB, against LAPACK on two threads",
            "ours s": best["cluster"],
            "other s": found_by_lapack["seconds"],
            "ratio": ratio,
            "to reach": FACTOR,
            "reached": "yes" if ratio <= FACTOR and difference < 1e-8 else "NO",
            "CPU ratio": cpu["cluster"] / found_by_lapack["cpu"],
            "CPU s": cpu["cluster"],
            "difference": difference,
            "tile MB": matrix.tiles.block**2 * 8 / 1e6,
            "worker MB": factor.peak_memory / 1e6,
        }
        yield _iterative(matrix, client, noise, y, found_by_lapack)


def _iterative(matrix: wd.Gram, client: Any, noise: float, y: np.ndarray, exact: dict[str, Any]) -> Result:
    tolerance = 1e-8
    settings = wd.ConjugateGradients(tolerance=tolerance, rank=300, probes=8)
    start = time.perf_counter()
    solver = wd.conjugate_gradients(matrix, client, noise=noise, settings=settings, progress=False)
    solved = solver.solve(y)
    seconds = time.perf_counter() - start
    dense = np.asarray(matrix)
    residual = float(np.linalg.norm(dense @ solved + noise * solved - y) / np.linalg.norm(y))
    errors = abs(solver.log_det - exact["log_det"]) / solver.log_det_error
    return {
        "case": f"conjugate gradients, n = {len(y)}, rank 300, to a residual of {tolerance:g}",
        "ours s": seconds,
        "other s": exact["seconds"],
        "ratio": seconds / exact["seconds"],
        "to reach": None,
        "reached": "yes" if residual <= 1.01 * tolerance and errors < 4 else "NO",
        "difference": residual,
        "iterations": solver.iterations,
        "log det error": solver.log_det_error,
    }


def _take_turns(sides: dict[str, Callable[[], None]], client: Any) -> tuple[dict[str, float], dict[str, float]]:
    """The best wall time of each side, and its best processor time, in seconds."""
    best, cpu = dict.fromkeys(sides, np.inf), dict.fromkeys(sides, np.inf)
    for _ in range(ROUNDS):
        for name, work in sides.items():
            start, processor = time.perf_counter(), _processor_time(client)
            work()
            best[name] = min(best[name], time.perf_counter() - start)
            cpu[name] = min(cpu[name], _processor_time(client) - processor)
    return best, cpu


def _processor_time(client: Any) -> float:
    """Of the workers and of this process."""
    return time.process_time() + sum(client.run(time.process_time).values())


@contextlib.contextmanager
def _cluster(**options: Any) -> Iterator[Any]:
    from distributed import Client, LocalCluster

    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": logging.ERROR}
    with LocalCluster(**(settings | options)) as cluster, Client(cluster) as client:
        yield client
