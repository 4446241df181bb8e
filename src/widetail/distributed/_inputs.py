"""Inputs in a store, from which workers read the rows that they need."""

import dataclasses
from typing import Any

import numpy as np

from widetail.distributed._places import Place


@dataclasses.dataclass(frozen=True)
class StoredInputs:
    """Rows of inputs in a Zarr array.

    Attributes:
        place: the array.
        rows: how many there are.
    """

    place: Place
    rows: int

    @classmethod
    def write(cls, place: Place, x: np.ndarray, block: int) -> "StoredInputs":
        """Write inputs in chunks of `block` rows."""
        import zarr

        place.remove()
        array = zarr.create_array(
            store=place.location,
            shape=x.shape,
            chunks=(block, *x.shape[1:]),
            dtype=x.dtype,
            storage_options=place.options or None,
        )
        array[:] = x
        return cls(place, len(x))

    def __getitem__(self, rows: slice) -> np.ndarray:
        array: Any = _open(self.place)
        return np.asarray(array[rows])


def _open(place: Place) -> Any:
    import zarr

    return zarr.open_array(store=place.location, mode="r", storage_options=place.options or None)
