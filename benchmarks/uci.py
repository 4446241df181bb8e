"""The regressor with its defaults on the UCI tables: calibration, and log scores against saved ones of the same splits."""

import functools
import json
import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import widetail as wt
from benchmarks._kept import Kept
from benchmarks._registry import Result, benchmark
from benchmarks._report import ROOT
from widetail import datasets, metrics

SPLITS, SPLITS_OF_LARGE = 20, 3
MANY_ROWS = 5000
COVERAGES = (0.5, 0.9, 0.95)
# One architecture, optima of the evidence, calibrated on left-out rows: what `widetail reproduce uci` found.
SAVED, SAVED_MODEL = ROOT / "results" / "uci-full" / "rows.jsonl", "Inverse gamma"


@benchmark("uci", f"90 % coverage and log scores of eight tables, {SPLITS} splits, {SPLITS_OF_LARGE} of large ones")
def run() -> Iterator[Result]:
    kept = Kept("uci-fits.jsonl", "table", "split")
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in datasets.UCI_NAMES}
    for number in range(SPLITS):
        for name in datasets.UCI_NAMES:
            if number < splits_of(name):
                measure = functools.partial(_measure, name, number)
                found[name].append(kept.get(measure, table=name, split=number))
    for name in datasets.UCI_NAMES:
        yield summary(name, found[name])


def splits_of(name: str) -> int:
    """How many splits of a table are run."""
    return SPLITS if len(datasets.load_regression(name).y) < MANY_ROWS else SPLITS_OF_LARGE


def summary(name: str, fits: list[dict[str, Any]]) -> Result:
    """Means over the splits; log scores may be worse than the saved ones by one standard error of the difference."""
    before = [saved_scores()[name, fit["split"]] for fit in fits]
    gains = np.array([fit["log_score"] for fit in fits]) - before
    error = float(np.std(gains, ddof=1) / np.sqrt(len(gains)))
    shares = {coverage: float(np.mean([fit[f"in_{coverage:.0%}"] for fit in fits])) for coverage in COVERAGES}
    return {
        "case": f"{name}, {fits[0]['rows']} rows, {len(fits)} splits",
        "log score": float(np.mean([fit["log_score"] for fit in fits])),
        "before": float(np.mean(before)),
        "gain": float(np.mean(gains)),
        "+-": error,
        **{f"in {coverage:.0%}": share for coverage, share in shares.items()},
        "processor s": float(np.mean([fit["processor"] for fit in fits])),
        "reached": "yes" if abs(shares[0.9] - 0.9) <= 0.02 and np.mean(gains) >= -error else "NO",
    }


@functools.cache
def saved_scores() -> dict[tuple[str, int], float]:
    """Log scores of the saved experiment by table and split."""
    found = {}
    for line in map(json.loads, SAVED.read_text().splitlines()):
        for row in line["rows"]:
            if row["model"] == SAVED_MODEL:
                found[line["task"]["table"], line["task"]["split"]] = -row["nll"]
    return found


def _measure(name: str, number: int) -> dict[str, Any]:
    split = datasets.load_regression(name).split(number)
    wall, processor = time.perf_counter(), time.process_time()
    model = wt.ScaleMixtureRegressor().fit(split.x_train, split.y_train)
    dist = model.predict_dist(split.x_test)
    shares = {f"in_{coverage:.0%}": metrics.coverage(dist, split.y_test, coverage) for coverage in COVERAGES}
    return {
        "rows": len(split.y_train),
        "log_score": float(np.mean(dist.log_prob(split.y_test))),
        **{name: float(share) for name, share in shares.items()},
        "seconds": time.perf_counter() - wall,
        "processor": time.process_time() - processor,
        "load": os.getloadavg()[0],
        "architecture": model.architecture_,
        "target": model.target_.describe(),
    }
