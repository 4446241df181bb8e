"""Sequences of unequal length."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def pack(sequences: Sequence[Any]) -> np.ndarray:
    """Sequences of unequal length as one array, for programs with `masked=True`.

    Shorter sequences are filled up at the front, so that all of them end at the same position, and a flag is added
    as the last feature: 1 where the sequence is, 0 where it is filled up.

    Args:
        sequences: arrays of shape (length, features).

    Returns:
        An array (n, longest, features + 1).

    Example:
        >>> import numpy as np
        >>> from widetail import programs
        >>> programs.pack([np.ones((1, 2)), np.ones((3, 2))])[0]
        array([[0., 0., 0.],
               [0., 0., 0.],
               [1., 1., 1.]])
    """
    arrays = [np.asarray(sequence) for sequence in sequences]
    if not arrays:
        raise ValueError("sequences must hold at least one array of shape (length, features); it is empty.")
    for row, array in enumerate(arrays):
        if array.ndim != 2 or 0 in array.shape:
            raise ValueError(f"sequences[{row}] must have shape (length, features), not empty; got {array.shape}.")
        if array.shape[1] != arrays[0].shape[1]:
            raise ValueError(
                f"sequences must agree in their features: sequences[0] has {arrays[0].shape[1]}, "
                f"sequences[{row}] has {array.shape[1]}."
            )
    dtype = np.result_type(*arrays)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"sequences must be float32 or float64; got {dtype}. Convert them with .astype(float).")
    packed = np.zeros((len(arrays), max(map(len, arrays)), arrays[0].shape[1] + 1), dtype)
    for row, array in enumerate(arrays):
        packed[row, -len(array) :, :-1] = array
        packed[row, -len(array) :, -1] = 1
    return packed
