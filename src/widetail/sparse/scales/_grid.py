"""Probabilities on a grid of logarithms, for priors of any kind: every expectation over the scale is a finite sum."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.special

from widetail.files import savable
from widetail.priors import ScalePrior
from widetail.sparse.scales._base import LARGEST_STEP, Fit, ScaleLaw

GRID_STEP = 0.125  # of the logarithm
MOST_NODES = 20_000
NEGLIGIBLE = 1e-9
PARTS_OF_STRATUM = 32  # over which the root of the scale is averaged


@savable("sparse.GridScale")
@dataclasses.dataclass(frozen=True, eq=False)
class GridScale(ScaleLaw):
    """Probabilities of the nodes of a uniform grid of logarithms, on which the prior is discretised too.

    Attributes:
        log_scales: the grid, shape (nodes,).
        log_prior: logs of the prior's probabilities.
        weights: probabilities.
        is_held: whether the expectation of one over the scale is not to change.
    """

    log_scales: np.ndarray
    log_prior: np.ndarray
    weights: np.ndarray
    is_held: bool = False

    def __post_init__(self):
        shape = self.log_scales.shape
        if len(shape) != 1 or shape[0] < 2 or self.log_prior.shape != shape or self.weights.shape != shape:
            raise ValueError("the law of the scale is of another grid")
        if not (np.all(self.weights >= 0) and abs(float(self.weights.sum()) - 1.0) < 1e-6):
            raise ValueError("weights must be probabilities that sum to one")

    def saved_fields(self) -> dict[str, Any]:
        """Numbers for a file, all of them finite: where the prior has no probability, so little that exp gives 0."""
        log_prior = np.maximum(self.log_prior, -1e4)
        return {"log_scales": self.log_scales, "log_prior": log_prior, "weights": self.weights, "is_held": self.is_held}

    @classmethod
    def from_saved(cls, fields: dict[str, Any]) -> "GridScale":
        """The law whose `saved_fields` these are."""
        if not np.all(np.diff(fields["log_scales"]) > 0):
            raise ValueError("the grid of the scale does not ascend")
        return cls(**fields)

    @classmethod
    def of(cls, prior: ScalePrior) -> "GridScale":
        """The grid for a prior, wider than its quantiles: data can move the scale far into its tails."""
        low, high = (float(np.log(prior.quantile(p))) for p in (1e-4, 1 - 1e-4))
        bounds = [None if end is None else float(end) for end in prior.log_bounds]
        low = low - 5.0 if bounds[0] is None else bounds[0] + 1e-6
        high = high + 10.0 if bounds[1] is None else bounds[1] - 1e-6
        count = max(int(np.ceil((high - low) / GRID_STEP)), 32) + 1
        if count > MOST_NODES:
            raise ValueError(f"prior must be narrower; its grid would have {count} nodes; got {prior!r}.")
        log_scales = np.linspace(low, high, count)
        log_density = np.asarray(prior.log_prob(np.exp(log_scales)), float) + log_scales
        log_prior = log_density - np.asarray(scipy.special.logsumexp(log_density))
        return cls(log_scales, log_prior, _without_negligible(np.exp(log_prior)))

    @property
    def mean_precision(self) -> float:
        return float(self.weights @ np.exp(-self.log_scales))

    @property
    def log_range(self) -> tuple[float, float]:
        kept = self.log_scales[self.weights > 0]
        return float(kept[0]), float(kept[-1])

    @property
    def divergence(self) -> float:
        some = self.weights > 0
        return float(self.weights[some] @ (np.log(self.weights[some]) - self.log_prior[some]))

    def nodes(self) -> tuple[np.ndarray, np.ndarray]:
        kept = self.weights > 0
        return np.exp(self.log_scales[kept]), self.weights[kept]

    def quantile(self, p: np.ndarray) -> np.ndarray:
        index = np.searchsorted(np.cumsum(self.weights), np.asarray(p) * self.weights.sum())
        return np.exp(self.log_scales[np.minimum(index, len(self.weights) - 1)])

    def strata(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Every node stands for the cell around it, so that strata move smoothly with the weights."""
        kept = np.flatnonzero(self.weights)
        step = self.log_scales[1] - self.log_scales[0]
        edges = np.append(self.log_scales[kept] - step / 2, self.log_scales[kept[-1]] + step / 2)
        middles = (np.arange(count * PARTS_OF_STRATUM) + 0.5) / (count * PARTS_OF_STRATUM)
        roots = np.exp(0.5 * np.interp(middles, np.append(0.0, np.cumsum(self.weights[kept])), edges))
        return roots.reshape(count, -1).mean(axis=1) ** 2, np.full(count, 1 / count)

    def improved(self, fit: Fit, quad: float) -> "GridScale":
        low, high = self.log_range
        near = (self.log_scales >= low - LARGEST_STEP) & (self.log_scales <= high + LARGEST_STEP)
        t = self.log_scales[near]
        log_weights = self.log_prior[near] + fit(t) - 0.5 * quad * np.exp(-t)
        if self.is_held:
            log_weights = _tilted(log_weights, t, self.mean_precision)
        weights = np.zeros_like(self.weights)
        weights[near] = np.exp(log_weights - np.asarray(scipy.special.logsumexp(log_weights)))
        return self.with_weights(weights)

    def with_weights(self, weights: np.ndarray) -> "GridScale":
        """The same grid with other probabilities, without those that no sum would notice."""
        return dataclasses.replace(self, weights=_without_negligible(weights))

    @property
    def log_limits(self) -> tuple[float, float]:
        # as far inside of the grid as a law has width
        return float(self.log_scales[0]) + LARGEST_STEP, float(self.log_scales[-1]) - LARGEST_STEP

    def scaled(self, factor: float) -> "GridScale":
        """Between nodes by interpolation; no farther than the grid goes."""
        if self.is_held:
            return self
        t, (low, high) = self.log_scales, self.log_range
        shift = np.clip(np.log(factor), t[0] - low, t[-1] - high)
        return self.with_weights(np.interp(t - shift, t, self.weights, left=0.0, right=0.0))

    def held_at(self, scale: float) -> "GridScale":
        """At first a narrow bell around the logarithm of `scale`; `improved` gives it the shape that fits the data."""
        low, high = np.exp(self.log_limits)
        if not low < scale < high:
            raise ValueError(f"scale must lie within the grid of the prior, from {low:.3g} to {high:.3g}; got {scale}.")
        t = self.log_scales
        weights = np.exp(_tilted(-2.0 * (t - np.log(scale)) ** 2, t, 1 / float(scale)))
        return dataclasses.replace(self.with_weights(weights), is_held=True)

    def coordinates(self) -> dict[str, Any]:
        return {} if self.is_held else {"logits": self._logits()}

    def at(self, coordinates: dict[str, Any]) -> "GridScale":
        if self.is_held:
            return self
        logits = coordinates["logits"] - np.max(coordinates["logits"])
        return self.with_weights(np.exp(logits) / np.sum(np.exp(logits)))

    def terms(self, coordinates: dict[str, Any], dtype: Any) -> tuple[Any, Any, Any, Any]:
        scales = jnp.asarray(np.exp(self.log_scales), dtype)
        # a law that is held keeps its weights: their constraint has no simple coordinates
        log_weights = jax.nn.log_softmax(jnp.asarray(coordinates.get("logits", self._logits()), dtype))
        weights = jnp.exp(log_weights)
        divergence = jnp.sum(weights * (log_weights - jnp.asarray(np.maximum(self.log_prior, -1e4), dtype)))
        return scales, weights, jnp.sum(weights / scales), divergence

    def _logits(self) -> np.ndarray:
        return np.log(np.maximum(self.weights, 1e-30))

    def facts(self) -> dict[str, Any]:
        return {"weights": self.weights.tolist(), "is_held": self.is_held}

    def restored(self, facts: dict[str, Any]) -> "GridScale":
        weights = np.asarray(facts["weights"], float)
        if weights.shape != self.weights.shape:
            raise ValueError("the law of the scale is of another grid")
        return dataclasses.replace(self, weights=weights, is_held=bool(facts["is_held"]))


def _tilted(log_weights: np.ndarray, t: np.ndarray, mean_precision: float) -> np.ndarray:
    """Log weights with a multiple of exp(-t) added, so that exp(-t) has this expectation: the nearest such law."""
    unit = np.exp(-t) / mean_precision  # its expectation is to be 1

    def excess(multiple: float) -> float:
        weights = log_weights + multiple * unit
        return float(np.exp(weights - np.asarray(scipy.special.logsumexp(weights))) @ unit) - 1

    width = 1.0
    while excess(-width) > 0 or excess(width) < 0:
        width *= 4
        if width > 1e12:
            raise ValueError("the grid of the scale has no law with the expectation that is asked for")
    found: Any = scipy.optimize.brentq(excess, -width, width, xtol=1e-12)
    log_weights = log_weights + found * unit
    return log_weights - np.asarray(scipy.special.logsumexp(log_weights))


def _without_negligible(weights: np.ndarray) -> np.ndarray:
    """Probabilities without negligible ones, which would cost as much as the others."""
    kept = np.where(weights > NEGLIGIBLE, weights, 0.0)
    return kept / kept.sum()
