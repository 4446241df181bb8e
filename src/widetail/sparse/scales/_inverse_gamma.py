"""An inverse gamma, for a prior of the same family."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.special

from widetail.checks import check_number
from widetail.files import savable
from widetail.sparse.scales._base import LARGEST_STEP, Fit, ScaleLaw

NODES = 32
NODES_FOR_GRADIENTS = 16
WIDEST_TAIL = 80.0  # of the logarithm: single precision ends at 88


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
        """One scale for each stratum, whose root is the expected one: medians miss the tail, by 0.7 % of a bound."""
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

    def coordinates(self) -> dict[str, Any]:
        return {"log_a": np.log(self.a)} | ({} if self.is_held else {"log_b": np.log(self.b)})

    def at(self, coordinates: dict[str, Any]) -> "InverseGammaScale":
        a = float(np.exp(coordinates["log_a"]))
        b = a / self.mean_precision if self.is_held else float(np.exp(coordinates["log_b"]))
        return dataclasses.replace(self, a=a, b=b)

    def terms(self, coordinates: dict[str, Any], dtype: Any) -> tuple[Any, Any, Any, Any]:
        a = jnp.exp(coordinates["log_a"])
        b = a / self.mean_precision if self.is_held else jnp.exp(coordinates["log_b"])
        # only the weights of the nodes are differentiated
        width = 6 * jax.lax.rsqrt(jax.lax.stop_gradient(a))
        centre = jax.lax.stop_gradient(jnp.log(b / a))
        t = centre + jnp.linspace(-1.0, 1.0, NODES_FOR_GRADIENTS, dtype=dtype) * jnp.minimum(width, 8.0)
        weights = jax.nn.softmax(a * (jnp.log(b) - t) - jnp.exp(jnp.log(b) - t))
        a0, b0 = jnp.asarray(self.prior_a, dtype), jnp.asarray(self.prior_b, dtype)
        gammaln, digamma = jax.scipy.special.gammaln, jax.scipy.special.digamma
        divergence = (a - a0) * digamma(a) - gammaln(a) + gammaln(a0) + a0 * jnp.log(b / b0) + a * (b0 - b) / b
        return jnp.exp(t), weights, a / b, divergence

    def facts(self) -> dict[str, Any]:
        return {"a": self.a, "b": self.b, "is_held": self.is_held}

    def restored(self, facts: dict[str, Any]) -> "InverseGammaScale":
        numbers = {name: float(facts[name]) for name in ("a", "b")}
        return dataclasses.replace(self, **numbers, is_held=bool(facts["is_held"]))
