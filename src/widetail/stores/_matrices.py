"""Square matrices on disk, in blocks: NumPy's format, or one Zarr chunk per block."""

import abc
import os
from pathlib import Path
from typing import Any

import numpy as np

from widetail.files import whole_file
from widetail.stores._errors import StoreDamagedError
from widetail.stores._locations import Location

SUFFIXES = (".npy", ".zarr")


class StoredMatrix(abc.ABC):
    """A square matrix that is written and read block by block.

    Args:
        location: where it is.
        n: rows and columns.
        dtype: of the entries.
    """

    def __init__(self, location: Location, n: int, dtype: np.dtype):
        self.location, self.n, self.dtype = location, n, dtype

    @abc.abstractmethod
    def create(self, block: int, attributes: dict[str, Any]) -> None:
        """Make an empty matrix of blocks of `block` rows, with notes for those who read it."""

    @abc.abstractmethod
    def is_there(self) -> bool:
        """Whether it has been made; a StoreDamagedError if something else is in its place."""

    @abc.abstractmethod
    def write(self, here: slice, there: slice, values: np.ndarray) -> None:
        """Write the rows `here` of the columns `there`, which are one block."""

    @abc.abstractmethod
    def read(self, here: slice, there: slice) -> np.ndarray:
        """The rows `here` of the columns `there`."""

    def _check_kind(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        if shape != (self.n, self.n) or dtype.newbyteorder("=") != self.dtype.newbyteorder("="):
            raise StoreDamagedError(
                self.location.address,
                f"it holds {dtype} of shape {shape}, where {self.dtype} of shape {(self.n, self.n)} was begun",
            )


class NpyMatrix(StoredMatrix):
    """A square matrix in NumPy's format, written with seeks: a memory map would keep written pages in memory."""

    def __init__(self, location: Location, n: int, dtype: np.dtype):
        super().__init__(location, n, dtype.newbyteorder("<"))
        self.path = location.path

    def create(self, block: int, attributes: dict[str, Any]) -> None:
        """Reserve the file; NumPy's format has no room for attributes."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("wb") as file:
            header = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.n, self.n)}
            np.lib.format.write_array_header_1_0(file, header)
            file.truncate(file.tell() + self.n * self.n * self.dtype.itemsize)

    def is_there(self) -> bool:
        """Whether the file has been reserved, at its full length."""
        if not self.path.is_file():
            return False
        try:
            with self.path.open("rb") as file:
                np.lib.format.read_magic(file)
                shape, _, dtype = np.lib.format.read_array_header_1_0(file)
                start = file.tell()
        except ValueError as error:
            raise StoreDamagedError(self.location.address, str(error)) from None
        self._check_kind(shape, dtype)
        return self.path.stat().st_size == start + self.n * self.n * self.dtype.itemsize

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


class ZarrMatrix(StoredMatrix):
    """A square matrix in a Zarr array, one chunk per block; what was never written is NaN, or `fill`.

    Chunks are not compressed: the digits of a kernel look random, and compressing takes longer than computing them.
    """

    def __init__(self, location: Location, n: int, dtype: np.dtype, fill: float = float("nan")):
        super().__init__(location, n, dtype)
        self.fill = fill
        self._array: Any = None

    def create(self, block: int, attributes: dict[str, Any]) -> None:
        """Make an empty array."""
        import zarr

        self._array = zarr.create_array(
            store=self.location.zarr_store(),
            shape=(self.n, self.n),
            chunks=(block, block),
            dtype=self.dtype,
            zarr_format=3,
            filters=None,
            compressors=None,
            serializer={"name": "bytes", "configuration": {"endian": "little"}},
            fill_value=self.fill,
            attributes=attributes,
        )

    def is_there(self) -> bool:
        """Whether the array can be opened."""
        try:
            shape, dtype = self.array.shape, self.array.dtype
        except FileNotFoundError:
            return False
        except Exception as error:  # Zarr has no error of its own for facts that are not what they should be
            raise StoreDamagedError(self.location.address, f"Zarr cannot open it ({error})") from None
        self._check_kind(shape, dtype)
        return True

    @property
    def array(self) -> Any:
        """The Zarr array, opened once."""
        if self._array is None:
            import zarr

            self._array = zarr.open_array(store=self.location.zarr_store(), mode="r+")
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
        if self.location.is_remote:
            return None
        block = self.array.chunks[0]
        for part in (here, there):
            if part.start % block or part.stop != min(part.start + block, self.n):
                return None
        return self.location.path / "c" / str(here.start // block) / str(there.start // block)


def open_matrix(location: Location, n: int, dtype: np.dtype) -> StoredMatrix:
    """The matrix whose name ends in `.npy`, or in anything else for Zarr."""
    return NpyMatrix(location, n, dtype) if location.address.endswith(".npy") else ZarrMatrix(location, n, dtype)
