"""q(scale): the variational law of the readout variance, one for all outputs and all points of a draw.

A law for each kind of prior: a point for a `PointMass`, an inverse gamma for an `InverseGamma`, and for any other prior
a categorical on a grid of logarithms, on which every expectation over the scale is a finite sum.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize
import scipy.special

from widetail.checks import check_number
from widetail.files import savable
from widetail.priors import InverseGamma, PointMass, ScalePrior

# An expected log likelihood as a function of the logarithms of scales, (nodes,) -> (nodes,).
Fit = Callable[[np.ndarray], np.ndarray]

NODES = 32
GRID_STEP = 0.125  # of the logarithm
MOST_NODES = 20_000
LARGEST_STEP = 1.0  # of the logarithm, in one update: the fit is known near the current law only
WIDEST_TAIL = 80.0  # of the logarithm: single precision ends at 88
NEGLIGIBLE = 1e-9
PARTS_OF_STRATUM = 32  # over which the root of the scale is averaged


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
        """A law of the same family whose expectation of one over the scale is 1 / `scale`, now and in what comes of it.

        `improved` then maximises the bound among such laws: the data still say how wide the law is.
        """

    @abc.abstractmethod
    def scaled(self, factor: float) -> "ScaleLaw":
        """The law of `factor` times the scale; the same object where the scale is given or held."""

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


def law_for(prior: ScalePrior, *, learn: bool = True) -> ScaleLaw:
    """The family that goes with a prior, at the prior.

    Args:
        prior: of the scale.
        learn: whether the value of a `PointMass` is learned (empirical Bayes) rather than kept.
    """
    if np.ndim(getattr(prior, "a", getattr(prior, "v", 0.0))):
        raise ValueError("prior must be one law of one scale that all outputs share; got parameters that are arrays.")
    if isinstance(prior, PointMass):
        return PointScale(float(prior.v), learn)
    if isinstance(prior, InverseGamma):
        a, b = float(prior.a), float(prior.b)
        return InverseGammaScale(a, b, a, b)
    return GridScale.of(prior)


@savable("sparse.PointScale")
@dataclasses.dataclass(frozen=True)
class PointScale(ScaleLaw):
    """A known scale, or the one with the largest bound."""

    value: float
    learn: bool

    def __post_init__(self):
        check_number("value", self.value, positive=True)

    @property
    def mean_precision(self) -> float:
        return 1 / self.value

    @property
    def log_range(self) -> tuple[float, float]:
        return float(np.log(self.value)), float(np.log(self.value))

    @property
    def divergence(self) -> float:
        return 0.0

    def nodes(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array([self.value]), np.ones(1)

    def strata(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        return self.nodes()

    def quantile(self, p: np.ndarray) -> np.ndarray:
        return np.full(np.shape(p), self.value)

    def improved(self, fit: Fit, quad: float) -> "PointScale":
        if not self.learn:
            return self
        centre = np.log(self.value)

        def loss(t: float) -> float:
            return float(0.5 * quad * np.exp(-t) - fit(np.array([t]))[0])

        found: Any = scipy.optimize.minimize_scalar(
            loss, bounds=(centre - LARGEST_STEP, centre + LARGEST_STEP), method="bounded", options={"xatol": 1e-6}
        )
        return dataclasses.replace(self, value=float(np.exp(found.x)))

    def scaled(self, factor: float) -> "PointScale":
        return dataclasses.replace(self, value=self.value * factor) if self.learn else self

    def held_at(self, scale: float) -> "PointScale":
        return PointScale(float(scale), learn=False)

    def facts(self) -> dict[str, Any]:
        return {"value": self.value, "learn": self.learn}

    def restored(self, facts: dict[str, Any]) -> "PointScale":
        return PointScale(float(facts["value"]), bool(facts["learn"]))


@savable("sparse.InverseGammaScale")
@dataclasses.dataclass(frozen=True)
class InverseGammaScale(ScaleLaw):
    """InverseGamma(a, b), with a prior of the same family; `is_held` where b / a is not to change."""

    a: float
    b: float
    prior_a: float
    prior_b: float
    is_held: bool = False

    def __post_init__(self):
        for name in ("a", "b", "prior_a", "prior_b"):
            check_number(name, getattr(self, name), positive=True)

    @property
    def mean_precision(self) -> float:
        return self.a / self.b

    @property
    def tail_index(self) -> float:
        return self.a

    @property
    def log_range(self) -> tuple[float, float]:
        with np.errstate(divide="ignore"):  # the upper end of a law with almost no shape is beyond all numbers
            low, high = np.log(self.quantile(np.array([1e-9, 1 - 1e-9])))
        return float(low), float(min(high, np.log(self.b) + WIDEST_TAIL))

    @property
    def divergence(self) -> float:
        a, b, a0, b0 = self.a, self.b, self.prior_a, self.prior_b
        gammas = scipy.special.gammaln(a0) - scipy.special.gammaln(a)
        return float((a - a0) * scipy.special.digamma(a) + gammas + a0 * np.log(b / b0) + a * (b0 - b) / b)

    def nodes(self) -> tuple[np.ndarray, np.ndarray]:
        # the trapezoidal rule converges exponentially in the logarithm
        t = np.linspace(*self.log_range, NODES)
        x = np.log(self.b) - t
        log_density = self.a * x - np.exp(x)
        weights = np.exp(log_density - log_density.max())
        return np.exp(t), weights / weights.sum()

    def quantile(self, p: np.ndarray) -> np.ndarray:
        return self.b / scipy.special.gammainccinv(self.a, p)

    def strata(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Scales whose root is the expected one of their stratum: its middle forgets the tail, of 0.7 % in a bound."""
        power = min(0.5, 0.5 * self.a)  # of the scale; its expectation is finite
        edges = scipy.special.gammainccinv(self.a, np.linspace(0.0, 1.0, count + 1))
        below = scipy.special.gammaincc(self.a - power, edges)
        log_factor = scipy.special.gammaln(self.a - power) - scipy.special.gammaln(self.a)
        return self.b * (count * np.exp(log_factor) * np.diff(below)) ** (1 / power), np.full(count, 1 / count)

    def improved(self, fit: Fit, quad: float) -> "InverseGammaScale":
        start = np.log([self.a, self.b / self.a])

        def at(point: np.ndarray) -> InverseGammaScale:
            a, centre = np.exp(point)
            return dataclasses.replace(self, a=float(a), b=float(a * centre))

        found: Any = scipy.optimize.minimize(
            lambda point: -at(point).objective(fit, quad),
            start,
            method="L-BFGS-B",
            bounds=[
                # observations never make the tail heavier than that of the prior
                (max(start[0] - LARGEST_STEP, min(np.log(self.prior_a), start[0])), start[0] + LARGEST_STEP),
                (start[1], start[1]) if self.is_held else (start[1] - LARGEST_STEP, start[1] + LARGEST_STEP),
            ],
            options={"ftol": 1e-12, "gtol": 1e-9},
        )
        better = at(found.x)
        return better if better.objective(fit, quad) > self.objective(fit, quad) else self

    def scaled(self, factor: float) -> "InverseGammaScale":
        return self if self.is_held else dataclasses.replace(self, b=self.b * factor)

    def held_at(self, scale: float) -> "InverseGammaScale":
        return dataclasses.replace(self, b=self.a * float(scale), is_held=True)

    def facts(self) -> dict[str, Any]:
        return {"a": self.a, "b": self.b, "is_held": self.is_held}

    def restored(self, facts: dict[str, Any]) -> "InverseGammaScale":
        numbers = {name: float(facts[name]) for name in ("a", "b")}
        return dataclasses.replace(self, **numbers, is_held=bool(facts["is_held"]))


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
        """From a prior: far beyond its quantiles, as the data may be far out in its tails."""
        low, high = (float(np.log(prior.quantile(p))) for p in (1e-4, 1 - 1e-4))
        bounds = [None if end is None else float(end) for end in prior.log_bounds]
        low = low - 5.0 if bounds[0] is None else bounds[0] + 1e-6
        high = high + 10.0 if bounds[1] is None else bounds[1] - 1e-6
        count = max(int(np.ceil((high - low) / GRID_STEP)), 32) + 1
        if count > MOST_NODES:
            raise ValueError(f"prior must be narrower; its grid would have {count} nodes; got {prior!r}.")
        log_scales = np.linspace(low, high, count)
        log_density = np.asarray(prior.log_prob(np.exp(log_scales)), float) + log_scales
        log_prior = log_density - scipy.special.logsumexp(log_density)
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
        weights[near] = np.exp(log_weights - scipy.special.logsumexp(log_weights))
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
        """A bump of the logarithm at first; `improved` gives it its shape."""
        low, high = np.exp(self.log_limits)
        if not low < scale < high:
            raise ValueError(f"scale must lie within the grid of the prior, from {low:.3g} to {high:.3g}; got {scale}.")
        t = self.log_scales
        weights = np.exp(_tilted(-2.0 * (t - np.log(scale)) ** 2, t, 1 / float(scale)))
        return dataclasses.replace(self.with_weights(weights), is_held=True)

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
        return float(np.exp(weights - scipy.special.logsumexp(weights)) @ unit) - 1

    width = 1.0
    while excess(-width) > 0 or excess(width) < 0:
        width *= 4
        if width > 1e12:
            raise ValueError("the grid of the scale has no law with the expectation that is asked for")
    found: Any = scipy.optimize.brentq(excess, -width, width, xtol=1e-12)
    log_weights = log_weights + found * unit
    return log_weights - scipy.special.logsumexp(log_weights)


def _without_negligible(weights: np.ndarray) -> np.ndarray:
    """Probabilities without negligible ones, which would cost as much as the others."""
    kept = np.where(weights > NEGLIGIBLE, weights, 0.0)
    return kept / kept.sum()
