"""What a stored kernel matrix is of."""

import re
from typing import Any

import numpy as np

from widetail.files import fingerprint


def matrix_facts(kernel: Any, x: np.ndarray, get: str, rows_per_tile: int | None) -> dict[str, Any]:
    """What the numbers of a kernel matrix depend on, down to the last bit, as plain values.

    Args:
        kernel: a network, program or kernel.
        x: inputs, rows first.
        get: "nngp" or "ntk".
        rows_per_tile: of the engine; None for a function of the user's own.
    """
    return {
        "dtype": str(x.dtype),
        "data": fingerprint(x),
        "get": get,
        "kernel": _written(kernel),
        "network": fingerprint(kernel),
        "engine tile": rows_per_tile,
    }


def matrix_notes(kernel: Any, get: str) -> dict[str, str]:
    """What a stored matrix says of itself to those who read it."""
    return {"kernel": _written(kernel), "get": get}


def _written(kernel: Any) -> str:
    """How a kernel is written, without the addresses that functions have in one process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(kernel))
