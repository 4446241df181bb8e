"""Cholesky factors of matrices in a store: n beyond the memory of any one machine."""

import dataclasses
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from widetail.distributed._cluster import Sent, announce, check_client, run_graph, run_tasks
from widetail.distributed._factor_work import (
    FINAL,
    FactorTiles,
    NotPositiveDefiniteError,
    check_factor_tile,
    finish_tile,
    inverse_diagonal,
    log_diagonal,
    solve_backward,
    solve_forward,
    update_tile,
)
from widetail.distributed._factor_work import _opened as opened_factors
from widetail.distributed._gram import Gram
from widetail.files import fingerprint
from widetail.progress import Progress
from widetail.stores import FACTS, TILE, Location, Pair, RunLock, StoreMismatchError, read_facts

PANEL = 4
PANELS_AHEAD = 2  # on the cluster at a time, about: those that come next can begin when the first is not finished yet
TILES_PER_SOLVE = 2.0  # size of the right-hand sides that a task solves for at a time, in tiles


@dataclasses.dataclass(frozen=True, eq=False)
class BlockCholesky:
    """The lower Cholesky factor of a matrix with noise on its diagonal, in a store.

    Attributes:
        tiles: where it is.
        client: of the cluster that solves with it.
        log_det: log determinant of the factored matrix.
        computed: how many tasks this call took; 0 where the factor was there.
        peak_memory: the largest memory of any worker while it was factored, bytes.
    """

    tiles: FactorTiles
    client: Any
    log_det: float
    computed: int
    peak_memory: int

    log_det_error = 0.0

    @property
    def jitter(self) -> float:
        """What had to be added to the diagonal, 0 if nothing."""
        return self.tiles.jitter

    @property
    def array(self) -> Any:
        """The factor as a Zarr array, zero above its diagonal."""
        return self.tiles.lower.array

    def dask(self) -> Any:
        """The factor as a Dask array with one chunk per tile."""
        import dask.array

        return dask.array.from_zarr(self.array)

    def solve_lower(self, b: np.ndarray) -> np.ndarray:
        """Solve L v = b, shape (n, columns)."""
        return self._in_columns(solve_forward, b)

    def solve_upper(self, b: np.ndarray) -> np.ndarray:
        """Solve L^T v = b, shape (n, columns)."""
        return self._in_columns(solve_backward, b)

    def solve(self, b: np.ndarray) -> np.ndarray:
        """Solve L L^T v = b, shape (n, columns)."""
        return self.solve_upper(self.solve_lower(b))

    def weights_and_quad(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The inverse times the targets (n, outputs), and the quadratic form of each output."""
        whitened = self.solve_lower(targets)
        return self.solve_upper(whitened), np.sum(whitened**2, axis=0)

    def inverse_diagonal(self) -> np.ndarray:
        """The diagonal of the inverse, at the cost of the factorisation."""
        tiles, step = self.tiles.source, self.columns_per_task
        starts = [
            (start, min(start + step, tiles.rows(k).stop))
            for k in range(tiles.blocks)
            for start in range(tiles.rows(k).start, tiles.rows(k).stop, step)
        ]
        diagonal = np.empty(tiles.n)

        def submit(part: Pair) -> Any:
            return self.client.submit(inverse_diagonal, self.tiles, *part, pure=False, retries=2)

        for (start, stop), values in run_tasks(self.client, submit, starts, lambda: None, "inverse diagonal"):
            diagonal[start:stop] = values
        return diagonal

    @property
    def columns_per_task(self) -> int:
        """Right-hand sides that a task works on: as many as have the size of two tiles."""
        return columns_per_task(self.tiles.source.n, self.tiles.source.block)

    def _in_columns(self, work: Callable[..., np.ndarray], b: np.ndarray) -> np.ndarray:
        b = np.asarray(b, dtype=np.float64)
        out = np.empty(b.shape)
        step = self.columns_per_task
        starts = range(0, b.shape[1], step)

        def submit(start: int) -> Any:
            part = Sent(self.client, np.ascontiguousarray(b[:, start : start + step])).values
            return self.client.submit(work, self.tiles, part, pure=False, retries=2)

        for start, values in run_tasks(self.client, submit, starts, lambda: None, "solve"):
            out[:, start : start + step] = values
        return out


def columns_per_task(n: int, block: int) -> int:
    """How many columns of length n have the size of `TILES_PER_SOLVE` tiles."""
    return max(1, min(block, int(TILES_PER_SOLVE * block * block / n)))


def cholesky(
    matrix: Gram,
    client: Any,
    store: str | Path = "L.zarr",
    *,
    noise: Any = 0.0,
    restart: bool = False,
    progress: Progress = True,
    storage_options: dict[str, Any] | None = None,
    retries: int = 2,
) -> BlockCholesky:
    """Factor a kernel matrix plus noise on its diagonal, on a cluster, from Zarr to Zarr, in float64.

    Right-looking, in panels of a few tiles. A worker holds some three tiles per thread at a time. Where the matrix is
    not positive definite by rounding, the same jitter is added as on one machine. Killed at any moment, the same call
    goes on where it stopped.

    Args:
        matrix: what `gram` returned.
        client: a `dask.distributed.Client`.
        store: path or URL of the factor; a folder beside it, `<store>.tiles`, holds the manifest and unfinished tiles.
        noise: added to the diagonal: a number or one per row.
        restart: whether to discard what is in the store.
        progress: as in `gram`.
        storage_options: arguments of the fsspec file system, for URLs.
        retries: how often a task that raised an error is tried again.

    Raises:
        numpy.linalg.LinAlgError: the matrix is not positive definite, and jitter does not help.
        StoreMismatchError: the store is of another matrix or other noise.

    Example:
        >>> import numpy as np, widetail as wt  # and client = dask.distributed.Client(...)
        >>> K = wt.distributed.gram(wt.kernels.RBF(), np.eye(3), client, store="K.zarr", progress=False)
        >>> L = wt.distributed.cholesky(K, client, store="L.zarr", noise=1.0, progress=False)
        >>> bool(np.isclose(L.log_det, np.linalg.slogdet(np.asarray(K) + np.eye(3))[1]))
        True
    """
    from widetail.numerics import JITTERS

    check_client(client)
    if not isinstance(matrix, Gram):
        raise ValueError(f"matrix must be what wt.distributed.gram returned; got {type(matrix).__name__}.")
    noise = _checked_noise(noise, matrix.tiles.n)
    location = Location.of(store, storage_options)
    manifest = location.beside(".tiles")
    lock = RunLock(manifest, location.address)
    lock.acquire()
    try:
        scale = _mean_diagonal(matrix, client) + float(np.mean(noise))
        for relative in JITTERS:
            if not restart and _was_too_small(relative * scale, manifest):
                continue
            tiles = FactorTiles(matrix.tiles, location, manifest, PANEL, relative * scale)
            try:
                return _factor(tiles, client, noise, lock, restart=restart, progress=progress, retries=retries)
            except NotPositiveDefiniteError:
                restart = True
    finally:
        lock.release()
    raise np.linalg.LinAlgError(
        f"The {matrix.tiles.n} x {matrix.tiles.n} covariance matrix in {matrix.tiles.location.address!r} is not "
        f"positive definite, and adding {JITTERS[-1]:g} of its mean diagonal ({scale:.3g}) did not help. Use more "
        f"observation noise, drop repeated rows, or, with a kernel of your own, check that it is symmetric and "
        f"positive semi-definite."
    )


def _factor(
    tiles: FactorTiles,
    client: Any,
    noise: np.ndarray,
    lock: RunLock,
    *,
    restart: bool,
    progress: Progress,
    retries: int,
) -> BlockCholesky:
    report = announce(client, progress, "factor")
    tiles, versions = _open(tiles, client, noise, restart=restart)
    blocks = tiles.source.blocks
    total = sum(1 for _ in _schedule(blocks, tiles.panel))
    futures: dict[Pair, Any] = {}
    peak = computed = 0

    def submit(task: tuple[int, int, int]) -> Any:
        i, j, step = task
        version = versions.get((i, j), 0)
        if version == FINAL or FINAL < step < version:
            return None
        own = noise[tiles.source.rows(i)] if i == j else None
        if step == FINAL:
            before = [(i, k) for k in range(j // tiles.panel * tiles.panel, j)]
            before += [(j, k) for _, k in before] + ([(j, j)] if i != j else [])
            function, arguments = finish_tile, (i, j, own)
        else:
            columns = range(step * tiles.panel, (step + 1) * tiles.panel)
            before = [(row, k) for k in columns for row in {i, j}]
            function, arguments = update_tile, (i, j, step, own)
        needed = [futures[pair] for pair in [(i, j), *before] if pair in futures]
        # what is on the critical path first: tiles near the left
        future = client.submit(function, tiles, *arguments, *needed, pure=False, retries=retries, priority=-j)
        futures[i, j] = future
        return future

    tasks = _schedule(blocks, tiles.panel)
    window = max(200, PANELS_AHEAD * blocks * blocks)
    for done, result in enumerate(run_graph(client, submit, tasks, window=window, describe="factor"), 1):
        lock.check()
        if result is not None:
            computed += 1
            peak = max(peak, result)
        report(done, total)
    log_det = 2.0 * _sum_over_blocks(client, log_diagonal, tiles, blocks)
    for version in (0, 1):
        tiles.manifest.inside(f"work-{version}.zarr").remove()
    return BlockCholesky(tiles, client, log_det, computed, peak)


def _schedule(blocks: int, panel: int) -> Iterator[tuple[int, int, int]]:
    """Tasks (i, j, step) in an order that respects what they need; `step` is FINAL where a tile becomes part of L."""
    for step in range(-(-blocks // panel)):
        first, after = step * panel, min((step + 1) * panel, blocks)
        for j in range(first, after):
            yield from ((i, j, FINAL) for i in range(j, blocks))
        for j in range(after, blocks):
            yield from ((i, j, step) for i in range(j, blocks))


def _open(tiles: FactorTiles, client: Any, noise: np.ndarray, *, restart: bool) -> tuple[FactorTiles, dict[Pair, int]]:
    """Make the arrays, or check what is in them; where they are, and the version of every tile."""
    facts = {
        "matrix": tiles.source.run,
        "noise": fingerprint(noise),
        "block": tiles.source.block,
        "panel": tiles.panel,
    }
    before = None if restart else read_facts(tiles.manifest, "jitter", "attempt")
    opened_factors.cache_clear()
    if before is not None:
        for name, value in facts.items():
            if before.get(name) != value:
                raise StoreMismatchError(tiles.location.address, name, before.get(name), value)
        entries = tiles.entries() if before["jitter"] == tiles.jitter else {}
        entries = {pair: entry for pair, entry in entries.items() if entry["attempt"] == before["attempt"]}
        if entries and _are_whole(tiles, client, entries):
            return (
                dataclasses.replace(tiles, attempt=before["attempt"]),
                {pair: entry["version"] for pair, entry in entries.items()},
            )
    elif not restart and tiles.location.exists():
        raise FileExistsError(
            f"store: {tiles.location.address!r} is there already, and nothing says what it is of; remove it, use "
            f"another store, or restart=True to discard it."
        )
    tiles = dataclasses.replace(tiles, attempt=uuid.uuid4().hex)
    # first of all: tasks of an earlier attempt look at it before they write, and entries of theirs do not count
    tiles.manifest.write(FACTS, json.dumps({**facts, "jitter": tiles.jitter, "attempt": tiles.attempt}).encode())
    for name in tiles.manifest.read_all(TILE):
        tiles.manifest.inside(name).remove()
    for matrix in (tiles.lower, tiles.work(0), tiles.work(1)):
        matrix.location.remove()
        matrix.create(tiles.source.block, {})
    client.run(opened_factors.cache_clear)
    return tiles, {}


def _was_too_small(jitter: float, manifest: Location) -> bool:
    """Whether an earlier run has come to a larger one."""
    facts = read_facts(manifest, "jitter", "attempt")
    return facts is not None and facts["jitter"] > jitter


def _are_whole(tiles: FactorTiles, client: Any, entries: dict[Pair, dict[str, int]]) -> bool:
    """Whether every tile is what was written; one that is not cannot be made again without the others."""

    def submit(pair: Pair) -> Any:
        entry = entries[pair]
        return client.submit(check_factor_tile, tiles, *pair, entry["version"], entry["crc32"], pure=False)

    return all(whole for _, whole in run_tasks(client, submit, list(entries), lambda: None, "checksums"))


def _mean_diagonal(matrix: Gram, client: Any) -> float:
    return _sum_over_blocks(client, _diagonal_sum, matrix.tiles, matrix.tiles.blocks) / matrix.tiles.n


def _sum_over_blocks(client: Any, work: Callable[[Any, int], float], tiles: Any, blocks: int) -> float:
    def submit(i: int) -> Any:
        return client.submit(work, tiles, i, pure=False, retries=2)

    # in the order of the blocks, so that the last digits do not depend on which worker was first
    found = dict(run_tasks(client, submit, range(blocks), lambda: None, "factor"))
    return sum(found[i] for i in range(blocks))


def _diagonal_sum(tiles: Any, i: int) -> float:
    return float(np.sum(np.abs(np.diagonal(tiles.read(i, i)).astype(np.float64))))


def _checked_noise(noise: Any, n: int) -> np.ndarray:
    values = np.asarray(noise, dtype=np.float64)
    if values.shape not in ((), (n,)) or not np.all(np.isfinite(values)) or np.any(values < 0):
        raise ValueError(f"noise must be a variance, zero or more, or one for each of the {n} rows; got {noise!r}.")
    return np.broadcast_to(values, (n,)).copy()
