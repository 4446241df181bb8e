"""Paddings and windows."""

import enum
import string
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


class Padding(enum.Enum):
    """What is beyond the edge: the opposite edge, zeros, or nothing."""

    CIRCULAR = "CIRCULAR"
    SAME = "SAME"
    VALID = "VALID"

    @classmethod
    def _missing_(cls, value: object) -> Any:
        raise ValueError(f"padding must be one of {', '.join(repr(one.value) for one in cls)}; got {value!r}.")


def default_dimension_numbers(rank: int) -> tuple[str, str, str]:
    """Channels last."""
    letters = "".join(c for c in string.ascii_uppercase if c not in "NCIO")[:rank]
    return f"N{letters}C", f"{letters}IO", f"N{letters}C"


def wrap(x: Any, window: Sequence[int], strides: Sequence[int], axes: Sequence[int]) -> Any:
    """The opposite edge repeated around, so that a window without padding gives as many positions as SAME."""
    sizes = [x.shape[axis] for axis in axes]
    widths = [(0, 0)] * x.ndim
    for axis, amounts in zip(axes, jax.lax.padtype_to_pads(sizes, window, strides, "SAME"), strict=True):
        widths[axis] = amounts
    return jnp.pad(x, widths, mode="wrap")


def fold(x: Any, axes: Sequence[int], sizes: Sequence[int]) -> Any:
    """What lies beyond the edges of a shorter, circular axis, added where it comes in again."""
    for axis, size in zip(axes, sizes, strict=True):
        length = x.shape[axis]
        if length == size:
            continue
        before = max(length - size, 0) // 2
        places = np.mod(np.arange(length) - before, size)
        moved = jnp.moveaxis(x, axis, 0)
        x = jnp.moveaxis(jax.ops.segment_sum(moved, places, size), 0, axis)
    return x
