"""Which value of a pixel counts as zero.

Kernels of convolutional networks are not the same for brighter images: padding is zero, and a patch of one colour is as
long as that colour is far from zero. So the level is a hyperparameter like others, and one that the evidence knows:
on MNIST it takes the middle of the range, which predicts better than the mean, a dark grey.
"""

import math
from typing import Any

import numpy as np
import scipy.optimize

from widetail.estimators._scaling import Scaling
from widetail.kernels import Kernel
from widetail.priors import InverseGamma
from widetail.process import ScaledNoise, ScaleMixture

STEPS = 9
LOG_NOISES = (math.log(1e-4), 0.0)  # in units of the prior variance


def best_zero_level(kernel: Kernel, images: np.ndarray, targets: np.ndarray, counts: np.ndarray) -> Scaling:
    """The shift with the largest evidence among the mean and a few levels from the darkest to the brightest pixel.

    Args:
        kernel: of images whose squares have a mean of 1.
        images: shape (n, ...), in any units.
        targets: shape (n, outputs).
        counts: how often each image was observed, shape (n,).

    Returns:
        What brings images to that level, with a mean square of 1. Costs one kernel of (n, n) for each level.
    """
    mean = np.average(images.reshape(len(images), -1).mean(axis=1), weights=counts)
    levels = [float(mean), *np.linspace(images.min(), images.max(), STEPS)]
    candidates = [_around(level, images, counts) for level in levels]
    return max(candidates, key=lambda scaling: _evidence(kernel, scaling.apply(images), targets, counts))


def _around(level: float, images: np.ndarray, counts: np.ndarray) -> Scaling:
    squares = ((images - level) ** 2).reshape(len(images), -1).mean(axis=1)
    mean = float(np.average(squares, weights=counts))
    return Scaling(np.array([level]), np.array([math.sqrt(mean) if mean > 0 else 1.0]))


def _evidence(kernel: Kernel, images: np.ndarray, targets: np.ndarray, counts: np.ndarray) -> float:
    """The largest over noises: how much noise there seems to be depends on the level."""
    matrix = np.asarray(kernel.kernel(images, get="nngp").nngp, np.float64)
    rows = np.arange(len(images))[:, None]
    unit = float(np.mean(np.diagonal(matrix)))

    def loss(log_noise: float) -> float:
        noise = ScaledNoise(unit * math.exp(log_noise))
        process = ScaleMixture(lambda *_: matrix.copy(), InverseGamma(2.0, 2.0), noise)
        return -process.posterior(rows, targets, counts=counts).log_evidence

    found: Any = scipy.optimize.minimize_scalar(loss, bounds=LOG_NOISES, method="bounded", options={"xatol": 0.1})
    return -float(found.fun)
