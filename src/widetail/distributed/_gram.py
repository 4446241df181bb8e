"""Kernel matrices computed by a cluster, tile by tile, into a Zarr array."""

import dataclasses
from pathlib import Path
from typing import Any, Literal

import numpy as np

from widetail.distributed._cluster import Scattered, announce, check_client, run_tasks
from widetail.distributed._errors import PoisonedTileError
from widetail.distributed._work import MOST_REPORTED, KernelJob, TileReport, check_tile, fill_tile
from widetail.progress import Progress
from widetail.stores import Location, Pair, Tiles, TileStore

ROWS_PER_TILE = 2000
TILES_IN_MEMORY = 16  # what a worker may need at most, with room for Python, JAX and its own libraries
ROWS_TO_SETTLE = 256  # the first ones, by which the accuracy of integrals is chosen
FEWEST_BLOCKS = 10  # so that a handful of workers share the work evenly


@dataclasses.dataclass(frozen=True)
class Gram:
    """A kernel matrix in a store.

    Attributes:
        tiles: where it is.
        computed: how many tiles this call computed; the others were there.
        seconds: sum over those tiles of the time to compute, and of the time to write.
        peak_memory: the largest memory of any worker while it did, bytes; 0 when nothing was computed.
    """

    tiles: Tiles
    computed: int = 0
    seconds: tuple[float, float] = (0.0, 0.0)
    peak_memory: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return self.tiles.n, self.tiles.n

    @property
    def array(self) -> Any:
        """The matrix as a read-only Zarr array."""
        import zarr

        return zarr.open_array(store=self.tiles.location.zarr_store(read_only=True), mode="r")

    def dask(self) -> Any:
        """The matrix as a Dask array with one chunk per tile."""
        import dask.array

        return dask.array.from_zarr(self.array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.array[:], dtype=dtype)


def gram(
    kernel: Any,
    x: Any,
    client: Any,
    store: str | Path = "K.zarr",
    *,
    get: Literal["nngp", "ntk"] = "nngp",
    block: int | None = None,
    retries: int = 2,
    restart: bool = False,
    progress: Progress = True,
    storage_options: dict[str, Any] | None = None,
) -> Gram:
    """The kernel matrix of the rows of `x`, computed by the workers of a cluster and written by them into a Zarr array.

    The upper triangle is computed, in tiles by the engine of one machine and with the same bits (but for the last
    digits where a worker has several devices, which share the rows of a tile); both triangles are written. Killed at
    any moment, client, scheduler or workers, the same call goes on where it stopped: finished tiles are compared with
    their checksums, and computed again where they differ. A store that was begun with another network, other data or
    another dtype is refused, and so is a second run on a store that one is writing to.

    Args:
        kernel: a network of `widetail.nn`, a program, a kernel of `widetail.kernels`, or a function `k(x1, x2)`.
        x: inputs, rows first; they are sent to the workers once, in blocks of rows.
        client: a `dask.distributed.Client` of any cluster: LocalCluster, SSH, SLURM (dask-jobqueue), Kubernetes.
        store: path of the Zarr array on a disk that the workers share, or a URL that fsspec knows (s3://...). The
            manifest is in a folder beside it, `<store>.tiles`.
        get: which of the two kernels.
        block: rows of a tile; a worker's memory is that of a few tiles per thread. About 2000 by default, fewer for
            small n and for small workers.
        retries: how often a tile that raised an error is tried again. Tiles of workers that died are always redone.
        restart: whether to discard what is in the store.
        progress: True for the dashboard's address and a bar (or lines, where there is no terminal) on standard error;
            False, or a function of (tiles done, tiles in all).
        storage_options: arguments of the fsspec file system, for URLs.

    Raises:
        StoreMismatchError: the store is of something else.
        StoreDamagedError: what is in the store is not what was written.
        StoreBusyError: another run is writing to it.
        PoisonedTileError: a tile has NaN or infinite entries; the message names the rows.
        ClusterError: the scheduler is gone, a disk is full, or a tile killed every worker that tried it.

    Example:
        >>> import numpy as np, widetail as wt  # and client = dask.distributed.Client(...)
        >>> K = wt.distributed.gram(wt.kernels.RBF(), np.eye(3), client, store="K.zarr", progress=False)
        >>> K.array[0].round(3)
        array([1.   , 0.368, 0.368])
    """
    from widetail.checks import check_count
    from widetail.kernels import matrix_facts, matrix_notes

    check_client(client)
    kernel, x, rows_per_tile = checked(kernel, x, get)
    job = KernelJob.of(kernel, get, rows_per_tile)
    if block is None:
        block = min(default_block(len(x), rows_per_tile), _most_rows(client))
    block = min(check_count("block", block), len(x))
    holder = TileStore(
        store,
        len(x),
        block,
        x.dtype if rows_per_tile else np.float64,
        matrix_facts(kernel, x, get, rows_per_tile),
        restart=restart,
        options=storage_options,
        attributes=matrix_notes(kernel, get),
    )
    if holder.final.address.endswith(".npy"):
        raise ValueError(f"store must be a Zarr array, such as 'K.zarr'; got {holder.final.address!r}.")
    with holder:
        return _fill(holder, job, x, client, retries=retries, progress=progress)


