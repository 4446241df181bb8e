"""Predictive distributions of counts."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from scipy.special import logsumexp

from widetail.predictive import Predictive, points_index


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
        """Points, and outputs where y has an axis of them."""
        return self.rates.shape[1:]

    def __getitem__(self, index: Any) -> "CountMixture":
        """The same for some of the points."""
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
        weights = self.weights.reshape((-1,) + (1,) * y.ndim)
        return logsumexp(scipy.stats.poisson.logpmf(y, self._against(y)), b=weights, axis=0)

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
        self._check_single()
        return np.sum(self._log_prob(y), axis=tuple(range(-len(self.event_shape), 0)))

    def _draw(self, key: Any, shape: tuple[int, ...]) -> Any:
        self._check_single()
        node_key, count_key = jax.random.split(key)
        nodes = jax.random.choice(node_key, len(self.weights), shape, p=jnp.asarray(self.weights))
        return np.asarray(jax.random.poisson(count_key, self.rates[np.asarray(nodes)]), float)

    def _check_single(self) -> None:
        """Rates are kept value by value: how those of two values go together is not known here."""
        if math.prod(self.event_shape) > 1:
            raise ValueError(
                f"joint_log_prob and sample are joint over all values, and the joint law of counts of shape "
                f"{self.event_shape} is not kept; use log_prob, or take one value, dist[i]."
            )
