"""Square matrices on disk, in blocks: NumPy's format, or one Zarr chunk per block."""

import os
from typing import Any

import numpy as np

from widetail.distributed._places import Place

SUFFIXES = (".npy", ".zarr")


class NpyMatrix:
    """A square matrix in NumPy's format, written with seeks: a memory map would keep written pages in memory."""

    def __init__(self, place: Place, n: int, dtype: np.dtype):
        self.path, self.n, self.dtype = place.path, n, dtype.newbyteorder("<")

    def create(self, block: int, attributes: dict[str, Any]) -> None:
        """Reserve the file; NumPy's format has no place for attributes."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("wb") as file:
            header = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.n, self.n)}
            np.lib.format.write_array_header_1_0(file, header)
            file.truncate(file.tell() + self.n * self.n * self.dtype.itemsize)

    def is_there(self) -> bool:
        """Whether the file has been reserved, at its full length."""
        whole = self.n * self.n * self.dtype.itemsize
        return self.path.is_file() and self.path.stat().st_size > whole

    def write(self, here: slice, there: slice, values: np.ndarray) -> None:
        """Rows `here` of the columns `there`; they are on the disk when this returns."""
        lines = np.ascontiguousarray(values, self.dtype)
        with self.path.open("r+b", buffering=0) as file:
            np.lib.format.read_magic(file)
            np.lib.format.read_array_header_1_0(file)
            start = file.tell()
            for row, line in zip(range(here.start, here.stop), lines, strict=True):
                file.seek(start + (row * self.n + there.start) * self.dtype.itemsize)
                file.write(line.tobytes())
            os.fsync(file.fileno())

    def read(self, here: slice, there: slice) -> np.ndarray:
        """Rows `here` of the columns `there`."""
        return np.array(np.load(self.path, mmap_mode="r")[here, there])


class ZarrMatrix:
    """A square matrix in a Zarr array, one chunk per block; what was never written is NaN, or `fill`.

    Chunks are not compressed: the digits of a kernel look random, and compressing takes longer than computing them.
    """

    def __init__(self, place: Place, n: int, dtype: np.dtype, fill: float = float("nan")):
        self.place, self.n, self.dtype, self.fill = place, n, dtype, fill
        self._array: Any = None

    def create(self, block: int, attributes: dict[str, Any]) -> None:
        """Make an empty array."""
        import zarr

        self._array = zarr.create_array(
            store=self.place.location,
            shape=(self.n, self.n),
            chunks=(block, block),
            dtype=self.dtype,
            compressors=None,
            fill_value=self.fill,
            attributes=attributes,
            storage_options=self.place.options or None,
        )

    def is_there(self) -> bool:
        """Whether the array can be opened."""
        try:
            return self.array.shape == (self.n, self.n)
        except (OSError, ValueError, KeyError):
            return False

    @property
    def array(self) -> Any:
        """The Zarr array, opened once."""
        if self._array is None:
            import zarr

            self._array = zarr.open_array(
                store=self.place.location, mode="r+", storage_options=self.place.options or None
            )
        return self._array

    def write(self, here: slice, there: slice, values: np.ndarray) -> None:
        """Rows `here` of the columns `there`: a whole chunk, which replaces the old one at once."""
        self.array[here, there] = values

    def read(self, here: slice, there: slice) -> np.ndarray:
        """Rows `here` of the columns `there`."""
        return np.asarray(self.array[here, there])


def open_matrix(place: Place, n: int, dtype: np.dtype) -> NpyMatrix | ZarrMatrix:
    """The matrix at a place whose name ends in `.npy`, or in anything else for Zarr."""
    return NpyMatrix(place, n, dtype) if place.location.endswith(".npy") else ZarrMatrix(place, n, dtype)
