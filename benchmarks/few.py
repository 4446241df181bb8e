"""Ten to fifty rows of real tables: the regressor with its defaults beside a Gaussian process and Bayesian ridge."""

import functools
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import BayesianRidge

import widetail as wt
from benchmarks._kept import Kept
from benchmarks._registry import Result, benchmark
from widetail import datasets, metrics

ROWS, NEW_ROWS, DRAWS = (10, 20, 50), 500, 3
COVERAGE = 0.95
WHOLE_NUMBERS = "wine_red"  # whose probabilities are no densities

# Log densities and the ends of intervals at new rows.
Found = tuple[np.ndarray, np.ndarray, np.ndarray]
Fit = Callable[[str, np.ndarray, np.ndarray, np.ndarray, np.ndarray], Found]


def so_far() -> Iterator[Result]:
    """A summary of every number of rows of which there is a fit."""
    lines = list(_kept().lines.values())
    for rows in ROWS:
        for method in METHODS:
            found = [line for line in lines if (line["rows"], line["method"]) == (rows, method)]
            if found:
                yield summary(f"{rows} rows: {method}", found)


@benchmark("few", f"log score, interval score and coverage with 10 to 50 rows of eight tables, {DRAWS} draws", so_far)
def run() -> Iterator[Result]:
    kept = _kept()
    for draw in range(DRAWS):
        for rows in ROWS:
            for table in datasets.UCI_NAMES:
                for method in METHODS:
                    measure = functools.partial(_measure, table, rows, draw, method)
                    kept.get(measure, table=table, rows=rows, draw=draw, method=method)
    yield from so_far()


def _kept() -> Kept:
    return Kept("few-fits.jsonl", "table", "rows", "draw", "method")


def summary(case: str, lines: list[dict[str, Any]]) -> Result:
    """Over tables and draws: means, but of log scores the median, because one overconfident fit decides their mean."""
    mean = {
        name: float(np.mean([line[name] for line in lines])) for name in ("interval score", "coverage", "processor")
    }
    return {
        "case": case,
        "fits": len(lines),
        "log score": float(np.median([line["log score"] for line in lines])),
        "worst": float(np.min([line["log score"] for line in lines])),
        "interval score": mean["interval score"],
        "in 95%": mean["coverage"],
        "processor s": mean["processor"],
    }


def _measure(table: str, rows: int, draw: int, method: str) -> dict[str, float]:
    data = datasets.load_regression(table)
    order = np.random.default_rng([draw, rows]).permutation(len(data.y))
    first, new = order[:rows], order[rows : rows + NEW_ROWS]
    y_new, began = data.y[new], time.process_time()
    log_density, lower, upper = METHODS[method](table, data.x[first], data.y[first], data.x[new], y_new)
    unit = float(np.std(y_new))
    return {
        "log score": float(np.mean(log_density) + np.log(unit)),
        "interval score": metrics.interval_score(lower, upper, y_new, COVERAGE) / unit,
        "coverage": metrics.coverage_of_interval(lower, upper, y_new),
        "processor": time.process_time() - began,
    }


def _ours(table: str, x: np.ndarray, y: np.ndarray, x_new: np.ndarray, y_new: np.ndarray) -> Found:
    target = "real" if table == WHOLE_NUMBERS else "auto"
    dist = wt.ScaleMixtureRegressor(target=target).fit(x, y).predict_dist(x_new)
    lower, upper = dist.interval(COVERAGE)
    return np.asarray(dist.log_prob(y_new)), np.asarray(lower), np.asarray(upper)


def _theirs(make: Callable[[int], Any]) -> Fit:
    """A model with a mean and a standard deviation, of standardised inputs and targets."""

    def fit(table: str, x: np.ndarray, y: np.ndarray, x_new: np.ndarray, y_new: np.ndarray) -> Found:
        spread = np.where(np.std(x, axis=0) > 0, np.std(x, axis=0), 1.0)
        middle, unit = np.mean(y), np.std(y) or 1.0
        x, x_new = ((part - np.mean(x, axis=0)) / spread for part in (x, x_new))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of optima at bounds, of which there are many
            mean, std = make(x.shape[1]).fit(x, (y - middle) / unit).predict(x_new, return_std=True)
        mean, std = mean * unit + middle, std * unit
        lower, upper = scipy.stats.norm.interval(COVERAGE, mean, std)
        return scipy.stats.norm.logpdf(y_new, mean, std), lower, upper

    return fit


def _gaussian_process(features: int) -> GaussianProcessRegressor:
    lengths: Any = np.ones(features)
    kernel = ConstantKernel(1.0) * RBF(lengths, (1e-2, 1e3)) + WhiteKernel(0.1, (1e-6, 10.0))
    return GaussianProcessRegressor(kernel, n_restarts_optimizer=2, random_state=0)


METHODS: dict[str, Fit] = {
    "widetail": _ours,
    "Gaussian process": _theirs(_gaussian_process),
    "Bayesian ridge": _theirs(lambda features: BayesianRidge()),
}
