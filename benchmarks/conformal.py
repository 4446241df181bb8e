"""Intervals with a guarantee from few rows: ours against MAPIE around scikit-learn's Gaussian process."""

import functools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import widetail as wt
from benchmarks._kept import Kept
from benchmarks._process import Worker
from benchmarks._registry import Result, benchmark
from widetail.datasets import load_regression

ROWS, NEW_ROWS, FEATURES = 60, 1000, 5
DRAWS = 4
COVERAGE = 0.9
OURS = ("predictive", "full", "jackknife+", "cv+")
PEERS = {"sklearn GP": "none", "MAPIE jackknife+": "jackknife+", "MAPIE cv+": "cv+"}
TABLES = ("normal noise", "noise of t, 2 degrees", "noise that grows with x0", "concrete")


@benchmark("conformal", f"coverage of {COVERAGE:.0%} intervals and their width, {ROWS} rows, {DRAWS} draws of 4 tables")
def run() -> Iterator[Result]:
    kept = Kept("conformal-fits.jsonl", "table", "draw", "method")
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    with Worker("mapie") as worker:
        for draw in range(DRAWS):
            for table in TABLES:
                fitted = functools.cache(functools.partial(_fitted, table, draw))
                for method in OURS:
                    line = kept.get(
                        functools.partial(_ours, fitted, table, draw, method), table=table, draw=draw, method=method
                    )
                    found.setdefault((table, method), []).append(line)
                for name, method in PEERS.items():
                    line = kept.get(
                        functools.partial(_peer, worker, table, draw, method), table=table, draw=draw, method=name
                    )
                    found.setdefault((table, name), []).append(line)
    for table in TABLES:
        for method in (*OURS, *PEERS):
            yield summary(f"{table}: {method}", found[table, method])


def summary(case: str, lines: list[dict[str, Any]]) -> Result:
    """Means over the draws, and the standard error of the coverage."""
    shares = np.array([line["coverage"] for line in lines])
    return {
        "case": case,
        "draws": len(lines),
        "coverage": float(np.mean(shares)),
        "+-": float(np.std(shares, ddof=1) / np.sqrt(len(shares))),
        "width": float(np.mean([line["width"] for line in lines])),
        "score": float(np.mean([line["score"] for line in lines])),
        "processor s": float(np.mean([line["processor"] for line in lines])),
    }


def data(table: str, draw: int) -> tuple[np.ndarray, ...]:
    """x, y, and new rows."""
    rng = np.random.default_rng(draw)
    if table == "concrete":
        whole = load_regression(table)
        order = rng.permutation(len(whole.y))
        first, others = order[:ROWS], order[ROWS : ROWS + NEW_ROWS]
        return whole.x[first], whole.y[first], whole.x[others], whole.y[others]
    x = rng.uniform(size=(ROWS + NEW_ROWS, FEATURES))
    clean = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    noise = rng.standard_t(2, len(x)) if "degrees" in table else rng.normal(size=len(x))
    y = clean + noise * (3 * x[:, 0] if "grows" in table else 1.0)
    return x[:ROWS], y[:ROWS], x[ROWS:], y[ROWS:]


def _fitted(table: str, draw: int) -> tuple[wt.ScaleMixtureRegressor, float]:
    x, y, _, _ = data(table, draw)
    began = time.process_time()
    return wt.ScaleMixtureRegressor().fit(x, y), time.process_time() - began


def _ours(fitted: Any, table: str, draw: int, method: Any) -> dict[str, float]:
    *_, x_new, y_new = data(table, draw)
    model, seconds = fitted()
    began = time.process_time()
    lower, upper = model.predict_interval(x_new, COVERAGE, method=method)
    return _scores(lower, upper, y_new) | {"processor": seconds + time.process_time() - began}


def _peer(worker: Worker, table: str, draw: int, method: str) -> dict[str, float]:
    x, y, x_new, y_new = data(table, draw)
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: str(Path(folder) / f"{name}.npy") for name in ("x", "y", "x_new", "path")}
        for name, values in (("x", x), ("y", y), ("x_new", x_new)):
            np.save(paths[name], values)
        times = worker.ask("intervals", method=method, coverage=COVERAGE, **paths)
        ends = np.load(paths["path"])
    return _scores(ends[:, 0], ends[:, 1], y_new) | {"processor": times["processor"]}


def _scores(lower: np.ndarray, upper: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Coverage; width and interval score over the spread of y."""
    spread = float(np.std(y))
    return {
        "coverage": float(np.mean((lower <= y) & (y <= upper))),
        "width": float(np.mean(upper - lower)) / spread,
        "score": wt.metrics.interval_score(lower, upper, y, COVERAGE) / spread,
    }
