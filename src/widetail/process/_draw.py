"""One function drawn from a posterior, evaluated wherever it is asked."""

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from widetail.checks import like_targets, two_dimensional
from widetail.numerics import cholesky
from widetail.process._base import check_new

if TYPE_CHECKING:
    from widetail.process._scaled import ScaledPosterior

# Relative to the prior variance: what keeps the draw computable when points coincide.
NUGGET = 1e-11


class FunctionDraw:
    """A function with one readout scale, which remembers where it has been evaluated.

    New values are drawn given all earlier ones, so that calls fit together. The cost of a call grows with the
    cube of the number of points asked for so far.
    """

    def __init__(self, posterior: "ScaledPosterior", root_scale: Any, key: PRNGKeyArray | Array):
        self._posterior = posterior
        self._root_scale = root_scale
        self._key = key
        self._points: Any = None
        self._noise = np.empty((0, 0))  # standard normal numbers behind the values so far

    def __call__(self, x_new: Any) -> np.ndarray:
        """Values at the rows of `x_new`, shape (m,) or (m, outputs)."""
        posterior = self._posterior
        x_new = check_new(posterior.kernel, posterior.x, x_new)
        points = np.asarray(x_new)
        if self._points is not None:
            points = np.concatenate([self._points, points])
        covariance = posterior.covariance(points)
        prior = np.asarray(posterior.kernel.diagonal(points, get="nngp").nngp, dtype=np.float64)
        factor = cholesky(covariance + np.diag(NUGGET * prior + np.finfo(float).tiny))
        outputs = two_dimensional(posterior.y).shape[1]
        self._key, key = jax.random.split(self._key)
        with jax.enable_x64(True):
            fresh = np.asarray(jax.random.normal(key, (len(x_new), outputs)), dtype=np.float64)
        self._noise = np.concatenate([self._noise.reshape(-1, outputs), fresh])
        self._points = points
        # rows of a Cholesky factor do not change when rows are appended: earlier values stay what they were
        deviation = (factor @ self._noise)[-len(x_new) :] * self._root_scale
        return posterior.location(x_new) + like_targets(deviation, posterior.y)
