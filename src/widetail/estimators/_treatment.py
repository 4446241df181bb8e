"""What is done to every image before a network sees it, by itself and without anything learned."""

import dataclasses
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float
from scipy import ndimage

from widetail.files import savable

Smoothing = Literal["none", "mean", "binomial", "median", "wide"]
Centre = Literal["mean", "median", "border"]

# Of one axis; the filter of an image is the product of two. "wide" is the binomial filter applied twice.
WEIGHTS: dict[str, tuple[float, ...]] = {
    "mean": (1 / 3, 1 / 3, 1 / 3),
    "binomial": (0.25, 0.5, 0.25),
    "wide": (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16),
}
IMAGES_AT_ONCE = 2048
AXES = 4  # images, rows, columns, channels


@savable("estimators.ImageTreatment")
@dataclasses.dataclass(frozen=True)
class ImageTreatment:
    """Light smoothing, then each image to a centre of 0 and a spread of 1, so that noise and contrast matter little.

    A filter of a few pixels takes away most of what is drawn anew for every pixel (salt and pepper, photon noise) and
    little of a stroke. Brightness and contrast of a picture go with its own centre and spread: `0.35 x + 0.2` becomes
    what `x` becomes. `squash` bounds what a few extreme pixels can do.

    Attributes:
        smoothing: "wide" for weights (1, 4, 6, 4, 1) / 16 along both axes, "binomial" for (1, 2, 1) / 4, "mean" or
            "median" of 3 x 3 pixels, or "none". Edge pixels are repeated outside of the image.
        centre: of an image, which becomes 0: its "mean", its "median", or the median of its "border". Convolutions pad
            with zeros, so that 0 is what they see around an image.
        squash: whether tanh follows.

    Example:
        >>> import numpy as np
        >>> from widetail.estimators import ImageTreatment
        >>> images = np.random.default_rng(0).uniform(size=(3, 8, 8))
        >>> treatment = ImageTreatment()
        >>> bool(np.allclose(treatment.apply(0.35 * images + 0.2), treatment.apply(images)))
        True
    """

    smoothing: Smoothing = "wide"
    centre: Centre = "mean"
    squash: bool = False

    def __post_init__(self) -> None:
        for name, kind in (("smoothing", Smoothing), ("centre", Centre)):
            if getattr(self, name) not in get_args(kind):
                raise ValueError(f"{name} must be one of {', '.join(get_args(kind))}; got {getattr(self, name)!r}.")

    def apply(self, images: Any) -> Float[np.ndarray, "n height width *channels"]:
        """The images as the network sees them.

        Args:
            images: in any units, shape (n, height, width) or (n, height, width, channels). All channels of an image
                have one centre and one spread.
        """
        images = np.asarray(images)
        if images.ndim not in (AXES - 1, AXES):
            raise ValueError(
                f"images must have the shape (n, height, width) or (n, height, width, channels); got {images.shape}."
            )
        out = np.empty(images.shape, np.float32 if images.dtype == np.float32 else np.float64)
        for start in range(0, len(images), IMAGES_AT_ONCE):
            here = slice(start, start + IMAGES_AT_ONCE)
            out[here] = self._apply(images[here].astype(out.dtype))
        return out

    def _apply(self, x: np.ndarray) -> np.ndarray:
        largest = np.max(np.abs(x), axis=(1, 2), keepdims=True)
        largest = np.max(largest.reshape(len(x), -1), axis=1).reshape(-1, *(1,) * (x.ndim - 1))
        x = x / np.where(largest > 0, largest, 1.0)  # squares can be taken at any magnitude
        if self.smoothing == "median":
            x = ndimage.median_filter(x, (1, 3, 3, *(1,) * (x.ndim - 3)), mode="nearest")
        elif self.smoothing != "none":
            for axis in (1, 2):
                x = ndimage.correlate1d(x, WEIGHTS[self.smoothing], axis=axis, mode="nearest")
        axes = tuple(range(1, x.ndim))
        level = np.mean(x, axis=axes, keepdims=True)
        spread = np.std(x, axis=axes, keepdims=True)
        if self.centre == "median":
            level = np.median(x, axis=axes, keepdims=True)
        elif self.centre == "border":
            sides = [x.take(side, axis).reshape(len(x), -1) for axis in (1, 2) for side in (0, -1)]
            level = np.median(np.concatenate(sides, axis=1), axis=1).reshape(level.shape)
        # an image of one grey, up to rounding, has nothing to be enlarged
        x = (x - level) / np.where(spread > 100 * np.finfo(x.dtype).eps, spread, 1.0)
        return np.tanh(x) if self.squash else x
