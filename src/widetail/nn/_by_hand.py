r"""Plain networks on vectors in NumPy: chains of Dense with Erf or Relu, and Dense with Rbf.

The derivative of the loss in a covariance $k_{12}$ goes back from layer to layer; what every pair says of the variance
of a row is added up and goes back beside it.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from widetail.kernels import ByHand
from widetail.nn._base import Layer
from widetail.nn.activations._rectifiers import Relu
from widetail.nn.activations._smooth import Erf
from widetail.nn.activations._waves import Rbf
from widetail.nn.layers._linear import Dense


def chain_by_hand(layers: tuple[Layer, ...]) -> ByHand | None:
    """The chain in NumPy, or None for one that has other layers."""
    pairs = list(zip(layers[::2], layers[1::2], strict=False))
    if len(layers) % 2 or not all(type(first) is Dense for first, _ in pairs):
        return None
    dense = [(np.asarray(layer.weight_var, float), float(np.asarray(layer.bias_var))) for layer, _ in pairs]  # type: ignore[attr-defined]
    if [type(second) for _, second in pairs] == [Rbf]:
        return GaussianByHand(dense[0][0], float(np.asarray(pairs[0][1].gamma)))  # type: ignore[attr-defined]
    if all(type(second) in DUALS for _, second in pairs) and all(weight.ndim == 0 for weight, _ in dense[1:]):
        return ChainByHand(dense, [DUALS[type(second)] for _, second in pairs])
    return None


# Beyond, the engine takes half of the time that NumPy does, and saves more than compiling takes.
MOST_PAIRS = 1000 * 1000


class GaussianByHand(ByHand):
    """Dense, then Rbf: the Gaussian kernel of the inputs.

    Args:
        weight_var: of the Dense layer, one per feature or one for all.
        gamma: of the activation.
    """

    most_pairs = MOST_PAIRS

    def __init__(self, weight_var: np.ndarray, gamma: float):
        self.weight_var, self.gamma = weight_var, gamma

    def side(self, x: np.ndarray) -> np.ndarray:
        """The inputs in units in which the exponent is a squared distance; one feature a row."""
        return np.ascontiguousarray((x * np.sqrt(self.gamma * self.weight_var / x.shape[1])).T)

    def diagonal(self, side: np.ndarray) -> np.ndarray:
        """Ones."""
        return np.ones(side.shape[1])

    def values(self, side1: np.ndarray, side2: np.ndarray) -> np.ndarray:
        """Exponentials of squared distances."""
        return np.exp(-np.sum(_squares(side1, side2), axis=0))

    def gradient(self, side1: np.ndarray, side2: np.ndarray, weights: np.ndarray) -> list[Any]:
        """Derivatives in the variances of the weights and of the bias, and in gamma."""
        squares = _squares(side1, side2)
        weighted = weights * np.exp(-np.sum(squares, axis=0))
        by_feature = -(squares.reshape(len(squares), -1) @ weighted.ravel())
        by_weight = by_feature / self.weight_var
        return [by_weight if self.weight_var.ndim else np.sum(by_weight), 0.0, np.sum(by_feature) / self.gamma]


def _squares(side1: np.ndarray, side2: np.ndarray) -> np.ndarray:
    apart = side1[:, :, None] - side2[:, None]
    return np.multiply(apart, apart, out=apart)


class Side(NamedTuple):
    """Rows on their way through a chain.

    Attributes:
        inputs: in units in which their products are the first covariance, shape (n, d).
        variances: before each activation, and at last of the output, shape (n,) each.
        statistics: per-row numbers of each activation.
    """

    inputs: np.ndarray
    variances: list[np.ndarray]
    statistics: list[Any]


class Dual(NamedTuple):
    """An activation in NumPy.

    Attributes:
        statistics: of variances: what pairs want to know of a row.
        at_equal: the dual of a row with itself, from its variance.
        slope_at_equal: the derivative of that.
        value: the dual, of covariance and statistics of both sides.
        back: derivatives of a loss in the covariance, shape (n1, n2), and in the variances of both sides, from that in
            the dual.
    """

    statistics: Callable[[np.ndarray], Any]
    at_equal: Callable[[np.ndarray], np.ndarray]
    slope_at_equal: Callable[[np.ndarray], np.ndarray]
    value: Callable[[np.ndarray, Any, Any], np.ndarray]
    back: Callable[[np.ndarray, Any, Any, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]


class ChainByHand(ByHand):
    """Dense and an activation, any number of times.

    Args:
        dense: variances of weights and of biases, layer by layer; the first may have a weight variance per feature.
        duals: of the activations.
    """

    most_pairs = MOST_PAIRS

    def __init__(self, dense: list[tuple[np.ndarray, float]], duals: list[Dual]):
        self.dense, self.duals = dense, duals

    def side(self, x: np.ndarray) -> Side:
        """Each row with itself, layer by layer."""
        inputs = x * np.sqrt(self.dense[0][0] / x.shape[1])
        variance = np.einsum("nd,nd->n", inputs, inputs) + self.dense[0][1]
        variances, statistics = [], []
        for number, dual in enumerate(self.duals):
            if number:
                weight, bias = self.dense[number]
                variance = weight * variance + bias
            variances.append(variance)
            statistics.append(dual.statistics(variance))
            variance = dual.at_equal(variance)
        return Side(inputs, [*variances, variance], statistics)

    def diagonal(self, side: Side) -> np.ndarray:
        """The variance of the output."""
        return side.variances[-1]

    def values(self, side1: Side, side2: Side) -> np.ndarray:
        """Every pair, layer by layer."""
        return self._forward(side1, side2)[-1]

    def gradient(self, side1: Side, side2: Side, weights: np.ndarray) -> list[Any]:
        """Derivatives in the variances of weights and biases."""
        before = self._forward(side1, side2)  # covariances before each activation
        rows1, rows2 = np.zeros(weights.shape[0]), np.zeros(weights.shape[1])
        found: list[Any] = []
        for number in reversed(range(len(self.duals))):
            dual = self.duals[number]
            weights, own1, own2 = dual.back(before[number], side1.statistics[number], side2.statistics[number], weights)
            rows1 = rows1 * dual.slope_at_equal(side1.variances[number]) + own1
            rows2 = rows2 * dual.slope_at_equal(side2.variances[number]) + own2
            weight, bias = self.dense[number]
            of_bias = float(np.sum(weights) + np.sum(rows1) + np.sum(rows2))
            if number:  # the covariance before was weight * k + bias
                pairs = (before[number] - bias, weights)
                sides = ((side.variances[number] - bias, rows) for side, rows in ((side1, rows1), (side2, rows2)))
                of_weight: Any = sum(float(np.vdot(k, g)) for k, g in (pairs, *sides)) / float(weight)
                weights, rows1, rows2 = weights * weight, rows1 * weight, rows2 * weight
            else:
                x1, x2 = side1.inputs, side2.inputs
                by_feature = np.einsum("nd,nd->d", x1, weights @ x2) + rows1 @ x1**2 + rows2 @ x2**2
                of_weight = by_feature / weight if weight.ndim else float(np.sum(by_feature) / weight)
            found = [of_weight, of_bias, *found]
        return found

    def _forward(self, side1: Side, side2: Side) -> list[np.ndarray]:
        """Covariances before each activation, and at last of the output."""
        k = side1.inputs @ side2.inputs.T
        k += self.dense[0][1]
        found = []
        for number, dual in enumerate(self.duals):
            if number:
                weight, bias = self.dense[number]
                k = weight * k + bias
            found.append(k)
            k = dual.value(k, side1.statistics[number], side2.statistics[number])
        return [*found, k]


def _erf_statistics(variance: np.ndarray) -> np.ndarray:
    return math.sqrt(2) / np.sqrt(1 + 2 * variance)


def _erf_back(k: np.ndarray, first: np.ndarray, second: np.ndarray, weights: np.ndarray) -> Any:
    scale = first[:, None] * second
    c = k * scale
    # its square is at most (1 - first^2 / 2)(1 - second^2 / 2), a bound that rounding breaks where variances are huge
    rest = np.maximum(1 - c * c, 0.5 * np.maximum(first[:, None], second) ** 2)
    weights = (2 / math.pi) * weights / np.sqrt(rest)
    c *= weights
    return weights * scale, -0.5 * first**2 * np.sum(c, axis=1), -0.5 * second**2 * np.sum(c, axis=0)


def _relu_statistics(variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    norm = np.sqrt(variance)
    return norm, np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)


def _relu_value(k: np.ndarray, first: Any, second: Any) -> np.ndarray:
    (norm1, inverse1), (norm2, inverse2) = first, second
    c = np.clip(k * (inverse1[:, None] * inverse2), -1.0, 1.0)
    ramp = np.sqrt((1 - c) * (1 + c)) + (math.pi - np.arccos(c)) * c
    return ramp * (norm1[:, None] * (norm2 / (2 * math.pi)))


def _relu_back(k: np.ndarray, first: Any, second: Any, weights: np.ndarray) -> Any:
    (norm1, inverse1), (norm2, inverse2) = first, second
    c = np.clip(k * (inverse1[:, None] * inverse2), -1.0, 1.0)
    sines = weights * np.sqrt((1 - c) * (1 + c)) / (4 * math.pi)
    of_pairs = weights * (math.pi - np.arccos(c)) / (2 * math.pi)
    return of_pairs, inverse1 * (sines @ norm2), inverse2 * (norm1 @ sines)


DUALS: dict[type, Dual] = {
    Erf: Dual(
        _erf_statistics,
        lambda variance: (2 / math.pi) * np.arcsin(2 * variance / (1 + 2 * variance)),
        lambda variance: (4 / math.pi) / ((1 + 2 * variance) * np.sqrt(1 + 4 * variance)),
        lambda k, first, second: (2 / math.pi) * np.arcsin(np.clip(k * (first[:, None] * second), -1.0, 1.0)),
        _erf_back,
    ),
    Relu: Dual(
        _relu_statistics,
        lambda variance: 0.5 * variance,
        lambda variance: np.full_like(variance, 0.5),
        _relu_value,
        _relu_back,
    ),
}
