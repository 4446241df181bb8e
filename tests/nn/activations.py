"""Every activation with the same function and derivative in NumPy, written independently."""

from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.special

from widetail import nn

sigmoid = scipy.special.expit
normal_cdf = scipy.special.ndtr


class Sample(NamedTuple):
    layer: Any
    function: Any
    derivative: Any


def normal_pdf(x):
    return np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)


def _silu_derivative(x):
    s = sigmoid(x)
    return s + x * s * (1 - s)


def _cubic_derivative(x):
    return -1 + 0.4 * x + 0.3 * x**2


CLOSED_FORMS = [
    Sample(nn.Relu(), lambda x: np.maximum(x, 0), lambda x: 1.0 * (x > 0)),
    Sample(nn.LeakyRelu(0.2), lambda x: np.where(x > 0, x, 0.2 * x), lambda x: np.where(x > 0, 1.0, 0.2)),
    Sample(nn.Abs(), np.abs, np.sign),
    Sample(nn.Sign(), np.sign, np.zeros_like),
    Sample(nn.Erf(), scipy.special.erf, lambda x: 2 / np.sqrt(np.pi) * np.exp(-(x**2))),
    Sample(nn.Gelu(), lambda x: x * normal_cdf(x), lambda x: normal_cdf(x) + x * normal_pdf(x)),
    Sample(nn.Sin(), np.sin, np.cos),
    Sample(nn.Sin(frequency=0.7, phase=0.4), lambda x: np.sin(0.7 * x + 0.4), lambda x: 0.7 * np.cos(0.7 * x + 0.4)),
    Sample(nn.Cos(frequency=1.3), lambda x: np.cos(1.3 * x), lambda x: -1.3 * np.sin(1.3 * x)),
    Sample(nn.Exp(), np.exp, np.exp),
    Sample(
        nn.Rbf(gamma=0.6),
        lambda x: np.sqrt(2) * np.sin(np.sqrt(1.2) * x + np.pi / 4),
        lambda x: np.sqrt(2.4) * np.cos(np.sqrt(1.2) * x + np.pi / 4),
    ),
    Sample(nn.ABRelu(0.3, -1.2), lambda x: np.where(x > 0, -1.2 * x, 0.3 * x), lambda x: np.where(x > 0, -1.2, 0.3)),
    Sample(nn.RectifiedMonomial(0), lambda x: 1.0 * (x > 0), np.zeros_like),
    Sample(nn.RectifiedMonomial(2), lambda x: np.maximum(x, 0) ** 2, lambda x: 2 * np.maximum(x, 0)),
    Sample(nn.RectifiedMonomial(5), lambda x: np.maximum(x, 0) ** 5, lambda x: 5 * np.maximum(x, 0) ** 4),
    Sample(nn.Monomial(0), np.ones_like, np.zeros_like),
    Sample(nn.Monomial(3), lambda x: x**3, lambda x: 3 * x**2),
    Sample(nn.Hermite(4), lambda x: (x**4 - 6 * x**2 + 3) / np.sqrt(24), lambda x: (4 * x**3 - 12 * x) / np.sqrt(24)),
    Sample(nn.Polynomial([0.5, -1.0, 0.2, 0.1]), lambda x: 0.5 - x + 0.2 * x**2 + 0.1 * x**3, _cubic_derivative),
    Sample(nn.Gaussian(0.7), lambda x: np.exp(-0.7 * x**2), lambda x: -1.4 * x * np.exp(-0.7 * x**2)),
    Sample(
        nn.Gabor(), lambda x: np.exp(-(x**2)) * np.sin(x), lambda x: np.exp(-(x**2)) * (np.cos(x) - 2 * x * np.sin(x))
    ),
    Sample(
        nn.SigmoidLike(),
        lambda x: 0.5 + 0.5 * scipy.special.erf(x / 2.4020563531719796),
        lambda x: np.exp(-((x / 2.4020563531719796) ** 2)) / np.sqrt(np.pi) / 2.4020563531719796,
    ),
]

BY_QUADRATURE = [
    Sample(nn.Tanh(), np.tanh, lambda x: 1 / np.cosh(x) ** 2),
    Sample(nn.Sigmoid(), sigmoid, lambda x: sigmoid(x) * sigmoid(-x)),
    Sample(nn.Elementwise(jax.nn.silu), lambda x: x * sigmoid(x), _silu_derivative),
    Sample(nn.Elementwise(jax.nn.softplus), lambda x: np.logaddexp(0, x), sigmoid),
]
