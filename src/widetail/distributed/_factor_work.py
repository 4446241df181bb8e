"""The tasks of workers on a Cholesky factor: steps of the factorisation, and solves that stream its tiles.

Right-looking: when a panel of columns is finished, what it explains is subtracted from everything to its right. Tiles
are read from Zarr and written to Zarr; a task holds three of them.

A tile is rewritten once per panel. A task that is run twice (its worker died after writing) must not subtract twice:
versions alternate between two arrays, so that the one that is read stays as it was, and an entry of the manifest says
which version is there.
"""

import dataclasses
import functools
import json
from typing import Any

import numpy as np
import scipy.linalg

from widetail.distributed._allocator import reuse_freed_memory
from widetail.distributed._work import peak_memory
from widetail.stores import Location, Pair, Tiles, ZarrMatrix, checksum, entry_name, read_entries, read_facts

_gemm, _syrk = scipy.linalg.get_blas_funcs(("gemm", "syrk"), dtype=np.float64)
(_potrf,) = scipy.linalg.get_lapack_funcs(("potrf",), dtype=np.float64)
FINAL = -1  # the version of a tile of the factor itself


class NotPositiveDefiniteError(np.linalg.LinAlgError):
    """A tile on the diagonal could not be factored."""


@dataclasses.dataclass(frozen=True)
class FactorTiles:
    """The files of a factor that is being computed.

    Attributes:
        source: the matrix that is factored.
        location: of the factor.
        manifest: the folder of versions and checksums.
        panel: tiles in the width of a panel.
        jitter: added to the diagonal.
        attempt: identifies the factorisation. Tasks of an earlier one, which Dask cannot stop once they run, neither
            write into this one nor count.
    """

    source: Tiles
    location: Location
    manifest: Location
    panel: int
    jitter: float
    attempt: str = ""

    @property
    def lower(self) -> ZarrMatrix:
        """The factor, opened once in every process."""
        return _opened(self.location.address, json.dumps(self.location.options), self.source.n, 0.0)

    def work(self, version: int) -> ZarrMatrix:
        """The array that holds tiles of a version."""
        location = self.manifest.inside(f"work-{version % 2}.zarr")
        return _opened(location.address, json.dumps(location.options), self.source.n, float("nan"))

    def load(self, i: int, j: int, version: int, noise: np.ndarray | None) -> np.ndarray:
        """A tile from which the first `version` panels have been subtracted."""
        here, there = self.source.rows(i), self.source.rows(j)
        if version:
            return self.work(version).read(here, there)
        values = np.array(self.source.read(i, j), dtype=np.float64)
        if i == j and noise is not None:
            values[np.diag_indices_from(values)] += noise + self.jitter
        return values

    def factor_tile(self, i: int, j: int) -> np.ndarray:
        """A tile of the factor."""
        return self.lower.read(self.source.rows(i), self.source.rows(j))

    def version(self, i: int, j: int) -> int:
        """What the manifest says: 0 for a tile that was not touched yet."""
        entry = _read_entry(self.manifest.read(entry_name(i, j)))
        return entry["version"] if entry["attempt"] == self.attempt else 0

    def save(self, i: int, j: int, version: int, values: np.ndarray) -> None:
        """Write a tile, and then its entry."""
        facts = read_facts(self.manifest, "attempt")
        if facts is None or facts["attempt"] != self.attempt:
            raise RuntimeError(f"the factor {self.location.address!r} was begun anew by another attempt.")
        matrix = self.lower if version == FINAL else self.work(version)
        matrix.write(self.source.rows(i), self.source.rows(j), values)
        entry = {"version": version, "crc32": checksum(values), "attempt": self.attempt}
        self.manifest.write(entry_name(i, j), json.dumps(entry).encode(), durable=False)

    def entries(self) -> dict[Pair, dict[str, Any]]:
        """The whole manifest, whatever attempt it is of."""
        entries = read_entries(self.manifest, self.source.blocks)
        return {pair: _read_entry(data) for pair, data in entries.items()}


def _read_entry(data: bytes | None) -> dict[str, Any]:
    """The entry of a tile; that of no attempt where there is none, or where it is damaged."""
    try:
        entry = json.loads(data or b"")
        return {"version": int(entry["version"]), "crc32": entry["crc32"], "attempt": entry["attempt"]}
    except (ValueError, KeyError, TypeError):
        return {"version": FINAL, "crc32": -1, "attempt": None}


@functools.lru_cache(maxsize=16)
def _opened(location: str, options: str, n: int, fill: float) -> ZarrMatrix:
    return ZarrMatrix(Location(location, json.loads(options)), n, np.dtype(np.float64), fill)


