"""Sliding windows over positions: sums of shifted slices, for convolution and for pooling."""

import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from widetail.nn._signal import Signal

# A word, or zeros before and after along each axis.
Padding = Literal["SAME", "VALID", "CIRCULAR"] | tuple[tuple[int, int], ...]


def per_axis(value: int | tuple[int, ...], rank: int) -> tuple[int, ...]:
    """One number per axis of space."""
    return (value,) * rank if isinstance(value, int) else value


def check_window(layer: str, window: Any, strides: Any, padding: Any) -> None:
    """Check the arguments that convolution and pooling share."""
    for name, value in (("window", window), ("strides", strides)):
        numbers = value if isinstance(value, tuple) else (value,)
        if not numbers or not all(isinstance(number, int) and number >= 1 for number in numbers):
            raise ValueError(
                f"{layer}: {name} must be a positive integer or a tuple of them, one per axis; got {value!r}."
            )
    if isinstance(padding, str) and padding in ("SAME", "VALID", "CIRCULAR"):
        return
    if not isinstance(padding, tuple) or not padding or not all(map(_is_pair, padding)):
        raise ValueError(
            f"{layer}: padding must be 'SAME', 'VALID', 'CIRCULAR' or zeros before and after along each axis, "
            f"((1, 1), (0, 2)); got {padding!r}."
        )


def _is_pair(zeros: Any) -> bool:
    return isinstance(zeros, tuple) and len(zeros) == 2 and all(isinstance(n, int) and n >= 0 for n in zeros)


def window_positions(
    layer: str,
    signal: Signal,
    window: int | tuple[int, ...],
    strides: int | tuple[int, ...],
    padding: Padding,
) -> tuple[int, ...]:
    """The positions that come out of a sliding window."""
    rank = len(signal.space)
    if rank == 0:
        raise ValueError(
            f"{layer} expects sequences (n, time, channels) or images (n, height, width, channels), "
            f"but it receives vectors"
        )
    for name, value in (("window", window), ("strides", strides), ("padding", padding)):
        if isinstance(value, tuple) and len(value) != rank:
            raise ValueError(
                f"{layer} has {name}={value}, but it receives {signal.kind} with positions {signal.space}; "
                f"grey images need a channel axis, x[..., None], and sequences one number, {name}=(3,)"
            )
    zeros = [sum(pair) for pair in padding] if isinstance(padding, tuple) else [0] * rank
    sizes = zip(signal.space, per_axis(window, rank), per_axis(strides, rank), zeros, strict=True)
    space = tuple(
        -(-size // stride) if padding in ("SAME", "CIRCULAR") else (size + more - extent) // stride + 1
        for size, extent, stride, more in sizes
    )
    if min(space) < 1:
        raise ValueError(f"{layer} has a window of {window}, larger than the positions {signal.space}")
    return space


def _padding_amounts(size: int, window: int, stride: int) -> tuple[int, int]:
    """Zeros before and after, so that there are ceil(size / stride) windows."""
    total = max((math.ceil(size / stride) - 1) * stride + window - size, 0)
    return total // 2, total - total // 2


def centre_mask(
    mask: Float[Array, "..."], window: int | tuple[int, ...], strides: int | tuple[int, ...], padding: Padding
) -> Float[Array, "..."]:
    """Of a mask (*space, n), what is at the centre of every window."""
    rank = mask.ndim - 1
    for axis, (extent, stride) in enumerate(zip(per_axis(window, rank), per_axis(strides, rank), strict=True)):
        size, before = mask.shape[axis], 0
        count = (size - extent) // stride + 1
        if isinstance(padding, tuple):
            before, count = padding[axis][0], (size + sum(padding[axis]) - extent) // stride + 1
        elif padding != "VALID":
            before, count = _padding_amounts(size, extent, stride)[0], -(-size // stride)
        centres = (extent - 1) // 2 - before + stride * np.arange(count)
        mask = jnp.take(mask, np.clip(centres, 0, size - 1), axis=axis)
    return mask


def pad_window(
    x: Float[Array, "..."], axes: tuple[int, ...], window: int, stride: int, padding: Padding, place: int = 0
) -> Float[Array, "..."]:
    """Add the zeros or the wrapped-around positions (CIRCULAR) that a window along `axes` needs.

    `place` counts the axes of positions, for zeros that are given for each.
    """
    if padding == "VALID":
        return x
    widths = [(0, 0)] * x.ndim
    for axis in axes:
        given = isinstance(padding, tuple)
        widths[axis] = padding[place] if given else _padding_amounts(x.shape[axis], window, stride)
    return jnp.pad(x, widths, mode="wrap" if padding == "CIRCULAR" else "constant")


def window_sum(x: Float[Array, "..."], axes: tuple[int, ...], window: int, stride: int) -> Float[Array, "..."]:
    """Sum over a sliding window that moves along all of `axes` together, on padded positions.

    With one axis this is sum pooling; with the two axes of a pair of positions it is what a convolution
    does to a covariance.
    """
    behind = x.shape[max(axes) + 1 :]
    x = x.reshape(*x.shape[: max(axes) + 1], -1)  # one long innermost loop instead of several short ones
    total = jnp.zeros((), x.dtype)
    for offset in range(window):
        part = x
        for axis in axes:
            count = (x.shape[axis] - window) // stride + 1
            part = jax.lax.slice_in_dim(part, offset, offset + (count - 1) * stride + 1, stride, axis)
        total = total + part
    return total.reshape(*total.shape[:-1], *behind)
