"""Square matrices on disk, in blocks: NumPy's format, or one Zarr chunk per block."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from widetail.distributed._places import Place
from widetail.files import whole_file

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
            zarr_format=3,
            filters=None,
            compressors=None,
            serializer={"name": "bytes", "configuration": {"endian": "little"}},
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
        file = self._file(here, there)
        if file is None:
            self.array[here, there] = values
            return
        block, shape = self.array.chunks[0], (here.stop - here.start, there.stop - there.start)
        assert values.shape == shape, (values.shape, shape)
        if shape != (block, block):  # chunks at the edges have their full size on the disk
            whole = np.full((block, block), self.fill, self.dtype)
            whole[: values.shape[0], : values.shape[1]] = values
            values = whole
        file.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(file, durable=False) as temporary:
            temporary.write_bytes(np.ascontiguousarray(values, self.dtype.newbyteorder("<")).data)

    def read(self, here: slice, there: slice) -> np.ndarray:
        """Rows `here` of the columns `there`."""
        file = self._file(here, there)
        if file is None or not file.exists():
            return np.asarray(self.array[here, there])
        block = self.array.chunks[0]
        values = np.fromfile(file, self.dtype.newbyteorder("<")).reshape(block, block)
        return np.ascontiguousarray(values[: here.stop - here.start, : there.stop - there.start], self.dtype)

    def _file(self, here: slice, there: slice) -> Path | None:
        """Where the numbers of these rows and columns are, just as they are, if they are one chunk on a local disk.

        Zarr would copy every chunk twice, in threads of its own, and take several times as long to read it.
        """
        if self.place.is_remote:
            return None
        block = self.array.chunks[0]
        for part in (here, there):
            if part.start % block or part.stop != min(part.start + block, self.n):
                return None
        return self.place.path / "c" / str(here.start // block) / str(there.start // block)


def open_matrix(place: Place, n: int, dtype: np.dtype) -> NpyMatrix | ZarrMatrix:
    """The matrix at a place whose name ends in `.npy`, or in anything else for Zarr."""
    return NpyMatrix(place, n, dtype) if place.location.endswith(".npy") else ZarrMatrix(place, n, dtype)
