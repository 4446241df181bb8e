"""Inputs in a store, from which workers read the rows that they need."""

import dataclasses
from typing import Any

import numpy as np

from widetail.stores import Location


@dataclasses.dataclass(frozen=True)
class StoredInputs:
    """Rows of inputs in a Zarr array.

    Attributes:
        location: of the array.
        rows: how many there are.
    """

    location: Location
    rows: int

    @classmethod
    def write(cls, location: Location, x: np.ndarray, block: int) -> "StoredInputs":
        """Write inputs in chunks of `block` rows."""
        import zarr

        location.remove()
        array = zarr.create_array(
            store=location.zarr_store(),
            shape=x.shape,
            chunks=(block, *x.shape[1:]),
            dtype=x.dtype,
        )
        array[:] = x
        return cls(location, len(x))

    def __getitem__(self, rows: slice) -> np.ndarray:
        array: Any = _open(self.location)
        return np.asarray(array[rows])


def _open(location: Location) -> Any:
    import zarr

    return zarr.open_array(store=location.zarr_store(read_only=True), mode="r")
