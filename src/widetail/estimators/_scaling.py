"""Standardising inputs and targets, at any magnitude."""

import dataclasses

import numpy as np
import scipy.special

from widetail.files import savable

QUARTILES_APART = 2 * float(scipy.special.ndtri(0.75))  # of a normal law, in standard deviations


@savable("estimators.Scaling")
@dataclasses.dataclass(frozen=True)
class Scaling:
    """Column-wise shift and factor: `(values - shift) / factor`.

    Attributes:
        shift: weighted mean of each column, or its median.
        factor: weighted standard deviation, or what the quartiles say of it; 1 for a constant column.
    """

    shift: np.ndarray
    factor: np.ndarray

    def __post_init__(self):
        if self.shift.ndim != 1 or self.shift.shape != self.factor.shape or not np.all(self.factor > 0):
            raise ValueError(f"a scaling needs a positive factor for every shift; got {self.shift} and {self.factor}.")

    @classmethod
    def of(cls, values: np.ndarray, weights: np.ndarray | None = None) -> "Scaling":
        """From data of shape (n, columns). Squares of values like 1e300 or 1e-300 do not overflow or vanish."""
        largest = np.max(np.abs(values), axis=0)
        unit = np.where(largest > 0, largest, 1.0)
        scaled = values / unit
        mean = np.average(scaled, axis=0, weights=weights)
        spread = np.sqrt(np.average((scaled - mean) ** 2, axis=0, weights=weights))
        # differences at the level of rounding are no differences
        is_constant = spread <= 10 * np.finfo(values.dtype).eps * np.abs(mean)
        return cls(mean * unit, np.where(is_constant, 1.0, spread * unit))

    @classmethod
    def of_targets(cls, values: np.ndarray, weights: np.ndarray | None = None) -> "Scaling":
        """The same, but a constant column has the unit of its value: one row is not surer of 5000 g than of 5 kg."""
        plain = cls.of(values, weights)
        near = 10 * np.finfo(values.dtype).eps * np.abs(plain.shift)
        is_constant = np.all(np.abs(values - plain.shift) <= near, axis=0) & (plain.shift != 0)
        return cls(plain.shift, np.where(is_constant, np.abs(plain.shift), plain.factor))

    @classmethod
    def robust(cls, values: np.ndarray, weights: np.ndarray) -> "Scaling":
        """The same from median and quartiles, in which outliers have little say; as `of` where quartiles are equal."""
        plain = cls.of(values, weights)
        standard = plain.apply(values)
        low, middle, high = np.quantile(standard, (0.25, 0.5, 0.75), axis=0, weights=weights, method="inverted_cdf")
        spread = (high - low) / QUARTILES_APART
        has_spread = spread > np.finfo(float).eps
        shift = np.where(has_spread, plain.shift + middle * plain.factor, plain.shift)
        return cls(shift, np.where(has_spread, spread, 1.0) * plain.factor)

    @classmethod
    def identity(cls, columns: int) -> "Scaling":
        """No change."""
        return cls(np.zeros(columns), np.ones(columns))

    def apply(self, values: np.ndarray) -> np.ndarray:
        """To standard units."""
        return (values - self.shift) / self.factor
