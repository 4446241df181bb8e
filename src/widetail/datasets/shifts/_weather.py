"""Fog and snow for images of 32 x 32 pixels."""

import math

import numpy as np
from jaxtyping import Float
from scipy import ndimage

SIDE = 32

Layer = Float[np.ndarray, "n 32 32"]


def plasma(n: int, decay: float, generator: np.random.Generator) -> Layer:
    """Clouds in [0, 1] by the diamond-square construction on a torus.

    Starting from one point, midpoints are the mean of their four neighbours plus uniform noise in
    (-k^2, k^2), first for the centres of all squares, then for the middles of their sides; k starts at 100
    and is divided by `decay` whenever the step is halved.
    """
    height = np.zeros((n, SIDE, SIDE))
    step, k = SIDE, 100.0

    def midpoint(total: Float[np.ndarray, "n r c"]) -> Float[np.ndarray, "n r c"]:
        return total / 4 + k * generator.uniform(-k, k, total.shape)

    while step >= 2:
        half = step // 2
        corner = height[:, ::step, ::step]
        below, right = np.roll(corner, -1, axis=1), np.roll(corner, -1, axis=2)
        centre = midpoint(corner + below + right + np.roll(below, -1, axis=2))
        height[:, half::step, half::step] = centre
        height[:, ::step, half::step] = midpoint(centre + np.roll(centre, 1, axis=1) + corner + right)
        height[:, half::step, ::step] = midpoint(centre + np.roll(centre, 1, axis=2) + corner + below)
        step, k = half, k / decay

    height -= height.min(axis=(1, 2), keepdims=True)
    return height / height.max(axis=(1, 2), keepdims=True)


def zoomed(layer: Layer, factor: float) -> Layer:
    """The middle of each layer, enlarged by `factor` with linear interpolation and cut to size."""
    crop = math.ceil(SIDE / factor)
    top = (SIDE - crop) // 2
    middle = layer[:, top : top + crop, top : top + crop]
    enlarged = np.asarray(ndimage.zoom(middle, (1, factor, factor), order=1))
    offset = (enlarged.shape[1] - SIDE) // 2
    return enlarged[:, offset : offset + SIDE, offset : offset + SIDE]


def motion_blur(
    layer: Layer, radius: int, sigma: float, degrees: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "n 32 32"]:
    """One-sided blur along a direction per image, as ImageMagick computes it.

    Weight i of 2 radius + 1, a half Gaussian in i, belongs to the pixel that lies i steps away in the
    direction `degrees` (columns go with the cosine, rows with the sine); outside, the edge value counts.
    """
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights /= weights.sum()
    angle = np.deg2rad(degrees)
    column_shift = np.ceil(np.outer(steps, np.cos(angle)) - 0.5).astype(int)
    row_shift = np.ceil(np.outer(steps, np.sin(angle)) - 0.5).astype(int)
    image = np.arange(layer.shape[0])[:, None, None]
    pixel = np.arange(SIDE)
    out = np.zeros_like(layer)
    for weight, down, right in zip(weights, row_shift, column_shift, strict=True):
        row = np.clip(pixel + down[:, None], 0, SIDE - 1)
        column = np.clip(pixel + right[:, None], 0, SIDE - 1)
        out += weight * layer[image, row[:, :, None], column[:, None, :]]
    return out
