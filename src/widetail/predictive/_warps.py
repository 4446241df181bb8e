"""Increasing maps between a target and what a process has for its values."""

import dataclasses
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from widetail.files import savable


@runtime_checkable
class Warp(Protocol):
    """An increasing map of targets y to values z on the whole real line.

    Attributes:
        is_bounded: whether y stays between two numbers, so that it has all moments.
    """

    is_bounded: ClassVar[bool]

    def forward(self, y: Any) -> Any:
        """z of y; minus or plus infinity at the ends of what y can be, NaN outside."""
        ...

    def inverse(self, z: Any) -> Any:
        """y of z."""
        ...

    def log_slope(self, y: Any) -> Any:
        """The logarithm of dz / dy, the Jacobian of a density."""
        ...


@savable("predictive.PositiveWarp")
@dataclasses.dataclass(frozen=True)
class PositiveWarp:
    r"""Of positive targets: $y = u \log(1 + e^{z / u})$.

    A logarithm for $y$ far below the unit $u$ and nothing at all far above it: the larger the unit, the more of a
    logarithm. Tails upwards stay those of z, so that y has a mean where z has one.

    Attributes:
        unit: u, in units of y.

    Example:
        >>> from widetail import predictive
        >>> warp = predictive.PositiveWarp(unit=1.0)
        >>> round(float(warp.inverse(warp.forward(0.2))), 12), float(warp.inverse(-100.0)) > 0
        (0.2, True)
    """

    is_bounded: ClassVar[bool] = False
    unit: float

    def __post_init__(self):
        if not (np.isfinite(self.unit) and self.unit > 0):
            raise ValueError(f"unit must be a positive number; got {self.unit!r}.")

    def forward(self, y: Any) -> Any:
        y = np.asarray(y, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(y >= 0, y + self.unit * np.log(-np.expm1(-y / self.unit)), np.nan)

    def inverse(self, z: Any) -> Any:
        return self.unit * np.logaddexp(0.0, np.asarray(z, dtype=np.float64) / self.unit)

    def log_slope(self, y: Any) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            return -np.log(-np.expm1(-np.asarray(y, dtype=np.float64) / self.unit))


@savable("predictive.BoundedWarp")
@dataclasses.dataclass(frozen=True)
class BoundedWarp:
    r"""Of targets between two ends: $z = \log\frac{y - a}{b - y}$.

    Attributes:
        lower: a, which y never reaches.
        upper: b, neither.
    """

    is_bounded: ClassVar[bool] = True
    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self):
        if not self.lower < self.upper:
            raise ValueError(f"lower must be below upper; got {self.lower!r} and {self.upper!r}.")

    def forward(self, y: Any) -> Any:
        y = np.asarray(y, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(y - self.lower) - np.log(self.upper - y)

    def inverse(self, z: Any) -> Any:
        z = np.asarray(z, dtype=np.float64)
        return self.lower + (self.upper - self.lower) * np.exp(-np.logaddexp(0.0, -z))

    def log_slope(self, y: Any) -> Any:
        y = np.asarray(y, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(self.upper - self.lower) - np.log(y - self.lower) - np.log(self.upper - y)


@savable("predictive.BentWarp")
@dataclasses.dataclass(frozen=True)
class BentWarp:
    r"""Of targets that can be anything: $z = t \cosh b - \sqrt{1 + t^2} \sinh b$ with $t = (y - c) / u$.

    A hyperbola: slopes are $e^{-b}$ far above the centre and $e^b$ far below it. Small values are pulled apart and
    large ones pushed together where $b > 0$, the other way round where $b < 0$. Tails of y are those of z.

    Attributes:
        centre: c, in units of y.
        unit: u, in units of y: how far from the centre the map is bent.
        bend: b.

    Example:
        >>> from widetail import predictive
        >>> warp = predictive.BentWarp(centre=0.0, unit=1.0, bend=-0.5)
        >>> round(float(warp.inverse(warp.forward(-2.0))), 12)
        -2.0
    """

    is_bounded: ClassVar[bool] = False
    centre: float
    unit: float
    bend: float

    def __post_init__(self):
        if not (np.isfinite(self.centre) and np.isfinite(self.bend) and np.isfinite(self.unit) and self.unit > 0):
            raise ValueError(f"centre and bend must be finite, unit a positive number; got {self!r}.")

    def forward(self, y: Any) -> Any:
        return _hyperbola((np.asarray(y, dtype=np.float64) - self.centre) / self.unit, -self.bend)

    def inverse(self, z: Any) -> Any:
        return self.centre + self.unit * _hyperbola(np.asarray(z, dtype=np.float64), self.bend)

    def log_slope(self, y: Any) -> Any:
        t = (np.asarray(y, dtype=np.float64) - self.centre) / self.unit
        # (cosh b - tanh(s) sinh b) with t = sinh(s), which is cosh(s - b) / cosh(s): nothing cancels
        s = np.arcsinh(t)
        return np.logaddexp(s - self.bend, self.bend - s) - np.logaddexp(s, -s) - np.log(self.unit)


def _hyperbola(t: Any, bend: float) -> Any:
    """sinh(asinh t + b), with slopes exp(b) above and exp(-b) below."""
    return np.sinh(np.arcsinh(t) + bend)
