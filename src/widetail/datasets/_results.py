"""The results of the loaders: frozen records of NumPy arrays."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Integer, UInt8


@dataclass(frozen=True, eq=False)
class Split:
    """One train/test split of a regression table, in raw units."""

    x_train: Float[np.ndarray, "n d"]
    y_train: Float[np.ndarray, " n"]
    x_test: Float[np.ndarray, "m d"]
    y_test: Float[np.ndarray, " m"]


@dataclass(frozen=True, eq=False)
class Regression:
    """A regression table in raw units, with its train/test splits.

    Attributes:
        name: name the table was asked for.
        x: inputs.
        y: target.
        train_rows: row numbers of the training part, one line per split.
        test_rows: row numbers of the test part, one line per split.
        feature_names: names of the columns of `x`.
        target_name: what `y` is, with its unit where it has one.
    """

    name: str
    x: Float[np.ndarray, "rows d"]
    y: Float[np.ndarray, " rows"]
    train_rows: Integer[np.ndarray, "splits n"]
    test_rows: Integer[np.ndarray, "splits m"]
    feature_names: tuple[str, ...]
    target_name: str

    @property
    def n_splits(self) -> int:
        """Number of train/test splits."""
        return self.train_rows.shape[0]

    def split(self, index: int) -> Split:
        """The split of number `index`, counted from 0."""
        if not 0 <= index < self.n_splits:
            raise ValueError(f"index of a split of {self.name!r} must be 0 to {self.n_splits - 1}, got {index}.")
        train, test = self.train_rows[index], self.test_rows[index]
        return Split(self.x[train], self.y[train], self.x[test], self.y[test])


@dataclass(frozen=True, eq=False)
class Images:
    """Labelled images, uint8 pixels 0 to 255, grey (n, height, width) or RGB (n, height, width, 3).

    Attributes:
        name: name the set was asked for.
        x_train: training images; no rows where the set has no training part.
        y_train: training labels.
        x_test: test images.
        y_test: test labels.
        class_names: what each label means. Labels need not start at 0: EMNIST letters are 1 to 26.
        complete: whether every row of the original is here. The files of a `WIDETAIL_DATA` folder may
            hold the first rows only; downloads are whole.
    """

    name: str
    x_train: UInt8[np.ndarray, "n height width *rgb"]
    y_train: UInt8[np.ndarray, " n"]
    x_test: UInt8[np.ndarray, "m height width *rgb"]
    y_test: UInt8[np.ndarray, " m"]
    class_names: Mapping[int, str]
    complete: bool
