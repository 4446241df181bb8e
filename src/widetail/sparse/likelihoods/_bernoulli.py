"""Two classes."""

from typing import ClassVar

import jax
import numpy as np

from widetail.files import savable
from widetail.sparse.likelihoods._base import Likelihood


@savable("sparse.Bernoulli")
class Bernoulli(Likelihood):
    """y is 1 with probability sigmoid(f), and 0 otherwise."""

    has_units: ClassVar[bool] = False

    def log_prob(self, f, y, scale):
        return jax.nn.log_sigmoid((2 * y - 1) * f)

    def sample(self, key, f, scale):
        return jax.random.bernoulli(key, jax.nn.sigmoid(f)).astype(f.dtype)

    def check_targets(self, y: np.ndarray) -> None:
        """Zeros and ones."""
        if not np.all((y == 0) | (y == 1)):
            raise ValueError(f"y must hold zeros and ones for Bernoulli; got values such as {_other(y)}.")


def _other(y: np.ndarray) -> float:
    return float(y[(y != 0) & (y != 1)].ravel()[0])
