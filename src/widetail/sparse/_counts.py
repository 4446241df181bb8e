"""Predictive distributions of counts."""

from typing import Any

import jax
import numpy as np
import scipy.stats

from widetail.predictive import Predictive
from widetail.predictive._base import points_index


class CountMixture(Predictive):
    """Counts that are Poisson given a rate, for a mixture of rates; probabilities of counts are its `log_prob`.

    Args:
        weights: probabilities of the nodes, shape (J,).
        rates: shape (J, m) or (J, m, outputs).
    """

    weights: Any
    rates: Any

    def __init__(self, weights: Any, rates: Any):
        self.weights, self.rates = np.asarray(weights, float), np.asarray(rates, float)

    @property
    def event_shape(self) -> tuple[int, ...]:
        """See `Predictive`."""
        return self.rates.shape[1:]

    def __getitem__(self, index: Any) -> "CountMixture":
        """See `Predictive`."""
        return CountMixture(self.weights, self.rates[:, points_index(index, self.event_shape[0])])

    def _average(self, terms: Any) -> Any:
        return np.tensordot(self.weights, terms, 1)

    def _against(self, y: Any) -> Any:
        """Rates that broadcast with values of shape (*leading, *event)."""
        return self.rates.reshape((len(self.weights),) + (1,) * (y.ndim - len(self.event_shape)) + self.event_shape)

    def _mean(self) -> Any:
        return self._average(self.rates)

    def _var(self) -> Any:
        mean = self._mean()
        return mean + self._average((self.rates - mean) ** 2)

    def _log_prob(self, y: Any) -> Any:
        y = np.asarray(y)
        return np.log(np.maximum(self._average(scipy.stats.poisson.pmf(y, self._against(y))), 1e-300))

    def _cdf(self, y: Any) -> Any:
        y = np.asarray(y)
        return self._average(scipy.stats.poisson.cdf(y, self._against(y)))

    def _quantile(self, p: Any) -> Any:
        """The smallest count whose probability of not being exceeded is at least p, by bisection."""
        p = np.asarray(p).reshape(np.shape(p) + (1,) * len(self.event_shape))
        shape = np.broadcast_shapes(p.shape, self.event_shape)
        low = np.full(shape, -1.0)
        high = np.broadcast_to(scipy.stats.poisson.ppf(1 - 1e-12, self.rates.max(axis=0)) + 1.0, shape).copy()
        while np.any(high - low > 1):
            middle = np.floor(0.5 * (low + high))
            is_enough = self._cdf(middle) >= p
            low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
        return np.where(p >= 1, np.inf, high)

    def _crps(self, y: Any) -> Any:
        y = np.asarray(y)
        largest = int(max(np.max(y), np.max(self._quantile(np.asarray(1 - 1e-9))))) + 1
        score = np.zeros(y.shape)
        for count in range(largest + 1):
            score += (self._cdf(np.full(self.event_shape, float(count))) - (count >= y)) ** 2
        return score

    def _joint_log_prob(self, y: Any) -> Any:
        raise NotImplementedError("counts at several points have no joint density here; use log_prob, point by point.")

    def _draw(self, key: Any, shape: tuple[int, ...]) -> Any:
        """Independent from point to point: the joint law of the latent function is not kept."""
        node_key, count_key = jax.random.split(key)
        nodes = jax.random.categorical(
            node_key, np.log(np.maximum(self.weights, 1e-300)), shape=shape + self.event_shape
        )
        rates = np.take_along_axis(
            np.broadcast_to(self.rates.reshape((len(self.weights),) + (1,) * len(shape) + self.event_shape),
                            (len(self.weights), *shape, *self.event_shape)),
            np.asarray(nodes)[None], axis=0)[0]  # fmt: skip
        return np.asarray(jax.random.poisson(count_key, rates), float)
