"""Regression on the UCI tables: five models on identical splits."""

import dataclasses
from typing import Any

import numpy as np

from widetail import metrics
from widetail.datasets import UCI_NAMES, load_regression
from widetail.experiments.running._registry import Experiment, config_of
from widetail.experiments.running._runner import Outcome, Task
from widetail.experiments.uci._models import EnsembleSettings, Prediction, finite_ensemble, gaussian_processes
from widetail.experiments.uci._report import findings

PIT_BINS = 100
COVERAGES = (0.5, 0.9, 0.95)


@dataclasses.dataclass(frozen=True)
class UciConfig:
    """What to fit.

    Attributes:
        tables: names of the data sets.
        splits: how many of the 20 standard splits, from the first.
        most_rows_to_relearn: tables with more training rows share kernel and noise between priors (see
            `gaussian_processes`).
        ensemble: how the finite networks are trained.
        seed: of everything.
    """

    tables: tuple[str, ...] = UCI_NAMES
    splits: int = 20
    most_rows_to_relearn: int = 3000
    ensemble: EnsembleSettings = EnsembleSettings()  # noqa: RUF009
    seed: int = 0

    @classmethod
    def quick(cls) -> "UciConfig":
        """Two small tables, two splits, a smaller ensemble."""
        ensemble = EnsembleSettings(members=4, width=64, steps=2000, learning_rates=(0.01,), trial_steps=500)
        return cls(tables=("boston", "yacht"), splits=2, ensemble=ensemble)


def tasks(config: UciConfig) -> list[Task]:
    """One for every table, split and kind of model."""
    return [
        Task({"table": table, "split": split, "kind": kind}, lambda t=table, s=split, k=kind: _run(config, t, s, k))
        for split in range(config.splits)
        for table in config.tables
        for kind in ("processes", "ensemble")
    ]


def _run(config: UciConfig, table: str, number: int, kind: str) -> Outcome:
    split = load_regression(table).split(number)
    if kind == "ensemble":
        predictions = [finite_ensemble(split, config.ensemble, seed=config.seed)]
    else:
        options = {"most_rows_to_relearn": config.most_rows_to_relearn, "seed": config.seed}
        predictions = list(gaussian_processes(split, **options))
    return Outcome([_row(prediction, split.y_test) for prediction in predictions])


def _row(prediction: Prediction, y: np.ndarray) -> dict[str, Any]:
    dist = prediction.calibrated
    pit = metrics.pit(dist, y)
    return {
        "model": prediction.model,
        "nll": metrics.nll(dist, y),
        "nll_own": metrics.nll(prediction.own, y),
        "rmse": metrics.rmse(prediction.location, y),
        "crps": metrics.crps(dist, y),
        # the central interval of probability q holds y exactly when |2 pit - 1| <= q
        **{f"in_{level:.0%}": float(np.mean(np.abs(2 * pit - 1) <= level)) for level in COVERAGES},
        "pit_counts": np.histogram(pit, PIT_BINS, (0, 1))[0],
        "seconds": prediction.seconds,
        **prediction.about,
    }


EXPERIMENT = Experiment(
    title="Regression on the UCI tables",
    question=(
        "Does a heavy-tailed prior of the readout variance improve the predictions of a wide network, and how do both "
        "compare with a Gaussian process and with finite networks, all of them fitted with the same care on the same "
        "splits?"
    ),
    config=config_of(UciConfig),
    tasks=tasks,
    findings=findings,
)
