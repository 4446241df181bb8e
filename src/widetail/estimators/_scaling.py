"""Standardising inputs and targets, at any magnitude."""

import dataclasses

import numpy as np
import scipy.special

from widetail.files import savable

FARTHEST = 1e100  # from the middle, in standard units: squares of what is farther may overflow
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
        # of the values as they are: beside one of 1e30 all others would be equal in standard units
        low, middle, high = np.quantile(values, (0.25, 0.5, 0.75), axis=0, weights=weights, method="inverted_cdf")
        spread = high / QUARTILES_APART - low / QUARTILES_APART
        has_spread = spread > 10 * np.finfo(float).eps * np.maximum(np.abs(low), np.abs(high))
        return cls(np.where(has_spread, middle, plain.shift), np.where(has_spread, spread, plain.factor))

    @classmethod
    def identity(cls, columns: int) -> "Scaling":
        """No change."""
        return cls(np.zeros(columns), np.ones(columns))

    def apply(self, values: np.ndarray) -> np.ndarray:
        """To standard units."""
        return (values - self.shift) / self.factor


def check_reach(y: np.ndarray, weights: np.ndarray) -> None:
    """Raise where a target is so far from all others that not even a scale of its own holds it."""
    seen = np.flatnonzero(weights > 0)
    columns = y[seen].reshape(len(seen), -1)
    with np.errstate(over="ignore"):
        reach = np.max(np.abs(Scaling.robust(columns, weights[seen]).apply(columns)), axis=1)
    if np.max(reach) > FARTHEST:
        row = seen[np.argmax(reach)]
        raise ValueError(
            f"y[{row}] is {y[row]}, more than {FARTHEST:g} times the spread of most targets from their middle, and "
            f"cannot be squared. Leave that row out, or give it sample_weight 0."
        )
