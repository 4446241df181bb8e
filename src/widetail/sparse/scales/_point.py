"""A scale that is known, or the one with the largest bound."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.optimize

from widetail.checks import check_number
from widetail.files import savable
from widetail.sparse.scales._base import LARGEST_STEP, Fit, ScaleLaw


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

    def coordinates(self) -> dict[str, Any]:
        return {"log_value": np.log(self.value)} if self.learn else {}

    def at(self, coordinates: dict[str, Any]) -> "PointScale":
        return PointScale(float(np.exp(coordinates["log_value"])), learn=True) if self.learn else self

    def terms(self, coordinates: dict[str, Any], dtype: Any) -> tuple[Any, Any, Any, Any]:
        scale = jnp.exp(coordinates["log_value"]) if self.learn else jnp.asarray(self.value, dtype)
        return scale[None], jnp.ones(1, dtype), 1 / scale, jnp.zeros((), dtype)

    def facts(self) -> dict[str, Any]:
        return {"value": self.value, "learn": self.learn}

    def restored(self, facts: dict[str, Any]) -> "PointScale":
        return PointScale(float(facts["value"]), bool(facts["learn"]))
