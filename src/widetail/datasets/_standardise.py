"""Standardisation as the regression benchmark does it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Affine maps that give the training part mean 0 and standard deviation 1, column by column.

    A column that is constant on the training part keeps the scale 1, so it becomes 0 there and is never
    divided by a rounding error. The standard deviation divides by n (not n - 1), as in the benchmark.

    Scores of a model of the standardised target carry over to the units of y:
    add `log_y_std` to a negative log-likelihood, multiply an RMSE or a CRPS by `y_std`.
    """

    x_mean: Float[np.ndarray, " d"]
    x_std: Float[np.ndarray, " d"]
    y_mean: float
    y_std: float

    @classmethod
    def fit(cls, x_train: Float[np.ndarray, "n d"], y_train: Float[np.ndarray, " n"]) -> "Standardiser":
        """Read means and standard deviations off the training part."""
        if x_train.ndim != 2 or y_train.ndim != 1:
            raise ValueError(
                "x_train must have shape (n, d) and y_train (n,), got "
                f"{x_train.shape} and {y_train.shape}; reshape y_train with .ravel() if it is a column."
            )
        if x_train.shape[0] != y_train.shape[0]:
            raise ValueError(
                "x_train and y_train disagree on the number of rows: "
                f"x_train has {x_train.shape[0]}, y_train has {y_train.shape[0]}."
            )
        if x_train.shape[0] == 0:
            raise ValueError("x_train has no rows; a mean needs at least one.")
        y_mean, y_std = _mean_and_std(y_train[:, None])
        return cls(*_mean_and_std(x_train), float(y_mean[0]), float(y_std[0]))

    @property
    def log_y_std(self) -> float:
        """What to add to the NLL of the standardised target to get the NLL in the units of y, in nats."""
        return float(np.log(self.y_std))

    def x(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Inputs in standard units."""
        if x.shape[-1] != self.x_mean.size:
            raise ValueError(f"x must have {self.x_mean.size} columns as in training, got shape {x.shape}.")
        return (x - self.x_mean) / self.x_std

    def y(self, y: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """Targets in standard units."""
        return (y - self.y_mean) / self.y_std

    def y_back(self, y: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """Targets in their own units, from standard units."""
        return y * self.y_std + self.y_mean


def _mean_and_std(
    columns: Float[np.ndarray, "n d"],
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    # The computed standard deviation of a constant column need not be exactly 0; its range is.
    constant = np.ptp(columns, axis=0) == 0
    mean = np.where(constant, columns[0], columns.mean(axis=0))
    return mean, np.where(constant, 1.0, columns.std(axis=0))
