"""Corruptions of CIFAR-10-C (Hendrycks and Dietterich 2019), written anew from its published recipe.

A set made here is not the published one: the original fixes no random seed.
"""

from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Float, UInt8

from widetail.datasets.shifts import _pixels
from widetail.datasets.shifts._pixels import at_severity, check_images, corrupt_in_blocks
from widetail.datasets.shifts._seed import Seed
from widetail.datasets.shifts._water import drops
from widetail.datasets.shifts._weather import SIDE, motion_blur, plasma, zoomed

_SHOT_PHOTONS = (500.0, 250.0, 100.0, 75.0, 50.0)
_IMPULSE_SHARES = (0.01, 0.02, 0.03, 0.05, 0.07)
# Severities 1 to 3 are drops of water, 4 and 5 blots of mud.
_SPATTER_FIELDS = (
    (0.62, 0.1, 0.7, 0.7),
    (0.65, 0.1, 0.8, 0.7),
    (0.65, 0.3, 1.0, 0.69),
    (0.65, 0.1, 0.7, 0.69),
    (0.65, 0.1, 0.5, 0.68),
)
_SPATTER_WATER_UP_TO = 3
_WATER_STRENGTH, _MUD_MASK_SIGMA = 0.5, 0.6
_WATER_COLOUR = np.array([175, 238, 238]) / 255
_MUD_COLOUR = np.array([63, 42, 20]) / 255
_FOG_STRENGTH_DECAY = ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75))
# loc, scale, zoom, threshold, radius, sigma, blend
_SNOW = (
    (0.1, 0.2, 1.0, 0.6, 8, 3.0, 0.95),
    (0.1, 0.2, 1.0, 0.5, 10, 4.0, 0.9),
    (0.15, 0.3, 1.75, 0.55, 10, 4.0, 0.9),
    (0.25, 0.3, 2.25, 0.6, 12, 6.0, 0.85),
    (0.3, 0.3, 1.25, 0.65, 14, 12.0, 0.8),
)
_LUMINANCE = np.array([0.299, 0.587, 0.114])

Colour = Float[np.ndarray, "n 32 32 3"]


def corrupt_cifar10(
    images: UInt8[np.ndarray, "n 32 32 3"], corruption: str, severity: int, *, seed: Seed
) -> UInt8[np.ndarray, "n 32 32 3"]:
    """Corrupt RGB images of 32 x 32 pixels as CIFAR-10-C does.

    Args:
        images: uint8, any number.
        corruption: one of `CIFAR10_CORRUPTIONS`: "shot_noise", "impulse_noise", "spatter", "fog", "snow".
        severity: 1 (mild) to 5.
        seed: an integer, or a NumPy generator that is advanced.

    Returns:
        uint8 images of the same shape, cut off (not rounded) to whole levels as in the original.
    """
    check_images(images, (SIDE, SIDE, 3))
    if corruption not in _CORRUPTIONS:
        raise ValueError(f"corruption must be one of {', '.join(CIFAR10_CORRUPTIONS)}; got {corruption!r}.")
    apply = _CORRUPTIONS[corruption]
    return corrupt_in_blocks(images, lambda x, rng: apply(x, severity, rng), seed=seed, rounded=False)


def _shot_noise(x: Colour, severity: int, rng: np.random.Generator) -> Colour:
    return _pixels.shot_noise(x, at_severity(_SHOT_PHOTONS, severity), rng)


def _impulse_noise(x: Colour, severity: int, rng: np.random.Generator) -> Colour:
    return _pixels.impulse_noise(x, at_severity(_IMPULSE_SHARES, severity), rng)


def _spatter(x: Colour, severity: int, rng: np.random.Generator) -> Colour:
    field = at_severity(_SPATTER_FIELDS, severity)
    if severity <= _SPATTER_WATER_UP_TO:
        light = _WATER_STRENGTH * drops(x.shape[0], SIDE, field, rng)
        return x + light[..., None] * _WATER_COLOUR
    opacity = _pixels.stains(x.shape[0], SIDE, (*field, _MUD_MASK_SIGMA), rng)[..., None]
    return x * (1 - opacity) + opacity * _MUD_COLOUR


def _fog(x: Colour, severity: int, rng: np.random.Generator) -> Colour:
    strength, decay = at_severity(_FOG_STRENGTH_DECAY, severity)
    brightest = x.max(axis=(1, 2, 3), keepdims=True)
    clouds = plasma(x.shape[0], decay, rng)[..., None]
    return (x + strength * clouds) * brightest / (brightest + strength)


def _snow(x: Colour, severity: int, rng: np.random.Generator) -> Colour:
    loc, scale, zoom, threshold, radius, sigma, blend = at_severity(_SNOW, severity)
    flakes = zoomed(rng.normal(loc, scale, (x.shape[0], SIDE, SIDE)), zoom)
    flakes = np.floor(np.clip(np.where(flakes < threshold, 0.0, flakes), 0, 1) * 255)
    falling = motion_blur(flakes, radius, sigma, rng.uniform(-135, -45, x.shape[0]))
    layer = (np.floor(falling) / 255)[..., None]
    grey = (x @ _LUMINANCE)[..., None]
    whitened = blend * x + (1 - blend) * np.maximum(x, 1.5 * grey + 0.5)
    return whitened + layer + layer[:, ::-1, ::-1]


_CORRUPTIONS: Mapping[str, Callable[..., Colour]] = {
    "shot_noise": _shot_noise,
    "impulse_noise": _impulse_noise,
    "spatter": _spatter,
    "fog": _fog,
    "snow": _snow,
}
CIFAR10_CORRUPTIONS: tuple[str, ...] = tuple(_CORRUPTIONS)
