"""Tables as they come: the regressor with its defaults against what a data scientist would pick, with its defaults."""

import functools
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import widetail as wt
from benchmarks._prices import Table, numbers, prices
from benchmarks._process import Worker
from benchmarks._registry import Result, benchmark
from benchmarks._report import RESULTS
from benchmarks.workers.run_tables import METHODS
from widetail import datasets, metrics

SPLITS, SPLITS_OF_LARGE = 20, 5
MANY_ROWS = 5000
PRICES, TEST_PRICES = 3000, 1000
# CRPS is twice the mean quantile loss over all levels; here over ten.
CRPS_LEVELS = tuple(np.linspace(0.05, 0.95, 10).round(2).tolist())
INTERVALS = {0.5: (0.25, 0.75), 0.9: (0.05, 0.95), 0.95: (0.025, 0.975)}
LEVELS = (0.025, *CRPS_LEVELS, 0.975)
OURS = "widetail"
TABLES = (*datasets.UCI_NAMES, "prices")
# Every fit is kept as soon as it is done, and a later run goes on from there; delete the file to begin anew.
KEPT = RESULTS / "tables-fits.jsonl"


Known = dict[tuple[str, int, str], dict[str, Any]]


class Split(NamedTuple):
    """Training and test rows: numbers, and cells where the table has other than numbers."""

    x: np.ndarray
    y: np.ndarray
    x_new: np.ndarray
    y_new: np.ndarray
    cells: Table | None = None
    new_cells: Table | None = None


def so_far() -> Iterator[Result]:
    """A summary of every table of which one split is complete."""
    known = _known()
    for name in TABLES:
        done = [n for n in range(SPLITS) if all((name, n, method) in known for method in (OURS, *METHODS))]
        if done:
            yield summary(name, {method: [known[name, n, method] for n in done] for method in (OURS, *METHODS)})


@benchmark(
    "tables", f"CRPS and coverage of nine tables, {SPLITS} splits of small ones, {SPLITS_OF_LARGE} of large", so_far
)
def run() -> Iterator[Result]:
    known = _known()
    every = SPLITS // SPLITS_OF_LARGE
    with Worker("tables") as worker:
        for number in range(SPLITS):
            for name in TABLES:
                if not _is_large(name):
                    _fit_missing(name, number, worker, known)
            if number % every == every - 1:  # in between, so that a run that is stopped has some of each
                for name in TABLES:
                    if _is_large(name):
                        _fit_missing(name, number // every, worker, known)
    yield from so_far()


def _fit_missing(name: str, number: int, worker: Worker, known: Known) -> None:
    """Every method on one split, but for those that are known."""
    missing = [method for method in (OURS, *METHODS) if (name, number, method) not in known]
    split = split_of(name, number) if missing else None
    for method in missing:
        assert split is not None
        fit = _ours if method == OURS else functools.partial(_peers, worker, method)
        found, measured = fit(split)
        line = {"table": name, "split": number, "method": method, "rows": len(split.y)}
        known[name, number, method] = _keep(line | scores(found, split.y_new) | measured)


@functools.cache
def _is_large(name: str) -> bool:
    return name == "prices" or len(datasets.load_regression(name).split(0).y_train) >= MANY_ROWS


def split_of(name: str, number: int) -> Split:
    """The standard split of a UCI table, or a draw of the prices."""
    if name != "prices":
        split = datasets.load_regression(name).split(number)
        return Split(split.x_train, split.y_train, split.x_test, split.y_test)
    table, y = prices(PRICES + TEST_PRICES, number)
    x, n = numbers(table), PRICES
    first, last = ({key: cells[part] for key, cells in table.items()} for part in (slice(0, n), slice(n, None)))
    return Split(x[:n], y[:n], x[n:], y[n:], first, last)


def scores(quantiles: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """CRPS by the quantile losses, and the share of rows in every interval."""
    at = dict(zip(LEVELS, quantiles.T, strict=True))
    crps = metrics.crps_from_quantiles(np.stack([at[p] for p in CRPS_LEVELS]), np.array(CRPS_LEVELS), y)
    inside = {share: np.mean((at[low] <= y) & (y <= at[high])) for share, (low, high) in INTERVALS.items()}
    return {"crps": crps} | {f"in {share:.0%}": float(found) for share, found in inside.items()}


def summary(name: str, fits: dict[str, list[dict[str, Any]]]) -> Result:
    """Means over the splits; "tied" is a mean difference to the best of less than one standard error."""
    crps = {method: np.array([fit["crps"] for fit in lines]) for method, lines in fits.items()}
    best = min((method for method in crps if method != OURS), key=lambda method: np.mean(crps[method]))
    worse = crps[OURS] - crps[best]
    error = np.std(worse, ddof=1) / np.sqrt(len(worse)) if len(worse) > 1 else 0.0
    coverage = float(np.mean([fit["in 90%"] for fit in fits[OURS]]))
    return {
        "case": f"{name}, {fits[OURS][0]['rows']} rows, {len(worse)} splits",
        **{method: float(np.mean(values)) for method, values in crps.items()},
        "+-": float(error) if len(worse) > 1 else None,
        "best or tied": "yes" if np.mean(worse) <= error else "no",
        "in 90 %": coverage,
        "theirs": "-".join(f"{share:.2f}" for share in _range(fits)),
        "processor s": float(np.mean([fit["processor"] for fit in fits[OURS]])),
        "reached": "yes" if np.mean(worse) <= error and abs(coverage - 0.9) <= 0.02 else "NO",
    }


def _range(fits: dict[str, list[dict[str, Any]]]) -> tuple[float, float]:
    shares = [np.mean([fit["in 90%"] for fit in lines]) for method, lines in fits.items() if method != OURS]
    return min(shares), max(shares)


def _ours(split: Split) -> tuple[np.ndarray, dict[str, float]]:
    x: Any = split.x
    x_new: Any = split.x_new
    if split.cells is not None:
        import pandas

        x, x_new = pandas.DataFrame(split.cells), pandas.DataFrame(split.new_cells)
    wall, processor = time.perf_counter(), time.process_time()
    dist = wt.ScaleMixtureRegressor().fit(x, split.y).predict_dist(x_new)
    found = np.stack([np.asarray(dist.quantile(level)) for level in LEVELS], axis=1)
    times = {"seconds": time.perf_counter() - wall, "processor": time.process_time() - processor}
    return found, times | {"log_score": float(np.mean(np.asarray(dist.log_prob(split.y_new))))}


def _peers(worker: Worker, method: str, split: Split) -> tuple[np.ndarray, dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        paths = {key: str(Path(folder) / f"{key}.npy") for key in ("x", "y", "x_new", "y_new", "path")}
        for key in ("x", "y", "x_new", "y_new"):
            np.save(paths[key], getattr(split, key))
        measured = worker.ask("quantiles", method=method, levels=list(LEVELS), **paths)
        return np.load(paths["path"]), measured


def _known() -> Known:
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    return {(line["table"], line["split"], line["method"]): line for line in map(json.loads, lines)}


def _keep(line: dict[str, Any]) -> dict[str, Any]:
    line |= {"load": os.getloadavg()[0]}
    RESULTS.mkdir(exist_ok=True)
    with KEPT.open("a") as file:
        file.write(json.dumps(line) + "\n")
    return line
