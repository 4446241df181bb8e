"""What every law of the scale offers."""

import abc
from collections.abc import Callable
from typing import Any

import numpy as np

# An expected log likelihood as a function of the logarithms of scales, (nodes,) -> (nodes,).
Fit = Callable[[np.ndarray], np.ndarray]

LARGEST_STEP = 1.0  # of the logarithm, in one update: the fit is known near the current law only


class ScaleLaw(abc.ABC):
    """A law of the scale; immutable. `nodes` and `strata` are two ways to take expectations over it."""

    @property
    @abc.abstractmethod
    def mean_precision(self) -> float:
        """Expectation of one over the scale."""

    @property
    @abc.abstractmethod
    def log_range(self) -> tuple[float, float]:
        """Logarithms between which practically all of the probability lies."""

    @property
    @abc.abstractmethod
    def divergence(self) -> float:
        """KL divergence from the prior, in nats."""

    @abc.abstractmethod
    def nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Scales and probabilities, for smooth integrands to many digits."""

    @abc.abstractmethod
    def quantile(self, p: np.ndarray) -> np.ndarray:
        """Scales below which the law has probability p."""

    @abc.abstractmethod
    def improved(self, fit: Fit, quad: float) -> "ScaleLaw":
        """The law that maximises the bound, near the current one, when q(u given the scale) stays as it is.

        Args:
            fit: expected log likelihood of all rows at a scale, q(u given the scale) being N(mean, scale S).
            quad: squared length of the whitened means, all outputs together.
        """

    @abc.abstractmethod
    def facts(self) -> dict[str, Any]:
        """The numbers of the law, for a file; `law_for(prior, ...).restored(facts)` reads them."""

    @abc.abstractmethod
    def restored(self, facts: dict[str, Any]) -> "ScaleLaw":
        """This law with other numbers."""

    @abc.abstractmethod
    def held_at(self, scale: float) -> "ScaleLaw":
        """A law of the same family whose expectation of one over the scale is 1 / `scale`, and stays so.

        `improved` then maximises the bound among such laws: the data still say how wide the law is.
        """

    @abc.abstractmethod
    def scaled(self, factor: float) -> "ScaleLaw":
        """The law of `factor` times the scale; the same object where the scale is given or held."""

    # For gradients by differentiation.

    @abc.abstractmethod
    def coordinates(self) -> dict[str, Any]:
        """The numbers that are learned, without bounds; none where the law is held or given."""

    @abc.abstractmethod
    def at(self, coordinates: dict[str, Any]) -> "ScaleLaw":
        """The law of the same family with these numbers."""

    @abc.abstractmethod
    def terms(self, coordinates: dict[str, Any], dtype: Any) -> tuple[Any, Any, Any, Any]:
        """Scales, probabilities, expected precision and divergence, differentiable in the coordinates."""

    @property
    def tail_index(self) -> float:
        """Moments of the scale below this order are finite."""
        return float("inf")

    @property
    def log_limits(self) -> tuple[float, float]:
        """Logarithms between which the law can be held."""
        return -np.inf, np.inf

    def strata(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Scales of equal probability, one for each of `count` strata and for each draw of f."""
        return self.quantile((np.arange(count) + 0.5) / count), np.full(count, 1 / count)

    def objective(self, fit: Fit, quad: float) -> float:
        """What `improved` maximises: the part of the bound that depends on the law."""
        scales, weights = self.nodes()
        return float(weights @ fit(np.log(scales)) - 0.5 * self.mean_precision * quad - self.divergence)
