"""The regressor with its defaults on the UCI tables: calibration, and log scores against saved ones of equal splits.

The fits are those that the benchmark of tables keeps. Of whole numbers the default regressor has probabilities, whose
logarithm cannot be compared with that of a density, and intervals with whole ends, which hold more than they promise:
the same table is fitted as one of real numbers here, too.
"""

import functools
import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import widetail as wt
from benchmarks._kept import Kept
from benchmarks._registry import Result, benchmark
from benchmarks._report import ROOT
from benchmarks.tables import KEPT, OURS
from widetail import datasets, metrics

SPLITS = 20
WHOLE_NUMBERS = "wine_red"
COVERAGES = (0.5, 0.9, 0.95)
# One architecture, optima of the evidence, calibrated on left-out rows: what `widetail reproduce uci` found.
SAVED, SAVED_MODEL = ROOT / "results" / "uci-full" / "rows.jsonl", "Inverse gamma"


@benchmark("uci", "coverage of 90 % and log scores of the fits that `tables` has kept, against results/uci-full")
def run() -> Iterator[Result]:
    lines = [json.loads(line) for line in KEPT.read_text().splitlines()] if KEPT.exists() else []
    for name in datasets.UCI_NAMES:
        fits = [line for line in lines if line["method"] == OURS and line["table"] == name]
        if not fits:
            print(f"{name}: no fits in {KEPT.name}; `python -m benchmarks tables` makes them")
            continue
        yield summary(name, fits, compared=name != WHOLE_NUMBERS)
    kept = Kept("uci-real-fits.jsonl", "table", "split")
    measured = [
        kept.get(functools.partial(_as_real, WHOLE_NUMBERS, split), table=WHOLE_NUMBERS, split=split)
        for split in range(SPLITS)
    ]
    yield summary(f"{WHOLE_NUMBERS} as real numbers", measured)


def summary(case: str, fits: list[dict[str, Any]], *, compared: bool = True) -> Result:
    """Means over the splits; log scores may be worse than the saved ones by one standard error of the difference."""
    found, before = (np.array(scores) for scores in zip(*map(_log_scores, fits), strict=True))
    gains = found - before
    error = float(np.std(gains, ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else np.nan
    shares = {coverage: float(np.mean([fit[f"in {coverage:.0%}"] for fit in fits])) for coverage in COVERAGES}
    is_no_worse = not compared or np.mean(gains) >= -error
    return {
        "case": f"{case}, {fits[0]['rows']} rows, {len(fits)} splits",
        "log score": float(np.mean(found)),
        "before": float(np.mean(before)) if compared else None,
        "gain": float(np.mean(gains)) if compared else None,
        "+-": error if compared else None,
        **{f"in {coverage:.0%}": share for coverage, share in shares.items()},
        "processor s": float(np.mean([fit["processor"] for fit in fits])),
        "reached": "yes" if abs(shares[0.9] - 0.9) <= 0.02 and is_no_worse else "NO",
    }


def _log_scores(fit: dict[str, Any]) -> tuple[float, float]:
    return fit["log_score"], _saved_scores()[fit["table"], fit["split"]]


@functools.cache
def _saved_scores() -> dict[tuple[str, int], float]:
    """Log scores of the saved experiment by table and split."""
    found = {}
    for line in map(json.loads, SAVED.read_text().splitlines()):
        for row in line["rows"]:
            if row["model"] == SAVED_MODEL:
                found[line["task"]["table"], line["task"]["split"]] = -row["nll"]
    return found


def _as_real(name: str, number: int) -> dict[str, Any]:
    split = datasets.load_regression(name).split(number)
    processor = time.process_time()
    dist = wt.ScaleMixtureRegressor(target="real").fit(split.x_train, split.y_train).predict_dist(split.x_test)
    shares = {f"in {coverage:.0%}": float(metrics.coverage(dist, split.y_test, coverage)) for coverage in COVERAGES}
    return {
        "rows": len(split.y_train),
        "log_score": float(np.mean(dist.log_prob(split.y_test))),
        **shares,
        "processor": time.process_time() - processor,
    }
