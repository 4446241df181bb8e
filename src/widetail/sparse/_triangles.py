"""Products of features with triangular and symmetric matrices, at five eighths of the work of square ones."""

from typing import Any

import jax
import jax.numpy as jnp

STRIPS, SMALLEST_STRIP = 4, 64


@jax.jit
def explained(features: Any, root: Any) -> Any:
    r"""$|\mathrm{root}\,a_x|^2$, shape (rows, outputs), without the upper halves of the roots, which are zero."""
    outputs, total = len(root), jnp.zeros((len(features), len(root)), features.dtype)
    for here, width in _strips(features.shape[1]):
        projected = features[:, :width] @ root[:, here, :width].reshape(-1, width).T
        total += jnp.sum(projected.reshape(len(features), outputs, -1) ** 2, axis=-1)
    return total


def lower_gram(features: Any, weights: Any) -> Any:
    r"""The lower half of $\sum_x w_{xc}\, a_x a_x^\top$, shape (outputs, inducing, inducing); above is anything."""
    outputs, inducing = weights.shape[1], features.shape[1]
    lower = jnp.zeros((outputs, inducing, inducing), features.dtype)
    for here, width in _strips(inducing):
        weighted = weights.T[:, None, :] * features.T[None, here]
        part = weighted.reshape(-1, len(features)) @ features[:, :width]
        lower = lower.at[:, here, :width].set(part.reshape(outputs, -1, width))
    return lower


def mirrored(lower: Any) -> Any:
    """Symmetric matrices with these lower halves."""
    return jnp.tril(lower) + jnp.swapaxes(jnp.tril(lower, -1), -1, -2)


def _strips(size: int) -> list[tuple[slice, int]]:
    """Strips of a lower triangle, each as wide as it has to be: five eighths of the work of a square."""
    count = STRIPS if size >= STRIPS * SMALLEST_STRIP else 1
    ends = [size * (number + 1) // count for number in range(count)]
    return [(slice(start, end), end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
