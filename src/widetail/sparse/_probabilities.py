"""Class probabilities: softmax or sigmoid, integrated over the latent functions and the scale."""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm, qmc

from widetail.sparse._scale import ScaleLaw

DRAWS = 2048
ROWS_AT_ONCE = 128


class ClassProbabilities(NamedTuple):
    """What a classifier says of m points.

    Attributes:
        probabilities: of the classes, integrated over latent functions and scale, shape (m, classes).
        entropy: of these probabilities, in nats, shape (m,).
        mutual_information: between the class and the latent functions with their scale: the part of the entropy that
            more data would remove, shape (m,).
    """

    probabilities: np.ndarray
    entropy: np.ndarray
    mutual_information: np.ndarray


def class_probabilities(
    mean: np.ndarray, variance: np.ndarray, law: ScaleLaw, *, seed: int = 0, draws: int = DRAWS
) -> ClassProbabilities:
    """Probabilities of classes by quasi-Monte Carlo: one scrambled Sobol point per draw of (scale, latent values).

    With 2048 draws the error is a few 1e-4. One scale is shared by the outputs of a draw, as it is in the model.

    Args:
        mean, variance: of the latent values given a unit scale, shape (m, classes), or (m, 1) for two classes.
        law: of the scale.
        seed: of the scrambling; the same seed gives the same numbers.
        draws: a power of two.
    """
    scales, table = _draws(law, mean.shape[1], seed, draws)
    parts = []
    size = min(ROWS_AT_ONCE, 1 << (len(mean) - 1).bit_length())
    with jax.enable_x64(True):
        for start in range(0, len(mean), size):
            rows = slice(start, start + size)
            filled = [_filled(part[rows].astype(np.float32), size) for part in (mean, variance)]
            found = _integrate(*filled, scales, table)
            parts.append([np.asarray(part)[: len(mean) - start] for part in found])
    log_probabilities, expected_entropy = (np.concatenate(part) for part in zip(*parts, strict=True))
    # by way of logarithms: the probability of a class that is ruled out can be too small for single precision
    probabilities = np.exp(log_probabilities.astype(np.float64))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    entropy = -np.sum(probabilities * np.log(np.maximum(probabilities, 1e-300)), axis=1)
    return ClassProbabilities(probabilities, entropy, np.maximum(entropy - expected_entropy, 0.0))


def _draws(law: ScaleLaw, outputs: int, seed: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    points = _points(outputs, seed, draws)
    return law.quantile(points[:, 0]).astype(np.float32), norm.ppf(points[:, 1:]).astype(np.float32)


@functools.lru_cache(maxsize=8)
def _points(outputs: int, seed: int, draws: int) -> np.ndarray:
    points = qmc.Sobol(outputs + 1, scramble=True, rng=np.random.default_rng(seed)).random(draws)
    return np.clip(points, 1e-9, 1 - 1e-9)


def _filled(part: np.ndarray, size: int) -> np.ndarray:
    missing = size - len(part)
    return part if not missing else np.concatenate([part, np.ones((missing, part.shape[1]), part.dtype)])


@jax.jit
def _integrate(mean: Any, variance: Any, scales: Any, table: Any) -> Any:
    f = mean[:, None] + jnp.sqrt(variance)[:, None] * (jnp.sqrt(scales)[:, None] * table)[None]
    if mean.shape[1] == 1:  # the logit of the second of two classes
        f = jnp.concatenate([jnp.zeros_like(f), f], axis=-1)
    log_p = jax.nn.log_softmax(f, axis=-1)
    expected_entropy = jnp.mean(-jnp.sum(jnp.exp(log_p) * log_p, axis=-1), axis=1)
    return jax.nn.logsumexp(log_p, axis=1) - math.log(log_p.shape[1]), expected_entropy
