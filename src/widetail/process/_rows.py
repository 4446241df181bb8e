"""What is known of the noise of each row."""

import dataclasses
import warnings
from typing import Any

import numpy as np


def check_counts(counts: Any, n: int) -> np.ndarray | None:
    """How often each row was observed; None where every row was once."""
    if counts is None:
        return None
    counts = np.asarray(counts, dtype=np.float64)
    if counts.shape != (n,):
        raise ValueError(f"counts must have shape ({n},), one per row; got {counts.shape}.")
    if not (np.all(np.isfinite(counts)) and np.all(counts > 0)):
        raise ValueError("counts must be positive and finite: drop rows that were not observed.")
    return counts


def check_noise_weights(weights: Any, n: int) -> np.ndarray | None:
    """Factors of the noise variance, one per row, positive; None where all are one."""
    if weights is None:
        return None
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"noise_weights must have shape ({n},), one per row; got {weights.shape}.")
    if not (np.all(np.isfinite(weights)) and np.all(weights > 0)):
        raise ValueError("noise_weights must be positive and finite: they multiply the noise variance of their row.")
    return weights


def warn_of_contradictions(x: Any, y: np.ndarray) -> None:
    """Warn of equal inputs with different targets, which no function without noise can have.

    Args:
        x: inputs, rows first.
        y: targets, shape (n,) or (n, outputs).
    """
    inputs, targets = np.asarray(x).reshape(len(y), -1), y.reshape(len(y), -1)
    _, first, kind = np.unique(inputs, axis=0, return_index=True, return_inverse=True)
    first = first[kind.reshape(-1)]
    rows = np.flatnonzero(np.any(targets != targets[first], axis=1))
    if len(rows):
        named = "; ".join(f"row {row} repeats row {first[row]}" for row in rows[:3])
        more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
        warnings.warn(
            f"x has equal rows with different y ({named}{more}), and next to no noise: no function has both values, "
            f"so the readout variance and the evidence say nothing. Give a noise variance, such as "
            f"noise=wt.ScaledNoise(0.01), or average the targets of equal rows.",
            stacklevel=8,
        )


@dataclasses.dataclass(frozen=True)
class RowFactors:
    """The noise of every row, in units of the model's noise variance.

    A row that was observed c times with the same target says what one observation with a c-th of the noise says,
    but for a factor of the likelihood that depends on the noise and the scale.

    Attributes:
        factors: noise variance of the row (of the mean of its observations), shape (n,).
        single: noise variance of one of its observations, shape (n,).
        counts: how often it was observed, shape (n,).
    """

    factors: np.ndarray
    single: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, n: int, noise_weights: np.ndarray | None, counts: np.ndarray | None) -> "RowFactors":
        """From checked weights and counts; None stands for ones."""
        single = np.ones(n) if noise_weights is None else noise_weights
        counts = np.ones(n) if counts is None else counts
        return cls(single / counts, single, counts)

    def __getitem__(self, index: Any) -> "RowFactors":
        """Some of the rows."""
        return RowFactors(self.factors[index], self.single[index], self.counts[index])

    def and_then(self, other: "RowFactors") -> "RowFactors":
        """These rows and then those of `other`."""
        parts = zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
        return RowFactors(*(np.concatenate(pair) for pair in parts))

    @property
    def observations(self) -> float:
        """How many numbers were observed per output."""
        return float(np.sum(self.counts))

    @property
    def repeats(self) -> float:
        """How many of them repeat a row."""
        return self.observations - len(self.counts)

    def left_out(self, weights: np.ndarray, precision: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
        """Residual and variance of every row when one of its observations is left out; the others stay.

        Args:
            weights: the inverse covariance times the targets, shape (n, outputs).
            precision: the diagonal of the inverse covariance, shape (n, 1 or outputs).
            noise: its noise variance.
        """
        again = np.maximum(self.counts - 1, 0.0)
        others = np.divide(again, noise * self.single, out=np.zeros_like(again), where=again > 0)
        rest = others.reshape(-1, *(1,) * (precision.ndim - 1))
        copies = (1 + again).reshape(rest.shape)
        gain = 1 / (rest + precision / copies)
        return weights * gain, copies * gain

    def other_precision(self, noise: float) -> np.ndarray:
        """What to add to the precision of every row so that one of its observations is left out, not all of them.

        With c observations of noise variance s, removing one adds s / (c - 1) - s / c to the variance of the row: a
        change of rank one, of which this is the inverse; 0 for a row that was observed once.
        """
        again = np.maximum(self.counts - 1, 0.0)
        return np.divide(self.counts * again, noise * self.single, out=np.zeros_like(again), where=again > 0)

    def repeated_log_det(self, noise: float) -> float:
        """What repeated observations add to the log determinant of the covariance, per output."""
        again = self.counts - 1
        if not np.any(again):
            return 0.0
        return float(np.sum(again * np.log(noise * self.single) + np.log(self.counts)))
