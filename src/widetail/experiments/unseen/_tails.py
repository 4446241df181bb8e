"""Class probabilities when every latent value is drawn by itself, from a normal law or one of Student's."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm, qmc, t

from widetail.numerics import with_rows

DRAWS, ROWS_AT_ONCE = 512, 128
NODES = 96  # of the integral over the latent value of the label
FARTHEST = 1e-13  # probability beyond the last of them


class Drawn(NamedTuple):
    """Class probabilities, shape (m, classes), and the logarithm of that of the label, shape (m,)."""

    probabilities: np.ndarray
    log_score: np.ndarray


def drawn(mean: np.ndarray, spread: np.ndarray, labels: np.ndarray, degrees: float = np.inf) -> Drawn:
    """Softmax of independent latent values, one for every row and class, in expectation.

    The latent value of the label is integrated by quadrature for every draw of the others, so that the logarithm of a
    small probability is as accurate as that of a large one.

    Args:
        mean, spread: location and scale of the latent values, shape (m, classes).
        labels: class numbers, shape (m,).
        degrees: degrees of freedom; infinite for normal laws.
    """
    law: Any = norm if np.isinf(degrees) else t(degrees)
    points = qmc.Sobol(mean.shape[1], scramble=True, rng=np.random.default_rng(0)).random(DRAWS)
    table = law.ppf(np.clip(points, 1e-9, 1 - 1e-9)).astype(np.float32)
    # a trapezoidal rule for which tails are no longer than the middle
    v = np.linspace(-1.0, 1.0, NODES) * np.arcsinh(law.isf(FARTHEST))
    log_weights = np.log((v[1] - v[0]) * np.cosh(v)) + law.logpdf(np.sinh(v))
    nodes = np.sinh(v).astype(np.float32), log_weights.astype(np.float32)
    parts = []
    for start in range(0, len(mean), ROWS_AT_ONCE):
        here = slice(start, start + ROWS_AT_ONCE)
        count = len(mean[here])
        filled = [with_rows(np.asarray(part[here], np.float32), ROWS_AT_ONCE) for part in (mean, spread)]
        found = _expected(*filled, with_rows(np.asarray(labels[here], np.int32), ROWS_AT_ONCE), table, *nodes)
        parts.append([np.asarray(part)[:count] for part in found])
    return Drawn(*(np.concatenate(part).astype(np.float64) for part in zip(*parts, strict=True)))


@functools.partial(jax.jit)
def _expected(mean: Any, spread: Any, labels: Any, table: Any, nodes: Any, log_weights: Any) -> Any:
    f = mean[:, None] + spread[:, None] * table
    is_own = jax.nn.one_hot(labels, mean.shape[1], dtype=bool)
    others = jax.nn.logsumexp(jnp.where(is_own[:, None], -jnp.inf, f), axis=-1)
    location, scale = (jnp.sum(jnp.where(is_own, part, 0), axis=1)[:, None] for part in (mean, spread))
    own = location + scale * nodes
    log_p = jax.nn.log_sigmoid(own[:, None] - others[..., None]) + log_weights
    log_score = jax.nn.logsumexp(log_p, axis=(1, 2)) - jnp.log(table.shape[0])
    return jnp.mean(jax.nn.softmax(f, axis=-1), axis=1), log_score
