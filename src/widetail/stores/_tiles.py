"""A symmetric matrix on disk, tile by tile, with a manifest: what is finished survives a kill, damage is noticed."""

import dataclasses
import functools
import json
import os
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from widetail.stores._errors import StoreDamagedError, StoreMismatchError
from widetail.stores._locations import Location
from widetail.stores._lock import RunLock
from widetail.stores._matrices import StoredMatrix, open_matrix

FACTS = "facts.json"
TILE = "tile-"
Pair = tuple[int, int]


def checksum(values: np.ndarray) -> int:
    """CRC-32 of the numbers, row by row."""
    return zlib.crc32(np.ascontiguousarray(values).data.cast("B"))


@dataclasses.dataclass(frozen=True)
class Tiles:
    """Where the tiles of a symmetric matrix are and how they are written; small enough to send to every worker.

    A tile (i, j) with i <= j is written together with its mirror image. Its entry in the manifest, a small file with
    the checksums, follows when both are there.

    Attributes:
        location: of the matrix.
        manifest: the folder of the manifest.
        n: rows and columns.
        block: rows of a tile.
        dtype: name of the type of the entries.
        run: identifies what the tiles are of; nothing is written into a manifest of anything else.
    """

    location: Location
    manifest: Location
    n: int
    block: int
    dtype: str
    run: str

    @property
    def blocks(self) -> int:
        """How many blocks a side has."""
        return -(-self.n // self.block)

    @property
    def total(self) -> int:
        """How many tiles there are to compute."""
        return self.blocks * (self.blocks + 1) // 2

    def pairs(self) -> list[Pair]:
        """Tiles of the upper triangle."""
        return [(i, j) for i in range(self.blocks) for j in range(i, self.blocks)]

    def rows(self, index: int) -> slice:
        """Rows of a block."""
        return slice(index * self.block, min((index + 1) * self.block, self.n))

    @property
    def matrix(self) -> StoredMatrix:
        """The matrix, opened once in every process."""
        return _opened(self.location.address, json.dumps(self.location.options), self.n, self.dtype, self.run)

    def write(self, i: int, j: int, values: np.ndarray) -> None:
        """Write a tile, its mirror image, and then its entry."""
        self._check_run()
        here, there = self.rows(i), self.rows(j)
        self.matrix.write(here, there, values)
        sums = [checksum(values)]
        if i != j:
            mirrored = _transposed(values)
            self.matrix.write(there, here, mirrored)
            sums.append(checksum(mirrored))
        # not durable: after a power cut the checksum of an entry without its tile would not fit
        self.manifest.write(entry_name(i, j), json.dumps({"crc32": sums}).encode(), durable=False)

    def read(self, i: int, j: int) -> np.ndarray:
        """Any tile, of either triangle."""
        return self.matrix.read(self.rows(i), self.rows(j))

    def is_whole(self, i: int, j: int, sums: list[int]) -> bool:
        """Whether a finished tile is what was written."""
        sides = [(i, j)] if i == j else [(i, j), (j, i)]
        try:
            return [checksum(self.read(*side)) for side in sides] == sums
        except (OSError, ValueError):  # a file of the wrong length cannot be decoded
            return False

    def finished(self) -> dict[Pair, list[int]]:
        """The finished tiles and their checksums."""
        done = {}
        for (i, j), data in read_entries(self.manifest, self.blocks).items():
            if i > j:
                raise StoreDamagedError(self.location.address, f"{entry_name(i, j)!r} is not of the upper triangle")
            try:
                done[i, j] = list(json.loads(data)["crc32"])
            except (ValueError, KeyError, TypeError):  # cut off with the power, or otherwise damaged
                continue
        return done

    def forget(self, i: int, j: int) -> None:
        """Take a tile out of the manifest, so that it is computed again."""
        self.manifest.inside(entry_name(i, j)).remove()

    def _check_run(self) -> None:
        facts = read_facts(self.manifest, "run")
        if facts is None or facts["run"] != self.run:
            raise RuntimeError(f"the store {self.location.address!r} is not there, or was begun anew by another run.")


def read_entries(manifest: Location, blocks: int) -> dict[Pair, bytes]:
    """What a manifest holds of every tile; a StoreDamagedError for tiles that the matrix does not have."""
    entries = {}
    for name, data in manifest.read_all(TILE).items():
        i, _, j = name.removeprefix(TILE).partition("-")
        if not (i.isdecimal() and j.isdecimal() and int(i) < blocks and int(j) < blocks):
            raise StoreDamagedError(manifest.address, f"{name!r} is none of its {blocks} x {blocks} tiles")
        entries[int(i), int(j)] = data
    return entries


def entry_name(i: int, j: int) -> str:
    """The file of a tile in a manifest."""
    return f"{TILE}{i}-{j}"


def _transposed(values: np.ndarray, side: int = 200) -> np.ndarray:
    """A transposed copy, square by square: by whole rows almost every access would miss the cache."""
    result = np.empty(values.shape[::-1], values.dtype)
    for start in range(0, values.shape[0], side):
        for left in range(0, values.shape[1], side):
            result[left : left + side, start : start + side] = values[start : start + side, left : left + side].T
    return result


@functools.lru_cache(maxsize=16)
def _opened(location: str, options: str, n: int, dtype: str, run: str) -> StoredMatrix:
    # `run` is part of the key: a store that was begun anew may have other blocks
    return open_matrix(Location(location, json.loads(options)), n, np.dtype(dtype))


def read_facts(manifest: Location, *needed: str) -> dict[str, Any] | None:
    """What a manifest says its matrix is of; None where there is no manifest.

    A StoreDamagedError where it does not say everything that is needed.
    """
    data = manifest.read(FACTS)
    if data is None:
        return None
    try:
        facts = json.loads(data)
    except ValueError:
        facts = None
    if not isinstance(facts, dict) or not facts.keys() >= set(needed):
        named = f" with {', '.join(needed)}" if needed else ""
        raise StoreDamagedError(manifest.address, f"{FACTS} must be a JSON object{named}; it begins {data[:40]!r}")
    return facts


class TileStore:
    """A matrix in the making, held by one run: use it as a context.

    Beside the matrix there is a folder with the manifest: what the matrix depends on, the finished tiles with their
    checksums, and the lock.

    Args:
        location: path of a `.npy` or `.zarr`, or URL of a Zarr array.
        n: rows and columns.
        block: rows of a tile.
        dtype: of the entries.
        facts: what the numbers depend on; a store begun with other facts is refused.
        restart: whether to discard what is there.
        staged: whether the matrix gets its name only in `finish`, which also removes the manifest.
        options: arguments of the fsspec file system, for URLs.
        attributes: written into the Zarr array, for those who read it.
    """

    def __init__(
        self,
        location: str | Path,
        n: int,
        block: int,
        dtype: Any,
        facts: dict[str, Any],
        *,
        restart: bool = False,
        staged: bool = False,
        options: dict[str, Any] | None = None,
        attributes: dict[str, Any] | None = None,
    ):
        self.final = Location.of(location, options)
        if staged and self.final.is_remote:
            raise ValueError(f"store: only a local file can be renamed at the end; got {self.final.address!r}.")
        unfinished = self.final.beside(f".partial{self.final.path.suffix}") if staged else self.final
        self.facts = {**facts, "rows": n, "block": block, "dtype": str(np.dtype(dtype))}
        run = f"{zlib.crc32(json.dumps(self.facts, sort_keys=True).encode()):08x}"
        self.tiles = Tiles(unfinished, self.final.beside(".tiles"), n, block, str(np.dtype(dtype)), run)
        self.restart, self.staged, self.attributes = restart, staged, attributes or {}
        self.lock = RunLock(self.tiles.manifest, self.final.address)
        self.done: dict[Pair, list[int]] = {}

    def __enter__(self) -> "TileStore":
        self.lock.acquire()
        try:
            self._open()
        except BaseException:
            self.lock.release()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.lock.release()

    @property
    def missing(self) -> list[Pair]:
        """Tiles that are not finished."""
        return [pair for pair in self.tiles.pairs() if pair not in self.done]

    def keep_whole(self, checks: Iterable[tuple[Pair, bool]], report: Callable[[int, int], None]) -> int:
        """Forget the finished tiles that turn out to be damaged; how many they were."""
        damaged, total = 0, len(self.done)
        for count, ((i, j), is_whole) in enumerate(checks, 1):
            if not is_whole:
                self.tiles.forget(i, j)
                del self.done[i, j]
                damaged += 1
            report(count, total)
        return damaged

    def check_here(self, report: Callable[[int, int], None]) -> int:
        """`keep_whole` with the checks made in this process."""
        checks = ((pair, self.tiles.is_whole(*pair, sums)) for pair, sums in list(self.done.items()))
        return self.keep_whole(checks, report)

    def fill_here(self, compute: Callable[[slice, slice], np.ndarray], report: Callable[[int, int], None]) -> int:
        """Compute what is missing in this process; how many tiles that were."""
        computed = 0
        report(len(self.done), self.tiles.total)
        for i, j in self.missing:
            self.tiles.write(i, j, compute(self.tiles.rows(i), self.tiles.rows(j)))
            self.mark(i, j)
            computed += 1
            report(len(self.done), self.tiles.total)
        return computed

    def mark(self, i: int, j: int) -> None:
        """Take note of a tile that was written; the manifest has it already."""
        self.lock.check()
        self.done[i, j] = []

    def finish(self) -> None:
        """Give a staged matrix its name and remove the manifest."""
        assert not self.missing
        if self.staged:
            os.replace(self.tiles.location.path, self.final.path)
            self.tiles.manifest.remove()

    def _open(self) -> None:
        facts = None if self.restart else read_facts(self.tiles.manifest, "run")
        if facts is None:
            if not self.restart and self.tiles.location.exists():
                raise FileExistsError(
                    f"store: {self.tiles.location.address!r} is there already, and nothing says what it is of; remove "
                    f"it, use another store, or restart=True to discard it."
                )
            self._discard()
            self.tiles.manifest.write(FACTS, json.dumps({**self.facts, "run": self.tiles.run}, indent=2).encode())
        else:
            self._check_same(facts)
        _opened.cache_clear()
        if not self.tiles.matrix.is_there():
            for pair in self.tiles.finished():
                self.tiles.forget(*pair)
            self.tiles.location.remove()
            self.tiles.matrix.create(self.tiles.block, self.attributes)
        self.done = self.tiles.finished()

    def _discard(self) -> None:
        """Remove the matrix and the manifest, but not the lock that is held."""
        for name in self.tiles.manifest.read_all(TILE):
            self.tiles.manifest.inside(name).remove()
        self.tiles.location.remove()

    def _check_same(self, before: dict[str, Any]) -> None:
        for name, value in self.facts.items():
            if before.get(name) != value:
                raise StoreMismatchError(self.final.address, name, before.get(name), value)
