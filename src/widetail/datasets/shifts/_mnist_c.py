"""Corruptions of MNIST-C (Mu and Gilmer 2019), written anew from its published recipe.

A set made here is not the published one: the original fixes no random seed.
"""

import functools
import itertools
from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Float, UInt8
from scipy import ndimage

from widetail.datasets.shifts import _pixels
from widetail.datasets.shifts._pixels import at_severity, check_images, corrupt_in_blocks
from widetail.datasets.shifts._seed import Seed

_SIDE = 28
_MUD_GREY = 63 / 255

_SHOT_PHOTONS = (60.0, 25.0, 12.0, 5.0, 3.0)
_IMPULSE_SHARES = (0.03, 0.06, 0.09, 0.17, 0.27)
_GLASS_SIGMA_REACH_PASSES = ((0.7, 1, 2), (0.9, 2, 1), (1.0, 2, 3), (1.1, 3, 2), (1.5, 4, 2))
_SPATTER_STAINS = (
    (0.65, 0.3, 4.0, 0.69, 0.6),
    (0.65, 0.3, 3.0, 0.68, 0.6),
    (0.65, 0.3, 2.0, 0.68, 0.5),
    (0.65, 0.3, 1.0, 0.65, 1.5),
    (0.67, 0.4, 1.0, 0.65, 1.5),
)

Grey = Float[np.ndarray, "n 28 28"]


def corrupt_mnist(
    images: UInt8[np.ndarray, "n 28 28"], corruption: str, *, severity: int | None = None, seed: Seed
) -> UInt8[np.ndarray, "n 28 28"]:
    """Corrupt grey images of 28 x 28 pixels as MNIST-C does.

    Args:
        images: uint8, any number.
        corruption: one of `MNIST_CORRUPTIONS`: "shot_noise", "impulse_noise", "glass_blur", "spatter",
            "zigzag".
        severity: 1 to 5. None, the default, is the one strength that MNIST-C itself uses: 5 for shot noise,
            4 for impulse noise and spatter, 1 for glass blur. Zigzag has no severities.
        seed: an integer, or a NumPy generator that is advanced.

    Returns:
        uint8 images of the same shape, rounded to the nearest level.
    """
    check_images(images, (_SIDE, _SIDE))
    if corruption not in _CORRUPTIONS:
        raise ValueError(f"corruption must be one of {', '.join(MNIST_CORRUPTIONS)}; got {corruption!r}.")
    apply, published_severity = _CORRUPTIONS[corruption]
    if published_severity is None and severity is not None:
        raise ValueError(f"{corruption} has no severities; leave out severity (got {severity!r}).")
    strength = published_severity if severity is None else severity
    return corrupt_in_blocks(images, lambda x, rng: apply(x, strength, rng), seed=seed, rounded=True)


def _shot_noise(x: Grey, severity: int, rng: np.random.Generator) -> Grey:
    return _pixels.shot_noise(x, at_severity(_SHOT_PHOTONS, severity), rng)


def _impulse_noise(x: Grey, severity: int, rng: np.random.Generator) -> Grey:
    return _pixels.impulse_noise(x, at_severity(_IMPULSE_SHARES, severity), rng)


def _spatter(x: Grey, severity: int, rng: np.random.Generator) -> Grey:
    opacity = _pixels.stains(x.shape[0], _SIDE, at_severity(_SPATTER_STAINS, severity), rng)
    return x * (1 - opacity) + _MUD_GREY * opacity


def _glass_blur(x: Grey, severity: int, rng: np.random.Generator) -> Grey:
    """Blur, swap neighbouring pixels one after the other, blur.

    The blurs run down the columns only: the published images were made so (their grey images were taken for
    one row of many colours). The order of the swaps matters within an image; images are done side by side.
    """
    sigma, reach, passes = at_severity(_GLASS_SIGMA_REACH_PASSES, severity)
    pixels = np.floor(_blur_down(x, sigma) * 255)
    image = np.arange(x.shape[0])
    for _ in range(passes):
        for row in range(_SIDE - reach, reach, -1):
            for column in range(_SIDE - reach, reach, -1):
                step = rng.integers(-reach, reach, (2, image.size))
                # Swapping a pixel with itself is how half of the images leave this pixel alone.
                other_row, other_column = np.array([[row], [column]]) + step * rng.integers(0, 2, image.size)
                other = pixels[image, other_row, other_column]
                pixels[image, other_row, other_column] = pixels[:, row, column]
                pixels[:, row, column] = other
    return _blur_down(pixels / 255, sigma)


def _blur_down(x: Grey, sigma: float) -> Grey:
    return ndimage.gaussian_filter1d(x, sigma, axis=1, mode="nearest", truncate=4.0)


def _zigzag(x: Grey, _: None, rng: np.random.Generator) -> Grey:
    start_row = rng.integers(0, 27, x.shape[0])
    rise = rng.integers(-5, 5, x.shape[0])
    return x + _all_zigzags()[start_row, rise + 5]


@functools.cache
def _all_zigzags() -> Float[np.ndarray, "27 10 28 28"]:
    """Every line that can be drawn, by start row (0 to 26) and rise (-5 to 4): there are only 270."""
    return np.array([[_zigzag_line(row, rise) for rise in range(-5, 5)] for row in range(27)])


def _zigzag_line(start_row: int, rise: int) -> Float[np.ndarray, "28 28"]:
    """Brightness of a zigzag from column 2 to column 25; where strokes overlap, it adds up."""
    span, reach = 23, 2.0  # columns covered; corners lie this far along and across the line
    angle = np.arctan2(rise, span)
    length = span / np.cos(angle)
    n_corners = int((length - reach) // (2 * reach)) + 1
    along = [0.0] + [(2 * i + 1) * reach for i in range(n_corners)]
    across = [0.0] + [(-1) ** i * reach for i in range(n_corners)]
    whole_waves = 2 * reach * (length // (2 * reach))
    if length != whole_waves:
        across.append(across[-1] / (2 * (length - whole_waves)))
        along.append(length)
    columns = np.cos(angle) * np.array(along) - np.sin(angle) * np.array(across) + 2
    rows = np.sin(angle) * np.array(along) + np.cos(angle) * np.array(across) + start_row
    corners = zip(columns.tolist(), rows.tolist(), strict=True)
    return np.sum([_stroke(*start, *end) for start, end in itertools.pairwise(corners)], axis=0)


def _stroke(column_0: float, row_0: float, column_1: float, row_1: float) -> Float[np.ndarray, "28 28"]:
    """A straight stroke, bright within half a pixel, gone at 2.3 pixels (measured vertically)."""
    row, column = np.mgrid[:_SIDE, :_SIDE]
    slope = (row_1 - row_0) / (column_1 - column_0)
    distance = np.abs(row - (slope * (column - column_0) + row_0))
    brightness = np.clip(np.log1p(-np.minimum(distance / 2.3, 1 - 1e-9)) + 1, 0, 1)
    inside = (column >= np.floor(column_0)) & (column < np.ceil(column_1))
    return np.where(inside, brightness, 0.0)


# With the severity that MNIST-C uses.
_CORRUPTIONS: Mapping[str, tuple[Callable[..., Grey], int | None]] = {
    "shot_noise": (_shot_noise, 5),
    "impulse_noise": (_impulse_noise, 4),
    "glass_blur": (_glass_blur, 1),
    "spatter": (_spatter, 4),
    "zigzag": (_zigzag, None),
}
MNIST_CORRUPTIONS: tuple[str, ...] = tuple(_CORRUPTIONS)
