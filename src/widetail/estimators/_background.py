"""Images around their background.

Convolutions pad with zeros: where zero is the value that an image has at its border, padding goes on with the image and
empty patches are empty. With the mean of all pixels as zero every image is framed.
"""

import numpy as np

from widetail.estimators._scaling import Scaling


def around_background(images: np.ndarray, counts: np.ndarray | None = None) -> Scaling:
    """A shift by the median of the pixels at the border, and a factor for a mean square of 1; for all pixels alike.

    Args:
        images: shape (n, height, width, channels).
        counts: how often each image was observed, shape (n,); once by default.
    """
    counts = np.ones(len(images)) if counts is None else counts
    border = np.concatenate(
        [images.take(side, axis).reshape(len(images), -1) for axis in (1, 2) for side in (0, -1)], axis=1
    )
    weights = np.broadcast_to(counts[:, None], border.shape)
    level = np.quantile(border, 0.5, weights=weights, method="inverted_cdf")
    from_level = images - level
    largest = np.max(np.abs(from_level)) or 1.0  # squares of the quotients can be taken at any magnitude
    from_level /= largest
    squares = np.einsum("nhwc,nhwc->n", from_level, from_level) / images[0].size
    factor = largest * np.sqrt(np.average(squares, weights=counts)) or 1.0
    return Scaling(np.array([level]), np.array([factor]))
