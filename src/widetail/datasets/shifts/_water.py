"""Drops of water on a lens: a relief of light around random blots.

The published recipe goes through OpenCV (edges, distances, histogram). The same steps are done here with
SciPy; distances are exact where OpenCV approximates them.
"""

import numpy as np
from jaxtyping import Bool, Float, UInt8
from scipy import ndimage

from widetail.datasets.shifts._pixels import blur

Fields = Float[np.ndarray, "n rows columns"]

_EDGE_WEAK, _EDGE_STRONG = 50, 150
_FARTHEST = 20.0
# Light from the lower right.
_RELIEF = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
# Connected within an image, never across images.
_WITHIN_IMAGE = np.stack([np.zeros((3, 3)), np.ones((3, 3)), np.zeros((3, 3))])


def drops(
    n: int, side: int, setting: tuple[float, float, float, float], generator: np.random.Generator
) -> Float[np.ndarray, "n side side"]:
    """Brightness of random drops, from 0 to 1 in each image.

    `setting` is (loc, scale, sigma, threshold): a white field N(loc, scale), blurred with sigma; what lies
    below the threshold is dry.
    """
    loc, scale, sigma, threshold = setting
    field = blur(generator.normal(loc, scale, (n, side, side)), sigma)
    liquid = np.floor(np.clip(np.where(field < threshold, 0.0, field), 0, 1) * 255)
    distance = np.minimum(_distance_to_edge(edges(liquid)), _FARTHEST)
    relief = ndimage.correlate(
        equalised(_box_mean(distance).astype(np.uint8)).astype(np.float64), _RELIEF[None], mode="mirror"
    )
    brightness = liquid * np.rint(_box_mean(np.clip(relief, 0, 255)))
    brightest = brightness.max(axis=(1, 2), keepdims=True)
    return brightness / np.where(brightest == 0, 1, brightest)


def edges(fields: Fields) -> Bool[np.ndarray, "n rows columns"]:
    """Canny's edges: ridges of the gradient (Sobel, |dx| + |dy|) above 50, connected to one above 150."""
    return _connected_to_strong(*_ridges(_sobel(fields, axis=2), _sobel(fields, axis=1)))


def _sobel(fields: Fields, axis: int) -> Fields:
    smoothed = ndimage.correlate1d(fields, [1, 2, 1], axis=3 - axis, mode="nearest")
    return ndimage.correlate1d(smoothed, [-1, 0, 1], axis=axis, mode="nearest")


def _ridges(across: Fields, down: Fields) -> tuple[Fields, Bool[np.ndarray, "n rows columns"]]:
    """Size of the gradient, and where it is largest along its own direction (rounded to 45 degrees)."""
    size = np.abs(across) + np.abs(down)
    padded = np.pad(size, ((0, 0), (1, 1), (1, 1)))

    def neighbour(d_row: int, d_column: int) -> Fields:
        rows, columns = size.shape[1:]
        return padded[:, 1 + d_row : 1 + d_row + rows, 1 + d_column : 1 + d_column + columns]

    flat, steep = np.tan(np.pi / 8), np.tan(3 * np.pi / 8)
    horizontal = np.abs(down) < flat * np.abs(across)
    vertical = np.abs(down) > steep * np.abs(across)
    rising = (across < 0) != (down < 0)
    # Of two equal neighbours one must win, so one side of each axis compares with >=.
    ridge = np.select(
        [horizontal, vertical, rising],
        [
            (size > neighbour(0, -1)) & (size >= neighbour(0, 1)),
            (size > neighbour(-1, 0)) & (size >= neighbour(1, 0)),
            (size > neighbour(-1, 1)) & (size > neighbour(1, -1)),
        ],
        default=(size > neighbour(-1, -1)) & (size > neighbour(1, 1)),
    )
    return size, ridge.astype(bool)


def _connected_to_strong(size: Fields, ridge: Bool[np.ndarray, "n rows columns"]) -> Bool[np.ndarray, "n rows columns"]:
    pieces = np.empty(size.shape, np.int32)
    ndimage.label(ridge & (size > _EDGE_WEAK), structure=_WITHIN_IMAGE, output=pieces)
    has_strong = np.zeros(pieces.max() + 1, bool)
    has_strong[pieces[ridge & (size > _EDGE_STRONG)]] = True
    has_strong[0] = False
    return has_strong[pieces]


def _distance_to_edge(edge: Bool[np.ndarray, "n rows columns"]) -> Fields:
    if not edge.any():
        return np.full(edge.shape, _FARTHEST)
    # Other images are made to lie farther away than the distance at which everything is cut off.
    return np.asarray(ndimage.distance_transform_edt(~edge, sampling=(2 * _FARTHEST, 1, 1)))


def _box_mean(fields: Fields) -> Fields:
    # Summed before dividing: whole numbers must not come out a rounding error short.
    return ndimage.correlate(fields, np.ones((1, 3, 3)), mode="mirror") / 9


def equalised(levels: UInt8[np.ndarray, "n rows columns"]) -> UInt8[np.ndarray, "n rows columns"]:
    """Spread the grey levels of each image evenly over 0 to 255; an image of one level stays as it is."""
    n, pixels = levels.shape[0], levels[0].size
    flat = levels.reshape(n, pixels)
    counts = np.zeros((n, 256), int)
    np.add.at(counts, (np.arange(n)[:, None], flat), 1)
    lowest = flat.min(axis=1)
    n_lowest = counts[np.arange(n), lowest]
    above = np.cumsum(counts, axis=1) - n_lowest[:, None]
    table = np.rint(255 * above / np.maximum(pixels - n_lowest, 1)[:, None])
    spread = np.take_along_axis(table, flat.astype(int), axis=1)
    one_level = n_lowest == pixels
    return np.where(one_level[:, None], flat, spread).astype(np.uint8).reshape(levels.shape)