def update_tile(tiles: FactorTiles, i: int, j: int, step: int, noise: np.ndarray | None, *done: Any) -> int:
    """Subtract panel number `step` from a tile to its right; returns the peak memory of the worker."""
    version = tiles.version(i, j)
    if version == FINAL or version > step:  # a task of a dead worker, run again
        return peak_memory()
    first = step * tiles.panel
    values = _subtracted(tiles, tiles.load(i, j, step, noise), i, j, range(first, first + tiles.panel))
    tiles.save(i, j, step + 1, values)
    return peak_memory()


def finish_tile(tiles: FactorTiles, i: int, j: int, noise: np.ndarray | None, *done: Any) -> int:
    """Turn a tile of the current panel into one of the factor."""
    if tiles.version(i, j) == FINAL:
        return peak_memory()
    step = j // tiles.panel
    values = _subtracted(tiles, tiles.load(i, j, step, noise), i, j, range(step * tiles.panel, j))
    if i == j:
        # the transposed view is in LAPACK's order, and so is its factor: no copies
        lower, failed = _potrf(values.T, lower=0, clean=1, overwrite_a=1)
        if failed:
            raise NotPositiveDefiniteError(f"tile {i} of the diagonal is not positive definite")
        values = lower.T
    else:
        corner = tiles.factor_tile(j, j)
        values = scipy.linalg.solve_triangular(corner, values.T, lower=True, overwrite_b=True, check_finite=False).T
    tiles.save(i, j, FINAL, np.ascontiguousarray(values))
    return peak_memory()


def check_factor_tile(tiles: FactorTiles, i: int, j: int, version: int, crc32: int) -> bool:
    """Whether a tile matches its checksum."""
    matrix = tiles.lower if version == FINAL else tiles.work(version)
    try:
        return checksum(matrix.read(tiles.source.rows(i), tiles.source.rows(j))) == crc32
    except (OSError, ValueError):
        return False


def _subtracted(tiles: FactorTiles, values: np.ndarray, i: int, j: int, columns: range) -> np.ndarray:
    """`values` minus the products of rows i and j of the factor over the given columns, in place."""
    reuse_freed_memory()
    for k in columns:
        left = tiles.factor_tile(i, k)
        if i == j:
            _subtract_square(values, left)
            del left
            continue
        right = tiles.factor_tile(j, k)
        _subtract_product(values, left, right)
        del left, right  # before the next ones are read
    return values


def _subtract_product(values: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    """values -= left @ right.T, in place; BLAS sees the transposed arrays, which are in its order."""
    out = _gemm(-1.0, right.T, left.T, beta=1.0, c=values.T, trans_a=1, overwrite_c=1)
    assert np.shares_memory(out, values)


def _subtract_square(values: np.ndarray, left: np.ndarray) -> None:
    """values -= left @ left.T, in place and in the lower triangle only, which is all that is read of it later."""
    out = _syrk(-1.0, left.T, beta=1.0, c=values.T, trans=1, lower=0, overwrite_c=1)
    assert np.shares_memory(out, values)


def log_diagonal(tiles: FactorTiles, i: int) -> float:
    """Sum of the logs of a tile's diagonal."""
    return float(np.sum(np.log(np.diagonal(tiles.factor_tile(i, i)))))


def solve_forward(tiles: FactorTiles, b: np.ndarray, first: int = 0, *, overwrite: bool = False) -> np.ndarray:
    """Solve L v = b, where b is zero above block row `first` and given from there on; every tile is read once."""
    b = b if overwrite else np.array(b, dtype=np.float64)
    rows, start = tiles.source.rows, tiles.source.rows(first).start
    for k in range(first, tiles.source.blocks):
        here = slice(rows(k).start - start, rows(k).stop - start)
        b[here] = scipy.linalg.solve_triangular(tiles.factor_tile(k, k), b[here], lower=True, check_finite=False)
        for i in range(k + 1, tiles.source.blocks):
            b[rows(i).start - start : rows(i).stop - start] -= tiles.factor_tile(i, k) @ b[here]
    return b


def solve_backward(tiles: FactorTiles, b: np.ndarray) -> np.ndarray:
    """Solve L^T v = b; every tile is read once."""
    b, rows = np.array(b, dtype=np.float64), tiles.source.rows
    for k in reversed(range(tiles.source.blocks)):
        here = rows(k)
        corner = tiles.factor_tile(k, k)
        b[here] = scipy.linalg.solve_triangular(corner, b[here], lower=True, trans=1, check_finite=False)
        for j in range(k):
            b[rows(j)] -= tiles.factor_tile(k, j).T @ b[here]
    return b


def inverse_diagonal(tiles: FactorTiles, start: int, stop: int) -> np.ndarray:
    """Entries `start` to `stop` of the diagonal of the inverse: squared lengths of columns of L^{-1}."""
    first = start // tiles.source.block
    offset = tiles.source.rows(first).start
    block = np.zeros((tiles.source.n - offset, stop - start))
    block[np.arange(start, stop) - offset, np.arange(stop - start)] = 1.0
    solved = solve_forward(tiles, block, first, overwrite=True)
    return np.einsum("ij,ij->j", solved, solved)
