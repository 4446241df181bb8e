"""Candidates averaged by evidence against the average that predicts left-out rows best: scores of new rows."""

import functools
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import widetail as wt
from benchmarks._kept import Kept
from benchmarks._registry import Result, benchmark
from widetail.datasets import FUNCTIONS, UCI_NAMES, load_regression
from widetail.estimators._architecture import candidates_for_few_rows
from widetail.kernels import Anova
from widetail.learning import integrate_evidence
from widetail.metrics import interval_score

ROWS, NEW_ROWS = (30, 100), 1000
DRAWS = 4
FIRST_DRAW = 200  # no draw of the benchmark of small data
NOISE = 0.05
COVERAGE = 0.95
WAYS = ("evidence", "stacking")


@benchmark("stacking", f"log score and interval score, by evidence and by stacking; {DRAWS} draws of 13 tables")
def run() -> Iterator[Result]:
    kept = Kept("stacking-fits.jsonl", "table", "rows", "draw", "way")
    fits = {
        (table, rows, draw, way): kept.get(
            functools.partial(_measure, table, rows, draw, way), table=table, rows=rows, draw=draw, way=way
        )
        for draw in range(DRAWS)
        for table in (*FUNCTIONS, *UCI_NAMES)
        for rows in ROWS
        for way in WAYS
    }
    for rows in ROWS:
        for kind, tables in (("functions", list(FUNCTIONS)), ("UCI tables", list(UCI_NAMES))):
            yield summary(
                f"{len(tables)} {kind}, {rows} rows",
                {way: [fits[table, rows, draw, way] for table in tables for draw in range(DRAWS)] for way in WAYS},
            )


def summary(case: str, fits: dict[str, list[dict[str, Any]]]) -> Result:
    """Means, and the mean differences with their standard errors over fits."""
    result: Result = {"case": case, "fits": len(fits["evidence"])}
    for name in ("log_score", "interval_score", "coverage"):
        values = {way: np.array([fit[name] for fit in those]) for way, those in fits.items()}
        gap = values["stacking"] - values["evidence"]
        result |= {f"{name}, {way}": float(np.mean(column)) for way, column in values.items()}
        result |= {f"{name} gap": float(np.mean(gap)), f"{name} +-": float(np.std(gap, ddof=1) / np.sqrt(len(gap)))}
    return result


def _measure(table: str, rows: int, draw: int, way: Any) -> dict[str, Any]:
    x, y, x_new, y_new = _data(table, rows, draw)
    began = time.process_time()
    found = integrate_evidence(_candidates(x.shape[1]), x, y, average=way, seed=draw)
    dist = found.posterior(x, y)(x_new)
    lower, upper = (np.asarray(end) for end in dist.interval(COVERAGE))
    return {
        "log_score": float(np.mean(dist.log_prob(y_new))),
        "interval_score": interval_score(lower, upper, y_new, COVERAGE),
        "coverage": float(np.mean((lower <= y_new) & (y_new <= upper))),
        "weights": found.shares,
        "processor": time.process_time() - began,
    }


def _data(table: str, rows: int, draw: int) -> tuple[np.ndarray, ...]:
    """Inputs and targets in the standard units of the rows to learn from."""
    if table in FUNCTIONS:
        x, y, x_new, y_new = FUNCTIONS[table].draw(rows, NEW_ROWS, noise=NOISE, seed=FIRST_DRAW + draw)
    else:
        data = load_regression(table)
        order = np.random.default_rng(draw).permutation(len(data.y))
        first, others = order[:rows], order[rows : rows + NEW_ROWS]
        x, y, x_new, y_new = data.x[first], data.y[first], data.x[others], data.y[others]
    spread = np.where(np.std(x, axis=0) > 0, np.std(x, axis=0), 1.0)
    middle, unit = np.mean(y), np.std(y)
    x, x_new = ((part - np.mean(x, axis=0)) / spread for part in (x, x_new))
    return x, (y - middle) / unit, x_new, (y_new - middle) / unit


def _candidates(features: int) -> dict[str, wt.ScaleMixture]:
    """Those of the regressor."""
    return {
        name: wt.ScaleMixture(net, wt.InverseGamma(*(0.5, 0.5) if isinstance(net, Anova) else (2.0, 2.0)))
        for name, net in candidates_for_few_rows(features).items()
    }
