"""Which input positions lie under the windows of convolutions and pooling."""

from typing import Any

import numpy as np


def window_index(space: Any, window: Any, strides: Any, padding: Any, dilation: Any, apart: Any = None) -> np.ndarray:
    """For every output position and place in the window, the input position, or -1: (*out, *window).

    With `apart`, input positions stand that far apart, as in transposed convolutions, with nothing between them.
    """
    places = []
    apart = (1,) * len(space) if apart is None else apart
    for size, gap, extent, stride, (before, after), spread in zip(
        space, apart, window, strides, padding, dilation, strict=True
    ):
        whole = (size - 1) * gap + 1
        out = (whole + before + after - spread * (extent - 1) - 1) // stride + 1
        place = np.arange(out)[:, None] * stride + np.arange(extent)[None, :] * spread - before
        places.append(np.where((place < 0) | (place >= whole) | (place % gap != 0), -1, place // gap))
    rank = len(space)
    total = np.zeros((1,) * (2 * rank), np.int64)
    outside = np.zeros((1,) * (2 * rank), bool)
    for axis, place in enumerate(places):
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = place.shape
        total = total * space[axis] + np.maximum(place, 0).reshape(shape)
        outside = outside | (place < 0).reshape(shape)
    return np.where(outside, -1, total)


def patches(ids: np.ndarray, window: Any, strides: Any, padding: Any) -> np.ndarray:
    """The entries under a window, -1 outside: (*out, *window)."""
    index = window_index(ids.shape, window, strides, padding, (1,) * ids.ndim)
    return np.where(index < 0, -1, ids.reshape(-1)[np.maximum(index, 0)])
