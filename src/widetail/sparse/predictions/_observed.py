"""Predictive distributions of targets, for any likelihood."""

import math
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm, qmc

from widetail.predictive import Predictive
from widetail.sparse.predictions._latent import Latent

if TYPE_CHECKING:
    from widetail.sparse.likelihoods._base import Likelihood

DRAWS = 4096
VALUES_AT_ONCE = 1024


class Observed(Predictive):
    """Targets given latent values: marginals from another distribution, joint draws through the latent values.

    Args:
        latent: the posterior of the latent values.
        likelihood: of the targets given them.
        marginal: the distribution of each target by itself.
    """

    latent: Latent = eqx.field(static=True)
    likelihood: "Likelihood"
    marginal: Predictive

    @property
    def event_shape(self) -> tuple[int, ...]:
        """Points, and outputs where y has an axis of them."""
        return self.marginal.event_shape

    def __getitem__(self, index: Any) -> "Observed":
        """The same for some of the points."""
        return Observed(self.latent[index], self.likelihood, self.marginal[index])

    def _mean(self) -> Any:
        return self.marginal._mean()

    def _var(self) -> Any:
        return self.marginal._var()

    def _log_prob(self, y: Any) -> Any:
        return self.marginal._log_prob(y)

    def _cdf(self, y: Any) -> Any:
        return self.marginal._cdf(y)

    def _quantile(self, p: Any) -> Any:
        return self.marginal._quantile(p)

    def _crps(self, y: Any) -> Any:
        return self.marginal._crps(y)

    def _joint_log_prob(self, y: Any) -> Any:
        if math.prod(self.event_shape) > 1:
            raise ValueError(
                f"joint_log_prob of {type(self.likelihood).__name__} targets of shape {self.event_shape} is an "
                f"integral over all latent values together that is not computed; use log_prob, which is of each target "
                f"by itself, or sample, which is joint."
            )
        return np.sum(self.marginal._log_prob(y), axis=tuple(range(-len(self.event_shape), 0)))

    def _draw(self, key: Any, shape: tuple[int, ...]) -> Any:
        latent_key, target_key = jax.random.split(key)
        scales, f = self.latent.draw(latent_key, shape)
        return _targets(self.likelihood, self.latent, target_key, scales, f)


class Integrated(Predictive):
    """Each target by itself, for a likelihood of which only `log_prob` and `sample` are known.

    `log_prob` is by quadrature over latent value and scale; the mean, the variance, quantiles and everything else are
    those of 4096 draws: good to a few per cent of a standard deviation, and without news of infinite moments.
    """

    latent: Latent = eqx.field(static=True)
    likelihood: "Likelihood"
    draws: Any

    def __init__(self, latent: Latent, likelihood: "Likelihood", draws: Any = None):
        self.latent, self.likelihood = latent, likelihood
        self.draws = _marginal_draws(latent, likelihood) if draws is None else draws

    @property
    def event_shape(self) -> tuple[int, ...]:
        """Points, and outputs where y has an axis of them."""
        return self.draws.shape[1:]

    def __getitem__(self, index: Any) -> "Integrated":
        """The same for some of the points."""
        numbers = np.arange(len(self.latent.mean))[index]
        return Integrated(self.latent[index], self.likelihood, self.draws[:, np.atleast_1d(numbers)])

    def _mean(self) -> Any:
        return self.draws.mean(axis=0)

    def _var(self) -> Any:
        return self.draws.var(axis=0)

    def _log_prob(self, y: Any) -> Any:
        y = np.asarray(y, np.float64)
        latent, leading = self.latent, y.shape[: y.ndim - len(self.event_shape)]
        repeats = math.prod(leading)
        if self.likelihood.couples_outputs:
            # one target for every point, of all latent values there
            mean, variance = (np.tile(part, (repeats, 1)) for part in (latent.mean, latent.variance))
            targets = y.reshape(repeats * len(latent.mean), *y.shape[len(leading) + 1 :])
            is_whole = targets.ndim == 1 and np.all(targets == np.floor(targets))
            targets = targets.astype(np.int32) if is_whole else targets
        else:
            mean, variance = (np.tile(part.reshape(-1, 1), (repeats, 1)) for part in (latent.mean, latent.variance))
            targets = y.reshape(-1, 1)
        found = []
        for start in range(0, len(targets), VALUES_AT_ONCE):
            here = slice(start, start + VALUES_AT_ONCE)
            parts = mean[here], variance[here], targets[here]
            found.append(np.asarray(_log_predictive(self.likelihood, *parts, latent.scales, latent.weights)))
        return np.concatenate(found).reshape(y.shape)

    def _joint_log_prob(self, y: Any) -> Any:
        return Observed(self.latent, self.likelihood, self)._joint_log_prob(y)

    def _draw(self, key: Any, shape: tuple[int, ...]) -> Any:
        return Observed(self.latent, self.likelihood, self)._draw(key, shape)

    def _cdf(self, y: Any) -> Any:
        y = np.asarray(y)
        return np.mean(_behind(self.draws, y) <= y, axis=0)

    def _quantile(self, p: Any) -> Any:
        return np.quantile(self.draws, np.asarray(p), axis=0)

    def _crps(self, y: Any) -> Any:
        y = np.asarray(y)
        ordered = np.sort(self.draws, axis=0)
        count = len(ordered)
        ranks = (2 * np.arange(1, count + 1) - count - 1).reshape((-1,) + (1,) * (ordered.ndim - 1))
        half_mean_difference = np.sum(ranks * ordered, axis=0) / count**2
        return np.mean(np.abs(_behind(self.draws, y) - y), axis=0) - half_mean_difference


