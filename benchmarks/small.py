"""Intervals from few rows: the regressor with its defaults against published numbers, draw by draw."""

import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import widetail as wt
from benchmarks._functions import CASES, Case
from benchmarks._kept import Kept
from benchmarks._registry import Result, benchmark
from benchmarks._report import ROOT

DRAWS = 20
COVERAGE = 0.95
MISS = 2 / (1 - COVERAGE)


@benchmark("small", f"95 % interval score over std of y, of functions of ten inputs; mean of {DRAWS} draws")
def run() -> Iterator[Result]:
    kept = Kept("small-draws.jsonl", "case", "draw")
    found: dict[str, list[dict[str, Any]]] = {str(case): [] for case in CASES}
    for draw in range(DRAWS):
        for case in CASES:
            measure = functools.partial(_measure, case, draw)
            found[str(case)].append(kept.get(measure, case=str(case), draw=draw))
    for case in CASES:
        yield summary(case, found[str(case)])


def summary(case: Case, draws: list[dict[str, Any]]) -> Result:
    """Means over the draws, beside what was published."""
    mean = {name: float(np.mean([draw[name] for draw in draws])) for name in ("rrmse", "score", "coverage", "seconds")}
    best = min(case.gp, case.tabpfn)
    return {
        "case": str(case),
        "draws": len(draws),
        "RRMSE": mean["rrmse"],
        "score": mean["score"],
        "median": float(np.median([draw["score"] for draw in draws])),
        "coverage": mean["coverage"],
        "GP+": case.gp,
        "TabPFN": case.tabpfn,
        "seconds": mean["seconds"],
        "reached": "yes" if mean["score"] <= best and 0.93 <= mean["coverage"] <= 0.97 else "NO",
    }


def _measure(case: Case, draw: int) -> dict[str, Any]:
    x, y, x_test, y_test = case.data(draw)
    began = time.monotonic()
    model = wt.ScaleMixtureRegressor().fit(x, y)
    seconds = time.monotonic() - began
    lower, upper = model.predict_interval(x_test, COVERAGE)
    spread = np.std(y_test)
    widths = upper - lower + MISS * np.maximum(lower - y_test, 0) + MISS * np.maximum(y_test - upper, 0)
    return {
        "rrmse": float(np.sqrt(np.mean((model.predict(x_test) - y_test) ** 2)) / spread),
        "score": float(np.mean(widths) / spread),
        "coverage": float(np.mean((lower <= y_test) & (y_test <= upper))),
        "seconds": seconds,
        "load": os.getloadavg()[0],
        "architecture": model.architecture_,
        "target": model.target_.describe(),
    }


MOST_SECONDS = {100: 3.0, 400: 8.0}

# In a process of its own, after the imports: the first fit, which compiles, and the next one of the same shape.
FITS = """
import json, sys, time
import widetail as wt
from widetail.datasets import FUNCTIONS
wt.ScaleMixtureRegressor
seconds = []
for draw in (0, 1):
    x, y, _, _ = FUNCTIONS["wing"].draw({rows}, 16, noise=0.05, seed=draw)
    start = time.perf_counter()
    wt.ScaleMixtureRegressor().fit(x, y)
    seconds.append(time.perf_counter() - start)
print(json.dumps(seconds))
"""


@benchmark("small-fits", "seconds of a fit with the defaults, n x 10, after the imports")
def fits() -> Iterator[Result]:
    for rows, most in MOST_SECONDS.items():
        command = [sys.executable, "-c", FITS.format(rows=rows)]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        first, second = json.loads(done.stdout.splitlines()[-1])
        yield {
            "case": f"{rows} x 10",
            "first": first,
            "second": second,
            "at most": most,
            "load": os.getloadavg()[0],
            "reached": "NO" if first > most else "yes",
        }
