"""A symmetric matrix on disk, block by block: finished blocks survive a kill, the final name appears at the end."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from widetail._write import write_whole
from widetail.cli._errors import CommandError

SUFFIXES = (".npy", ".zarr")


class TilesOnDisk:
    """The matrix under a temporary name, a manifest that says what it is of, and a list of finished blocks.

    Args:
        path: the final name; `.npy` (a memory map) or `.zarr` (one chunk per block).
        n: rows and columns.
        block: rows of a block.
        dtype: of the entries.
        facts: what the numbers depend on; a partial result of other facts is refused.
        restart: whether to discard a partial result.
    """

    def __init__(self, path: Path, n: int, block: int, dtype: np.dtype, facts: dict[str, Any], *, restart: bool):
        self.path = path
        self.partial = path.with_name(f"{path.name}.partial{path.suffix}")
        self.manifest = path.with_name(f"{path.name}.partial.json")
        self.finished = path.with_name(f"{path.name}.partial.done")
        self.block = block
        self.blocks = -(-n // block)
        facts = {**facts, "rows": n, "block": block, "dtype": str(dtype)}
        resumes = not restart and self.manifest.exists() and self.finished.exists() and self.partial.exists()
        if resumes:
            self._check_same(facts)
        else:
            self.discard()
        kind = NpyMatrix if path.suffix == ".npy" else ZarrMatrix
        self.n = n
        self.matrix = kind(self.partial, n, block, dtype, create=not resumes)
        if not resumes:
            write_whole(self.manifest, json.dumps(facts, indent=2).encode())
            self.finished.touch()
        self.done = self._read_finished()

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Blocks of the upper triangle."""
        return ((i, j) for i in range(self.blocks) for j in range(i, self.blocks))

    @property
    def total(self) -> int:
        """How many blocks there are to compute."""
        return self.blocks * (self.blocks + 1) // 2

    def rows(self, index: int) -> slice:
        """Rows of a block."""
        return slice(index * self.block, min((index + 1) * self.block, self.n))

    def fill(self, compute: Callable[[slice, slice], np.ndarray], report: Callable[[int, int], None]) -> int:
        """Compute what is not there yet; how many blocks that were."""
        computed = 0
        report(len(self.done), self.total)
        with self.finished.open("ab") as list_of_finished:
            for i, j in self.pairs():
                if (i, j) in self.done:
                    continue
                here, there = self.rows(i), self.rows(j)
                values = compute(here, there)
                self.matrix.write(here, there, values)
                if i != j:
                    self.matrix.write(there, here, values.T)
                list_of_finished.write(f"{i} {j}\n".encode())
                list_of_finished.flush()
                os.fsync(list_of_finished.fileno())
                self.done.add((i, j))
                computed += 1
                report(len(self.done), self.total)
        return computed

    def finish(self) -> None:
        """Give the matrix its name."""
        if self.path.is_dir():
            shutil.rmtree(self.path)
        os.replace(self.partial, self.path)
        self.discard()

    def discard(self) -> None:
        """Remove everything that is not under the final name."""
        if self.partial.is_dir():
            shutil.rmtree(self.partial)
        for path in (self.partial, self.manifest, self.finished):
            path.unlink(missing_ok=True)

    def _check_same(self, facts: dict[str, Any]) -> None:
        before = json.loads(self.manifest.read_text())
        changed = [name for name in facts if facts[name] != before.get(name)]
        if changed:
            raise CommandError(
                f"{str(self.partial)!r} was begun with another {changed[0]} ({before.get(changed[0])!r}, now "
                f"{facts[changed[0]]!r}); use --restart to discard it, or another --out."
            )

    def _read_finished(self) -> set[tuple[int, int]]:
        lines = self.finished.read_text().splitlines(keepends=True)
        whole = [line.split() for line in lines if line.endswith("\n")]  # a kill may cut the last one
        return {(int(i), int(j)) for i, j in whole}


class NpyMatrix:
    """A square matrix in NumPy's format, written with seeks: a memory map would keep written pages in memory."""

    def __init__(self, path: Path, n: int, block: int, dtype: np.dtype, *, create: bool):
        self.n, self.dtype = n, dtype
        if create:
            with path.open("wb") as file:
                header = {"descr": dtype.newbyteorder("<").str, "fortran_order": False, "shape": (n, n)}
                np.lib.format.write_array_header_1_0(file, header)
                file.truncate(file.tell() + n * n * dtype.itemsize)
        self.path = path

    def write(self, here: slice, there: slice, values: np.ndarray) -> None:
        """Rows `here` of the columns `there`; they are on the disk when this returns."""
        lines = np.ascontiguousarray(values, self.dtype.newbyteorder("<"))
        with self.path.open("r+b", buffering=0) as file:
            np.lib.format.read_magic(file)
            np.lib.format.read_array_header_1_0(file)
            start = file.tell()
            for row, line in zip(range(here.start, here.stop), lines, strict=True):
                file.seek(start + (row * self.n + there.start) * self.dtype.itemsize)
                file.write(line.tobytes())
            os.fsync(file.fileno())


class ZarrMatrix:
    """A square matrix in a Zarr store, one chunk per block."""

    def __init__(self, path: Path, n: int, block: int, dtype: np.dtype, *, create: bool):
        import zarr

        if create:
            self.array: Any = zarr.create_array(store=str(path), shape=(n, n), chunks=(block, block), dtype=dtype)
        else:
            self.array = zarr.open_array(store=str(path), mode="r+")

    def write(self, here: slice, there: slice, values: np.ndarray) -> None:
        """Rows `here` of the columns `there`."""
        self.array[here, there] = values


def fingerprint(x: np.ndarray) -> str:
    """A hash of the numbers, so that a partial result of other data is noticed."""
    return hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()[:16]