def _behind(draws: np.ndarray, y: np.ndarray) -> np.ndarray:
    return draws.reshape((len(draws),) + (1,) * (y.ndim - draws.ndim + 1) + draws.shape[1:])


def _log_predictive(likelihood: "Likelihood", mean: Any, variance: Any, y: Any, scales: Any, weights: Any) -> Any:
    draws = np.zeros((len(scales), len(mean), 1, mean.shape[1]))
    if likelihood.couples_outputs:
        count = max(1, 1024 // len(scales))
        points = qmc.Sobol(mean.shape[1], scramble=True, rng=np.random.default_rng(0)).random(len(scales) * count)
        table = norm.ppf(np.clip(points, 1e-9, 1 - 1e-9)).reshape(len(scales), 1, count, -1)
        draws = np.broadcast_to(table, (len(scales), len(mean), count, mean.shape[1]))
    with jax.enable_x64(True):
        return _compiled(likelihood, *(jnp.asarray(part) for part in (mean, variance, y, scales, weights, draws)))


@jax.jit
def _compiled(likelihood: "Likelihood", *parts: Any) -> Any:
    return likelihood.log_predictive(*parts)


def _marginal_draws(latent: Latent, likelihood: "Likelihood") -> np.ndarray:
    """Draws of every target, the same numbers behind those of all points."""
    outputs = latent.mean.shape[1]
    points = qmc.Sobol(outputs + 1, scramble=True, rng=np.random.default_rng(0)).random(DRAWS)
    node = np.minimum(np.searchsorted(np.cumsum(latent.weights), points[:, 0]), len(latent.scales) - 1)
    scales = latent.scales[node]
    z = norm.ppf(np.clip(points[:, 1:], 1e-9, 1 - 1e-9))[:, None]
    f = latent.mean + np.sqrt(scales[:, None, None] * latent.variance) * z
    return _targets(likelihood, latent, jax.random.key(0), scales, f)


def _targets(likelihood: "Likelihood", latent: Latent, key: Any, scales: np.ndarray, f: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        drawn = likelihood.sample(key, jnp.asarray(f), jnp.asarray(scales)[..., None, None])
        drawn = np.asarray(drawn, np.float64)
    return drawn if likelihood.couples_outputs else latent.as_targets(drawn)
