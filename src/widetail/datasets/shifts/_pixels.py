"""Shared parts of image corruptions: conversion of pixels, severities, random numbers, blocks."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Float, UInt8
from scipy import ndimage

from widetail.datasets.shifts._seed import Seed

Setting = TypeVar("Setting")

# Bounds the float64 copies of large sets; every block draws from the same generator in turn.
_BLOCK = 1000


def corrupt_in_blocks(
    images: UInt8[np.ndarray, "n *pixel"],
    corrupt: Callable[[Float[np.ndarray, "b *pixel"], np.random.Generator], Float[np.ndarray, "b *pixel"]],
    *,
    seed: Seed,
    rounded: bool,
) -> UInt8[np.ndarray, "n *pixel"]:
    """Apply `corrupt` to images scaled to [0, 1]; clip, and round or cut off to uint8."""
    generator = np.random.default_rng(seed)
    out = np.empty_like(images)
    for start in range(0, images.shape[0], _BLOCK):
        block = images[start : start + _BLOCK] / 255.0
        values = np.clip(corrupt(block, generator), 0.0, 1.0) * 255.0
        out[start : start + _BLOCK] = np.rint(values) if rounded else values
    return out


def check_images(images: np.ndarray, shape: tuple[int, ...]) -> None:
    """Refuse what is not uint8 images of the given shape."""
    if images.dtype != np.uint8 or images.shape[1:] != shape:
        expected = ", ".join(("n", *map(str, shape)))
        raise ValueError(
            f"images must be uint8 of shape ({expected}), got {images.dtype} of shape {images.shape}; "
            "pass raw pixels 0 to 255, before any scaling or flattening."
        )


def at_severity(settings: Sequence[Setting], severity: int) -> Setting:
    """The entry of `settings` for a severity of 1 to 5."""
    if severity not in range(1, len(settings) + 1):
        raise ValueError(f"severity must be an integer from 1 to {len(settings)}, got {severity!r}.")
    return settings[severity - 1]


def blur(fields: Float[np.ndarray, "n rows columns"], sigma: float) -> Float[np.ndarray, "n rows columns"]:
    """Gaussian filter of each field; the edge value is repeated outside, the kernel ends at 4 sigma."""
    return ndimage.gaussian_filter(fields, (0, sigma, sigma), mode="nearest", truncate=4.0)


def shot_noise(
    x: Float[np.ndarray, "n *pixel"], photons: float, generator: np.random.Generator
) -> Float[np.ndarray, "n *pixel"]:
    """Poisson counts of `photons` at full brightness."""
    return generator.poisson(photons * x) / photons


def impulse_noise(
    x: Float[np.ndarray, "n *pixel"], share: float, generator: np.random.Generator
) -> Float[np.ndarray, "n *pixel"]:
    """Replace a `share` of all values by black or white, with equal chance."""
    draw = generator.random(x.shape)
    return np.where(draw < share / 2, 0.0, np.where(draw < share, 1.0, x))


def stains(
    n: int,
    side: int,
    setting: tuple[float, float, float, float, float],
    generator: np.random.Generator,
) -> Float[np.ndarray, "n side side"]:
    """Opacity of random blots of mud in [0, 1].

    A white field N(loc, scale) is blurred and cut at a threshold; the mask is blurred, and what is fainter
    than 0.8 is dropped. `setting` is (loc, scale, sigma, threshold, sigma of the mask).
    """
    loc, scale, sigma, threshold, mask_sigma = setting
    field = blur(generator.normal(loc, scale, (n, side, side)), sigma)
    mask: Bool[np.ndarray, "n side side"] = field > threshold
    opacity = blur(mask.astype(np.float64), mask_sigma)
    return np.where(opacity < 0.8, 0.0, opacity)
