"""Class probabilities from regression on one-hot targets."""

from typing import Any

import numpy as np
import scipy.optimize
from scipy.special import log_ndtr, logsumexp, softmax

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
LOG_WEIGHTS = np.log(WEIGHTS / WEIGHTS.sum())


def probability_of_largest(location: np.ndarray, std: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
    r"""The probability that each output is the largest, for normal outputs given a shared scale.

    $\sum_j w_j \int \prod_{k \ne c} \Phi(z + (m_c - m_k) / s_j)\, \phi(z)\, dz$, by Gauss-Hermite quadrature in z.

    Args:
        location: means, shape (m, classes).
        std: standard deviation of every output, one per node of the scale: shape (nodes, m).
        log_weights: log weights of the nodes, shape (nodes,).
    """
    gaps = location[:, :, None] - location[:, None, :]  # (m, c, k)
    parts = []
    for node_std, log_weight in zip(std, log_weights, strict=True):
        scaled = gaps / node_std[:, None, None]
        below = log_ndtr(scaled[..., None] + NODES)  # (m, c, k, z); k = c gives the factor to leave out
        total = below.sum(axis=2) - log_ndtr(NODES)
        parts.append(log_weight + logsumexp(total + LOG_WEIGHTS, axis=-1))
    log_p = np.asarray(logsumexp(np.stack(parts), axis=0))
    return np.exp(log_p - np.asarray(logsumexp(log_p, axis=1, keepdims=True)))


def best_temperature(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """The factor of the scores that makes their softmax most likely for held-out labels.

    Those and the label of one more row, which is any class with the same probability: where all held-out labels have
    the largest score, the next one has it with a probability of about `1 - 1 / n`, and not with certainty.

    Args:
        scores: of held-out rows, shape (n, classes).
        labels: class numbers, shape (n,).
        weights: how often each row was observed, shape (n,).
    """
    chosen = scores[np.arange(len(labels)), labels]
    any_class = np.mean(scores, axis=1)
    share = weights / np.sum(weights)  # the row more is the average of all rows

    def slope(log_factor: float) -> float:
        """Derivative of the loss, which is convex in the factor, up to a positive factor."""
        expected = np.sum(softmax(np.exp(log_factor) * scores, axis=1) * scores, axis=1)
        return float(weights @ (expected - chosen) + share @ (expected - any_class))

    low, high = -3.0, 6.0
    if slope(high) < 0:
        return float(np.exp(high))
    if slope(low) > 0:
        return float(np.exp(low))
    root: Any = scipy.optimize.brentq(slope, low, high, xtol=1e-13)
    return float(np.exp(root))
