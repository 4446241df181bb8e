"""Several classes."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from widetail.files import savable
from widetail.sparse.likelihoods._base import SMALLEST_VARIANCE, Expectations, Likelihood


@savable("sparse.Categorical")
class Categorical(Likelihood):
    """y is the number of a class, with probabilities softmax(f) over one latent function per class.

    Args:
        classes: how many.
    """

    classes: int = eqx.field(static=True)
    couples_outputs: ClassVar[bool] = True
    only_differences: ClassVar[bool] = True
    has_units: ClassVar[bool] = False

    def log_prob(self, f: Any, y: Any, scale: Any) -> Any:
        """Log probability of the classes y, shape (...), given f of shape (..., classes)."""
        return jnp.take_along_axis(f, y[..., None], axis=-1)[..., 0] - jax.nn.logsumexp(f, axis=-1)

    def sample(self, key, f, scale):
        return jax.random.categorical(key, f, axis=-1)

    def check_targets(self, y: np.ndarray) -> None:
        """Integers below the number of classes."""
        if not np.issubdtype(y.dtype, np.integer):
            raise ValueError(f"y must hold class numbers, integers from 0 to {self.classes - 1}; got dtype {y.dtype}.")
        if np.any((y < 0) | (y >= self.classes)):
            bad = y[(y < 0) | (y >= self.classes)].ravel()[0]
            raise ValueError(f"y must hold class numbers from 0 to {self.classes - 1}; got {bad}.")

    def contrast_weights(self, found: Expectations, y: Any, scale: Any) -> Any:
        # probabilities, all smaller by one factor where f is uncertain, so that the trace of the curvature is right
        share = jax.nn.one_hot(y, self.classes, dtype=found.slope.dtype) - found.slope
        certain = jnp.sum(share * (1 - share), axis=-1, keepdims=True)
        trace = jnp.sum(found.curvature, axis=-1, keepdims=True) / scale
        return share * trace / jnp.maximum(certain, jnp.finfo(share.dtype).tiny)

    def expected_log_prob(self, mean, variance, y, scale, draws):
        f = mean[:, None] + jnp.sqrt(scale * variance)[:, None] * draws
        expected = jnp.mean(jax.nn.logsumexp(f, axis=-1), axis=-1)
        return jnp.take_along_axis(mean, y[:, None], axis=-1)[:, 0] - expected

    def expectations(self, mean, variance, y, scales, weights, draws):
        # E[p (1 - p)] has far less variance over few draws than the derivative in the standard deviation.
        deviation = jnp.sqrt(jnp.maximum(variance, SMALLEST_VARIANCE))
        f = mean[None, :, None] + jnp.sqrt(scales)[:, None, None, None] * deviation[None, :, None] * draws
        highest = jnp.max(f, axis=-1, keepdims=True)
        p = jnp.exp(f - highest)
        total = jnp.sum(p, axis=-1, keepdims=True)
        p = p / total
        expected = weights @ jnp.mean((highest + jnp.log(total))[..., 0], axis=-1)
        share = jnp.tensordot(weights, jnp.mean(p, axis=2), 1)
        curvature = jnp.tensordot(weights * scales, jnp.mean(p * (1 - p), axis=2), 1)
        chosen = jnp.take_along_axis(mean, y[:, None], axis=-1)[:, 0]
        return Expectations(chosen - expected, jax.nn.one_hot(y, self.classes, dtype=mean.dtype) - share, curvature)
