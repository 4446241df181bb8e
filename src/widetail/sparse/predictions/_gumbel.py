r"""A normal variable plus a standard Gumbel variable: its distribution function, tabulated once.

Softmax probabilities are those of the largest of $f_k + G_k$ with independent Gumbel variables. For independent normal
$f_k$ the expectation of a softmax is therefore an integral over one number, the largest value u:

$$\mathbb E[\mathrm{softmax}_c(f)] = \int h_c(u) \prod_k \Phi_k(u)\, du, \qquad h_c = \frac{d}{du} \log \Phi_c,$$

with $\Phi_k$ the distribution function of $f_k + G_k$. Every factor is positive and known to many digits in relative
terms, so that small probabilities are, too.
"""

import functools
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.special import log_ndtr, logsumexp

# Logarithms of standard deviations. A smaller one than the first makes no difference to 1e-4 of a probability.
LOG_LOW, LOG_STEP, LOG_COUNT = float(np.log(0.01)), 0.125, 80
# Values in units of sqrt(1 + s^2).
LOW, STEP, COUNT = -12.0, 0.125, 385
LEAST = -2000.0  # the smallest logarithm in the table: smaller ones make no difference
SPACING = 0.4  # of the trapezoidal rules: the integrands are analytic, and the error is below 1e-10


class GumbelTable(NamedTuple):
    """Logarithms of the distribution function and of its logarithmic derivative, shape (LOG_COUNT, COUNT)."""

    log_below: np.ndarray
    log_hazard: np.ndarray


@functools.cache
def gumbel_table() -> GumbelTable:
    """The table; half a second, once."""
    rows = [_row(float(np.exp(LOG_LOW + LOG_STEP * i))) for i in range(LOG_COUNT)]
    log_below, log_density = (np.stack(part) for part in zip(*rows, strict=True))
    return GumbelTable(np.maximum(log_below, LEAST), np.maximum(log_density - log_below, LEAST))


def _row(s: float) -> tuple[np.ndarray, np.ndarray]:
    w = (LOW + STEP * np.arange(COUNT)) * np.sqrt(1 + s**2)
    if s < 1:  # over the normal variable
        z = np.arange(-12.0, 12.0 + SPACING, SPACING)
        log_weight = -0.5 * z**2 - 0.5 * np.log(2 * np.pi) + np.log(SPACING)
        gap = w[:, None] - s * z
        inner = -np.exp(np.minimum(-gap, 700.0))
        return _log_sums(inner + log_weight), _log_sums(inner - gap + log_weight)
    gumbel = np.arange(-6.0, 120.0, SPACING)
    log_weight = -gumbel - np.exp(-gumbel) + np.log(SPACING)
    gap = (w[:, None] - gumbel) / s
    log_normal = -0.5 * gap**2 - 0.5 * np.log(2 * np.pi) - np.log(s)
    return _log_sums(log_ndtr(gap) + log_weight), _log_sums(log_normal + log_weight)


def _log_sums(log_terms: np.ndarray) -> np.ndarray:
    """Of every row."""
    return np.asarray(logsumexp(log_terms, axis=1))


def log_softmax_integral(mean: Any, deviation: Any, table: GumbelTable, nodes: int) -> Any:
    """Log expectations of softmax(f) for independent normal f, shape (rows, classes).

    Args:
        mean, deviation: of f, shape (rows, classes).
        table: `gumbel_table()`.
        nodes: of the integral over the largest value.
    """
    low = jnp.max(mean - 9.2 * deviation - 4.0, axis=1)
    high = jnp.max(mean + 7.0 * deviation, axis=1) + 16.0
    step = (high - low) / (nodes - 1)
    u = low[:, None] + step[:, None] * jnp.arange(nodes, dtype=mean.dtype)
    place = (jnp.log(jnp.maximum(deviation, 1e-12)) - LOG_LOW) / LOG_STEP
    first, weights = _lagrange(place, LOG_COUNT)
    w = (u[:, None] - mean[..., None]) / jnp.sqrt(1 + deviation**2)[..., None]
    column, along = _lagrange((w - LOW) / STEP, COUNT)

    def at(values: Any) -> Any:
        # rows of the table first, side by side in memory, then places in them
        blended = sum(weights[..., i, None] * jnp.take(values, first + i, axis=0) for i in range(4))
        return sum(along[..., i] * jnp.take_along_axis(blended, column + i, axis=-1) for i in range(4))

    below = jnp.minimum(at(table.log_below), 0.0)
    total = jnp.sum(below, axis=1, keepdims=True) + at(table.log_hazard)
    highest = jnp.max(total, axis=-1, keepdims=True)
    found = jnp.log(jnp.sum(jnp.exp(total - highest), axis=-1)) + highest[..., 0]
    found = found + jnp.log(step)[:, None]
    # their sum is 1 but for the error of the quadrature
    return found - jnp.log(jnp.sum(jnp.exp(found), axis=1, keepdims=True))


def _lagrange(place: Any, count: int) -> tuple[Any, Any]:
    """The first of four neighbours of a place in a table, and the weights of cubic interpolation."""
    place = jnp.clip(place, 0.0, count - 1.0)
    first = jnp.clip(jnp.floor(place).astype(jnp.int32) - 1, 0, count - 4)
    t = place - first.astype(place.dtype)
    parts = (
        -(t - 1) * (t - 2) * (t - 3) / 6,
        t * (t - 2) * (t - 3) / 2,
        -t * (t - 1) * (t - 3) / 2,
        t * (t - 1) * (t - 2) / 6,
    )
    return first, jnp.stack(parts, axis=-1)
