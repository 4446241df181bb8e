"""Where heavy tails pay: priors of the scale, with hyperparameters at their optimum or integrated out, by rows."""

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from widetail import metrics
from widetail.datasets import FUNCTIONS, UCI_NAMES, load_regression
from widetail.experiments.few._report import findings
from widetail.experiments.running._registry import Experiment, config_of
from widetail.experiments.running._runner import Outcome, Task
from widetail.kernels import Anova
from widetail.learning import fit_evidence, integrate_evidence
from widetail.predictive import Predictive
from widetail.priors import BurrXII, HalfCauchy, InverseGamma, PointMass, ScalePrior
from widetail.process import ScaledNoise, ScaleMixture

NOISE = 0.005  # of the functions, over the standard deviation of their values
COVERAGES = (0.9, 0.95)
# The names are keys of the rows. "learned" is the plain process that everybody has.
PRIORS: dict[str, ScalePrior] = {
    "learned": PointMass(1.0),
    "fixed": PointMass(1.0),
    "inverse gamma": InverseGamma(2.0, 2.0),
    "half-Cauchy": HalfCauchy(1.0),
    "Burr XII": BurrXII(2.0, 1.0),
}


@dataclasses.dataclass(frozen=True)
class FewConfig:
    """What to fit.

    Attributes:
        tables: UCI tables, and functions by their keys in `datasets.FUNCTIONS`.
        rows: how many to learn from.
        draws: random subsets of rows, or draws of the Sobol sequence and the noise.
        test_rows: at most so many of the others.
        max_iterations: of each optimisation.
        seed: of everything.
    """

    tables: tuple[str, ...] = (*UCI_NAMES, *FUNCTIONS)
    rows: tuple[int, ...] = (5, 10, 20, 50, 100, 200)
    draws: int = 10
    test_rows: int = 400
    max_iterations: int = 60
    seed: int = 0

    @classmethod
    def quick(cls) -> "FewConfig":
        """Two functions and a table, up to twenty rows, one draw."""
        return cls(tables=("yacht", "wing", "dixon_price"), rows=(5, 10, 20), draws=1, test_rows=200)


def tasks(config: FewConfig) -> list[Task]:
    """One for every draw, number of rows and table."""
    return [
        Task({"table": table, "n": rows, "draw": draw}, lambda t=table, n=rows, d=draw: _run(config, t, n, d))
        for draw in range(config.draws)
        for rows in config.rows
        for table in config.tables
    ]


def _run(config: FewConfig, table: str, rows: int, draw: int) -> Outcome:
    x, y, x_test, y_test = _data(config, table, rows, draw)
    # both in standard units of the rows that are learned from, as an estimator has them
    x_mean, x_std = x.mean(axis=0), _spread(x)
    y_mean, y_std = float(y.mean()), float(_spread(y))
    x, x_test, y, target = (x - x_mean) / x_std, (x_test - x_mean) / x_std, (y - y_mean) / y_std, (y_test - y_mean)
    unit = float(np.std(y_test)) / y_std
    found = []
    for prior in PRIORS:
        for model, dist, about in _models(config, prior, x, y, x_test):
            scores = _scores(dist, target / y_std, unit)
            found.append({"prior": prior, "hyperparameters": model, **scores, **about})
    return Outcome(found)


def _spread(values: np.ndarray) -> Any:
    std = values.std(axis=0)
    return np.where(std > 0, std, 1.0)


def _data(config: FewConfig, table: str, rows: int, draw: int) -> tuple[np.ndarray, ...]:
    if table in FUNCTIONS:
        return FUNCTIONS[table].draw(rows, config.test_rows, noise=NOISE, seed=config.seed + draw)
    data = load_regression(table)
    order = np.random.default_rng([config.seed, draw]).permutation(len(data.y))
    train, test = order[:rows], order[rows : rows + config.test_rows]
    return data.x[train], data.y[train], data.x[test], data.y[test]


def _models(
    config: FewConfig, prior: str, x: np.ndarray, y: np.ndarray, x_test: np.ndarray
) -> Iterator[tuple[str, Predictive, dict[str, Any]]]:
    """The same process at its optimum, and with its hyperparameters integrated out."""
    features = x.shape[1]
    kernel = Anova(np.full(features, 3.0), np.full(features, 0.15))
    start = ScaleMixture(kernel, PRIORS[prior], ScaledNoise(0.05))
    learn = ("kernel", "noise", "prior") if prior == "learned" else ("kernel", "noise")
    began = time.monotonic()
    fit = fit_evidence(start, x, y, learn=learn, restarts=1, max_iterations=config.max_iterations)
    dist = fit.process.posterior(x, y)(x_test)
    yield "optimum", dist, {"log_evidence": fit.log_evidence, "seconds": time.monotonic() - began}
    if prior == "learned":  # the scale stays where the evidence was largest
        start = ScaleMixture(kernel, fit.process.prior_scale, ScaledNoise(0.05))
    began = time.monotonic()
    found = integrate_evidence({"sum": start}, x, y, max_iterations=config.max_iterations, seed=config.seed)
    dist = found.posterior(x, y)(x_test)
    about = {"log_evidence": found.log_evidences["sum"], "effective": found.effective["sum"]}
    yield "integrated", dist, {**about, "seconds": time.monotonic() - began}


def _scores(dist: Predictive, y: np.ndarray, unit: float) -> dict[str, float]:
    """Proper scores in units of the standard deviation of the test targets, and coverages."""
    lower, upper = dist.interval(0.95)
    inside = {f"in_{level:.0%}": metrics.coverage(dist, y, level) for level in COVERAGES}
    return {
        "log_score": metrics.log_score(dist, y) + float(np.log(unit)),
        "interval_score": metrics.interval_score(np.asarray(lower), np.asarray(upper), y, 0.95) / unit,
        "rmse": metrics.rmse(np.asarray(dist.median), y) / unit,
        **inside,
    }


EXPERIMENT = Experiment(
    title="Where heavy tails pay",
    question=(
        "With how few rows is a heavy-tailed prior of the readout variance worth having, next to a plain process whose "
        "variance is learned or fixed, and what is integrating hyperparameters out worth beside it?"
    ),
    config=config_of(FewConfig),
    tasks=tasks,
    findings=findings,
)
