"""The regressor with its defaults on the UCI tables: calibration, and log scores against saved ones of equal splits.

Of whole numbers the default regressor has probabilities. Their logarithm cannot be compared with that of a density, so
that table is fitted as one of real numbers, too; and intervals with whole ends hold more than they promise, so a step
counts with its part of the interval (see `metrics.coverage_of_steps`).
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
from widetail import datasets, metrics

SPLITS, SPLITS_OF_LARGE = 20, 5
LARGE = ("kin8nm", "naval", "power")
WHOLE_NUMBERS = "wine_red"
# A table, and what its target is taken for.
CASES = [(name, "auto") for name in datasets.UCI_NAMES] + [(WHOLE_NUMBERS, "real")]
COVERAGES = (0.5, 0.9, 0.95)
# One architecture, optima of the evidence, calibrated on left-out rows: what `widetail reproduce uci` found.
SAVED, SAVED_MODEL = ROOT / "results" / "uci-full" / "rows.jsonl", "Inverse gamma"


def so_far() -> Iterator[Result]:
    """A summary of every table of which there is a fit."""
    lines = list(_kept().lines.values())
    for name, target in CASES:
        fits = [line for line in lines if (line["table"], line["target"]) == (name, target)]
        if fits:
            yield summary(name if target == "auto" else f"{name} as real numbers", fits)


@benchmark("uci", "coverage of 90 % and log scores of the default regressor, against results/uci-full", so_far)
def run() -> Iterator[Result]:
    kept = _kept()
    for are_large, splits in ((False, SPLITS), (True, SPLITS_OF_LARGE)):
        for split in range(splits):
            for name, target in CASES:
                if (name in LARGE) == are_large:
                    measure = functools.partial(_measure, name, target, split)
                    kept.get(measure, table=name, target=target, split=split)
    yield from so_far()


def _kept() -> Kept:
    return Kept("uci-fits.jsonl", "table", "target", "split")


def summary(case: str, fits: list[dict[str, Any]]) -> Result:
    """Means over the splits; log scores may be worse than the saved ones by one standard error of the difference."""
    found, before = (np.array(scores) for scores in zip(*map(_log_scores, fits), strict=True))
    gains = found - before
    error = float(np.std(gains, ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else np.nan
    shares = {coverage: float(np.mean([fit[f"in {coverage:.0%}"] for fit in fits])) for coverage in COVERAGES}
    compared = not fits[0]["is_whole"]
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


def _measure(name: str, target: str, number: int) -> dict[str, Any]:
    split = datasets.load_regression(name).split(number)
    processor = time.process_time()
    model = wt.ScaleMixtureRegressor(target=target).fit(split.x_train, split.y_train)
    dist, y = model.predict_dist(split.x_test), split.y_test
    log_score = metrics.log_score(dist, y)
    processor = time.process_time() - processor
    is_whole = model.target_.kind == "integer"
    upto = np.asarray(dist.cdf(y))
    below = np.asarray(dist.cdf(y - 1.0)) if is_whole else upto
    shares = {coverage: metrics.coverage_of_steps(below, upto, coverage) for coverage in COVERAGES}
    whole_ends = {coverage: metrics.coverage(dist, y, coverage) for coverage in COVERAGES} if is_whole else {}
    return {
        "rows": len(split.y_train),
        "architecture": model.architecture_,
        "is_whole": is_whole,
        "log_score": log_score,
        **{f"in {coverage:.0%}": share for coverage, share in shares.items()},
        **{f"in whole {coverage:.0%}": share for coverage, share in whole_ends.items()},
        "processor": processor,
    }