def fill_on_cluster(
    store: TileStore,
    kernel: Any,
    x: np.ndarray,
    get: str,
    rows_per_tile: int,
    client: Any,
    *,
    progress: Progress = True,
) -> int:
    """Have the workers of a cluster compute the tiles that an open store misses; how many they were.

    Args:
        store: open, of the kernel matrix of the rows of `x`.
        kernel: a network, program or kernel.
        x: inputs, rows first.
        get: "nngp" or "ntk".
        rows_per_tile: of the engine, by which the facts of the store know the matrix.
        client: a `dask.distributed.Client`.
        progress: as in `gram`.
    """
    job = KernelJob.of(kernel, get, rows_per_tile)
    return _fill(store, job, x, client, retries=2, progress=progress).computed


def _fill(holder: TileStore, job: KernelJob, x: np.ndarray, client: Any, *, retries: int, progress: Progress) -> Gram:
    """Check the finished tiles and compute the others."""
    tiles = holder.tiles
    report = announce(client, progress, "kernel")
    _check_shared(client, tiles.location)
    if holder.done:
        _check_finished(holder, client, report)
    blocks = Scattered(client, lambda index: x[tiles.rows(index)])

    def submit(pair: Pair) -> Any:
        i, j = pair
        other = None if i == j else blocks[j]
        return client.submit(fill_tile, job, tiles, i, j, blocks[i], other, pure=False, retries=retries)

    computed, compute, write, peak = 0, 0.0, 0.0, 0
    total = tiles.total
    for (i, j), result in run_tasks(client, submit, holder.missing, blocks.forget, "kernel"):
        outcome: TileReport = result
        if outcome.poisoned:
            raise _poisoned_error(outcome, tiles)
        holder.mark(i, j)
        computed += 1
        compute, write = compute + outcome.seconds[0], write + outcome.seconds[1]
        peak = max(peak, outcome.peak)
        report(len(holder.done), total)
    blocks.forget()
    return Gram(tiles, computed, (compute, write), peak)


def _check_finished(holder: TileStore, client: Any, report: Any) -> None:
    tiles, done = holder.tiles, dict(holder.done)

    def submit(pair: Pair) -> Any:
        return client.submit(check_tile, tiles, *pair, done[pair], pure=False)

    holder.keep_whole(run_tasks(client, submit, list(done), lambda: None, "checksums"), report)


def _check_shared(client: Any, location: Location) -> None:
    """Whether workers see the store: one that is on the client's own disk cannot be written to from elsewhere."""
    blind = [worker for worker, sees in client.run(location.exists).items() if not sees]
    if blind:
        raise ValueError(
            f"store: {location.address!r} is not visible from {len(blind)} workers, such as {blind[0]}; use a folder "
            f"on a file system that they share with this process, or a URL such as s3://bucket/K.zarr."
        )


def _poisoned_error(outcome: TileReport, tiles: Tiles) -> PoisonedTileError:
    pairs = outcome.poisoned
    by_row: dict[int, int] = {}
    for pair in pairs:
        for row in set(pair):
            by_row[row] = by_row.get(row, 0) + 1
    # a bad row spoils all of its entries: it is in more bad entries than the rows beside it
    rows = tuple(sorted(by_row, key=lambda row: (-by_row[row], row))[:MOST_REPORTED])
    here, there = tiles.rows(outcome.i), tiles.rows(outcome.j)
    return PoisonedTileError(
        f"x: the kernel of rows {here.start} to {here.stop - 1} with rows {there.start} to {there.stop - 1} is NaN or "
        f"infinite in {len(pairs)} entries or more, the first at {pairs[0]}; rows that take part most: "
        f"{', '.join(map(str, rows))}. Such inputs overflow, or the network's own function does; scale or drop them. "
        f"Nothing of this tile was written.",
        rows,
    )


def checked(kernel: Any, x: Any, get: str) -> tuple[Any, np.ndarray, int | None]:
    """The kernel, the inputs as NumPy, and the rows of the engine's tiles (None for a function of the user's own)."""
    from widetail.kernels import Kernel, check_get, check_inputs, tile_rows
    from widetail.process import as_kernel

    if get not in ("nngp", "ntk"):
        raise ValueError(f"get must be 'nngp' or 'ntk', a store holds one matrix; got {get!r}.")
    kernel = as_kernel(kernel)
    if not isinstance(kernel, Kernel):
        return kernel, np.asarray(x), None
    check_get(kernel, get)
    x, _ = check_inputs(kernel, x, None)
    x = np.asarray(x)
    kernel = kernel.for_inputs(
        x[:ROWS_TO_SETTLE], None, get
    )  # one accuracy for all tiles, and warnings in this process
    return kernel, x, tile_rows(kernel.numbers_per_pair(x.shape[1:]), len(x))


def default_block(n: int, rows_per_tile: int | None) -> int:
    """Rows of a tile of the store: a multiple of the engine's, so that its bits are those of one machine."""
    wanted = max(1, min(ROWS_PER_TILE, -(-n // FEWEST_BLOCKS)))
    step = rows_per_tile or 1
    return min(max(step, step * round(wanted / step)), max(n, 1))


def _most_rows(client: Any) -> int:
    """Rows of the largest tile of which a dozen and more fit into the memory of a worker, for each of its threads."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    shares = [worker["memory_limit"] / worker["nthreads"] for worker in workers if worker["memory_limit"]]
    return max(1, int((min(shares, default=np.inf) / (8 * TILES_IN_MEMORY)) ** 0.5)) if shares else ROWS_PER_TILE
