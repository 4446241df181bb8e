"""What the demo compares: three regressors on the same few rows of tables that scikit-learn ships."""

import dataclasses
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

ROWS = 40
COVERAGE = 0.9
LEVELS = (0.05, 0.5, 0.95)
OURS, PROCESS, TREES = "widetail", "Gaussian process", "boosted quantiles"


@dataclasses.dataclass(frozen=True, eq=False)
class Prediction:
    """What one model, fitted to `ROWS` rows, says of all the others.

    Attributes:
        table: which table.
        draw: which random rows.
        model: one of the three.
        y: what was seen, in its own units, as are the next three.
        lower, median, upper: ends and middle of the 90 % intervals.
        unit: standard deviation of y.
        seconds: of the fit and the prediction.
        fitted: the fitted model.
    """

    table: str
    draw: int
    model: str
    y: np.ndarray
    lower: np.ndarray
    median: np.ndarray
    upper: np.ndarray
    unit: float
    seconds: float
    fitted: Any

    @property
    def holds(self) -> np.ndarray:
        """Which rows lie in their intervals."""
        return (self.lower <= self.y) & (self.y <= self.upper)

    def scores(self) -> dict[str, float]:
        """In units of the standard deviation of y, but for the first and the last."""
        from widetail import metrics

        return {
            "holds": float(np.mean(self.holds)),
            "interval score": metrics.interval_score(self.lower, self.upper, self.y, COVERAGE) / self.unit,
            "width": float(np.mean(self.upper - self.lower)) / self.unit,
            "absolute error": float(np.mean(np.abs(self.y - self.median))) / self.unit,
            "seconds": self.seconds,
        }


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Inputs, and a target that cannot be negative."""
    from sklearn.datasets import load_diabetes, load_iris, load_wine

    patients, progression = load_diabetes(return_X_y=True)
    wines, flowers = (np.asarray(load(return_X_y=True)[0]) for load in (load_wine, load_iris))
    colour = 9
    return {
        "diabetes: progression": (np.asarray(patients), np.asarray(progression)),
        "wine: colour": (np.delete(wines, colour, axis=1), wines[:, colour]),
        "iris: width of petals": (flowers[:, :3], flowers[:, 3]),
    }


def predictions(draws: int, seed: int, report: Callable[[int, int], None]) -> Iterator[Prediction]:
    """Every model on every draw of every table; all of them learn the logarithm of the target."""
    models = {OURS: _widetail, PROCESS: _gaussian_process, TREES: _boosted_quantiles}
    found = tables()
    done, total = 0, len(found) * draws
    for table, (x, y) in found.items():
        for draw in range(draws):
            order = np.random.default_rng([seed, draw]).permutation(len(y))
            few, others = order[:ROWS], order[ROWS:]
            for name, model in models.items():
                began = time.monotonic()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # scikit-learn's process tells of lengths at their bounds
                    fitted, quantiles = model(x[few], np.log(y[few]), x[others])
                seconds = time.monotonic() - began
                low, middle, high = np.exp(np.sort(quantiles, axis=1).T)  # those fitted one by one may cross
                unit = float(np.std(y))
                yield Prediction(table, draw, name, y[others], low, middle, high, unit, seconds, fitted)
            done += 1
            report(done, total)


def _widetail(x: np.ndarray, y: np.ndarray, x_new: np.ndarray) -> tuple[Any, np.ndarray]:
    import widetail as wt

    model = wt.ScaleMixtureRegressor().fit(x, y)
    return model, model.predict_quantiles(x_new, LEVELS)


def _gaussian_process(x: np.ndarray, y: np.ndarray, x_new: np.ndarray) -> tuple[Any, np.ndarray]:
    """As its documentation recommends: a length for every input, noise, standardised inputs, restarts."""
    from scipy.special import ndtri
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    lengths: Any = np.ones(x.shape[1])
    kernel = ConstantKernel() * RBF(lengths) + WhiteKernel()
    process = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=3, random_state=0)
    model = make_pipeline(StandardScaler(), process).fit(x, y)
    mean, std = model.predict(x_new, return_std=True)
    return model, mean[:, None] + std[:, None] * ndtri(LEVELS)


def _boosted_quantiles(x: np.ndarray, y: np.ndarray, x_new: np.ndarray) -> tuple[Any, np.ndarray]:
    """One model for each end and one for the middle, with their defaults (with smaller leaves they do worse here)."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    models = [
        HistGradientBoostingRegressor(loss="quantile", quantile=level, random_state=0).fit(x, y) for level in LEVELS
    ]
    return models, np.stack([model.predict(x_new) for model in models], axis=1)
