"""Tables with cells taken out at random: gaps as gaps, against two ways to fill them beforehand."""

import json
import os
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer

import widetail as wt
from benchmarks._registry import Result, benchmark
from benchmarks._report import RESULTS
from widetail.datasets import load_regression

TABLES = ("concrete", "energy", "yacht", "boston", "wine_red")
SHARES = (0.1, 0.3, 0.5)
SPLITS = 2
MOST_ROWS = 240  # of training, drawn at random, and one kernel, so that all of it takes minutes
COVERAGE = 0.9
WAYS = ("gaps", "mean", "iterative")
# Every fit is kept as soon as it is done, and a later run goes on from there; delete the file to begin anew.
KEPT = RESULTS / "masked-fits.jsonl"


def so_far() -> Iterator[Result]:
    """A summary of every table and share of which one split is complete."""
    known = _known()
    for name in TABLES:
        for share in SHARES:
            done = [s for s in range(SPLITS) if all((name, share, s, way) in known for way in WAYS)]
            if done:
                yield summary(name, share, {way: [known[name, share, s, way] for s in done] for way in WAYS})


@benchmark("masked", f"log score with missing cells, {MOST_ROWS} training rows, Anova; mean of {SPLITS} splits", so_far)
def run() -> Iterator[Result]:
    known = _known()
    for split in range(SPLITS):
        for name in TABLES:
            for share in SHARES:
                for way in WAYS:
                    key = (name, share, split, way)
                    if key not in known:
                        known[key] = _keep(key, _measure(*key))
    yield from so_far()


def summary(name: str, share: float, fits: dict[str, list[dict[str, Any]]]) -> Result:
    """Means over the splits; reached where gaps score at least as well as both fillings and intervals hold."""
    scores = {way: float(np.mean([fit["log_score"] for fit in those])) for way, those in fits.items()}
    coverage = float(np.mean([fit["coverage"] for fit in fits["gaps"]]))
    rows = sum(fit["rows"] for fit in fits["gaps"])
    result: Result = {"case": f"{name}, {share:.0%} missing", "splits": len(fits["gaps"]), "test rows": rows}
    result |= {f"log score, {way}": score for way, score in scores.items()}
    result |= {f"coverage, {way}": float(np.mean([fit["coverage"] for fit in fits[way]])) for way in fits}
    holds = abs(coverage - COVERAGE) <= 0.03
    return result | {"reached": "yes" if holds and scores["gaps"] == max(scores.values()) else "NO"}


def _measure(name: str, share: float, split: int, way: str) -> dict[str, Any]:
    data = load_regression(name)
    rng = np.random.default_rng(split)
    rows = rng.permutation(data.train_rows[split])[:MOST_ROWS]
    x = np.where(rng.random(data.x.shape) < share, np.nan, data.x)
    train, test = x[rows], x[data.test_rows[split]]
    if way != "gaps":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the imputer has not converged, and says so
            imputer = SimpleImputer() if way == "mean" else IterativeImputer(random_state=0)
            train, test = imputer.fit_transform(train), imputer.transform(test)
    began = time.process_time()
    kernel = wt.kernels.Anova(np.full(x.shape[1], 3.0), np.full(x.shape[1], 0.15))
    model = wt.ScaleMixtureRegressor(kernel).fit(train, data.y[rows])
    seconds, y = time.process_time() - began, data.y[data.test_rows[split]]
    dist = model.predict_dist(test)
    lower, upper = dist.interval(COVERAGE)
    return {
        "log_score": float(np.mean(dist.log_prob(y))),
        "crps": float(np.mean(dist.crps(y))),
        "coverage": float(np.mean((lower <= y) & (y <= upper))),
        "rows": len(y),
        "processor_seconds": seconds,
        "load": os.getloadavg()[0],
    }


def _known() -> dict[tuple[str, float, int, str], dict[str, Any]]:
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    return {(line["table"], line["share"], line["split"], line["way"]): line for line in map(json.loads, lines)}


def _keep(key: tuple[str, float, int, str], measured: dict[str, Any]) -> dict[str, Any]:
    line = dict(zip(("table", "share", "split", "way"), key, strict=True)) | measured
    RESULTS.mkdir(exist_ok=True)
    with KEPT.open("a") as file:
        file.write(json.dumps(line) + "\n")
    return line
