"""What `few` found: curves over the number of rows, and a table for every score."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from widetail.experiments.reporting._aggregate import paired_differences, summarise
from widetail.experiments.reporting._figures import panels, png
from widetail.experiments.reporting._parts import Bullets, Figure, Prose, Section, Table
from widetail.experiments.running._registry import Findings, Results
from widetail.plots import ResultTable

HYPERPARAMETERS = {"optimum": "hyperparameters at their optimum", "integrated": "hyperparameters integrated out"}
PLAIN = "learned"
TITLES = {
    "learned": "scale by maximum likelihood",
    "fixed": "scale fixed at 1",
    "inverse gamma": "inverse gamma (2, 2)",
    "half-Cauchy": "half-Cauchy (1)",
    "Burr XII": "Burr XII (2, 1)",
}
Best = Literal["lowest", "highest"] | None
SCORES: tuple[tuple[str, str, float, Best, int], ...] = (
    ("log_score", "Log score, nats per row", 1.0, "highest", 3),
    ("interval_score", "Interval score of 95 % intervals", 1.0, "lowest", 3),
    ("in_95%", "Rows inside of 95 % intervals, per cent", 100.0, None, 1),
    ("in_90%", "Rows inside of 90 % intervals, per cent", 100.0, None, 1),
    ("rmse", "RMSE of the median", 1.0, "lowest", 3),
)

Rows = Sequence[Mapping[str, Any]]


def findings(results: Results) -> Findings:
    """Curves, tables of medians and means, and what the differences are."""
    rows = _complete(results.rows)
    counts = sorted({row["n"] for row in rows})
    cases = len({(row["table"], row["draw"]) for row in rows})
    medians = Section(
        "Medians",
        [
            Prose(
                f"Over {cases} cases (tables and draws) for every number of rows; in units of the test targets' std."
            ),
            *(_table(rows, counts, *score, middle=np.median) for score in SCORES),
        ],
    )
    means = Section(
        "Means",
        [
            Prose("The same with means, in which a single overconfident prediction can weigh more than all others."),
            *(_table(rows, counts, *score, middle=np.mean) for score in SCORES[:2]),
        ],
    )
    figure = Figure("few-curves", _curves(rows, counts), _CAPTION)
    worth = Section("What it is worth, table by table", _worth(rows, counts))
    sections = [
        Section("Learning curves", [figure]),
        medians,
        means,
        worth,
        _protocol(results, len({row["draw"] for row in rows})),
    ]
    return Findings(_sentences(rows, counts), sections)


def _complete(rows: Rows) -> Rows:
    """Of an unfinished run the numbers of rows that all tables have, and the cases (tables, draws) of all of those."""
    cases = {n: {(row["table"], row["draw"]) for row in rows if row["n"] == n} for n in {row["n"] for row in rows}}
    most = max(len({table for table, _ in found}) for found in cases.values())
    complete = [n for n, found in cases.items() if len({table for table, _ in found}) == most]
    shared = set.intersection(*(cases[n] for n in complete))
    return [row for row in rows if row["n"] in complete and (row["table"], row["draw"]) in shared]


_CAPTION = (
    "Medians over tables and draws: log score relative to that of the plain process with everything at its optimum, "
    "interval score, and the share of test rows inside of 95 % intervals (the line is what they promise). Lines with "
    "circles: hyperparameters integrated out."
)


def _values(rows: Rows, name: str, prior: str, hyper: str, n: int) -> np.ndarray:
    mine = [row[name] for row in rows if (row["prior"], row["hyperparameters"], row["n"]) == (prior, hyper, n)]
    return np.array(mine, np.float64)


def _models() -> list[tuple[str, str]]:
    return [(prior, hyper) for hyper in HYPERPARAMETERS for prior in TITLES]


def _table(
    rows: Rows, counts: Sequence[int], name: str, title: str, factor: float, best: Best, digits: int, *, middle: Any
) -> Table:
    values = [
        [factor * float(middle(_values(rows, name, prior, hyper, n))) for n in counts] for prior, hyper in _models()
    ]
    names = [f"{TITLES[prior]}, {'integrated' if hyper == 'integrated' else 'optimum'}" for prior, hyper in _models()]
    columns = [f"{n} rows" for n in counts]
    return Table(ResultTable(names, columns, np.array(values), title=title, best=best, compare="rows", digits=digits))


def _sentences(rows: Rows, counts: Sequence[int]) -> list[str]:
    said = []
    for prior in ("inverse gamma", "half-Cauchy", "Burr XII"):
        gains = ", ".join(f"{_gain(rows, n, prior):.2f}" for n in counts)
        said.append(
            f"Log score of the {prior} prior minus that of the plain process whose scale is learned, both at their "
            f"optimum, with {_listed(counts)} rows: median {gains} nats per row."
        )
    gains = ", ".join(f"{_gain(rows, n, 'inverse gamma', 'integrated'):.2f}" for n in counts)
    said.append(f"With hyperparameters integrated out as well, the inverse gamma gains {gains}.")
    alone = ", ".join(f"{_gain(rows, n, PLAIN, 'integrated'):.2f}" for n in counts)
    said.append(f"Integrating hyperparameters alone, with a learned scale and no heavy tail, gains {alone}.")
    inside = {
        label: ", ".join(f"{100 * np.mean(_values(rows, 'in_95%', prior, hyper, n)):.0f}" for n in counts)
        for label, prior, hyper in (
            ("of the plain process", PLAIN, "optimum"),
            ("of the inverse gamma at its optimum", "inverse gamma", "optimum"),
            ("of the inverse gamma with hyperparameters integrated out", "inverse gamma", "integrated"),
        )
    }
    said.append("95 % intervals hold, " + "; ".join(f"{label}: {share} %" for label, share in inside.items()) + ".")
    return said


def _listed(counts: Sequence[int]) -> str:
    return ", ".join(map(str, counts[:-1])) + f" and {counts[-1]}" if len(counts) > 1 else str(counts[0])


def _gain(rows: Rows, n: int, prior: str, hyper: str = "optimum") -> float:
    """Median over cases of the difference of log scores on the same rows."""
    mine, plain = _by_case(rows, n, prior, hyper), _by_case(rows, n, PLAIN, "optimum")
    return float(np.median([mine[case] - plain[case] for case in mine]))


def _by_case(rows: Rows, n: int, prior: str, hyper: str) -> dict[tuple[str, int], float]:
    return {
        (row["table"], row["draw"]): row["log_score"]
        for row in rows
        if (row["prior"], row["hyperparameters"], row["n"]) == (prior, hyper, n)
    }


def _worth(rows: Rows, counts: Sequence[int]) -> list[Any]:
    """Gains of the heavy tail alone, hyperparameters integrated out in both."""
    integrated = [row for row in rows if row["hyperparameters"] == "integrated"]
    differences = paired_differences(
        integrated, ("table", "n"), "prior", "inverse gamma", PLAIN, ("draw",), "log_score"
    )
    own = summarise(integrated, ("table", "n"), lambda row: row["log_score"] if row["prior"] == PLAIN else None)
    tables = list(dict.fromkeys(row["table"] for row in rows))
    values = np.array([[differences[table, n].mean for n in counts] for table in tables])
    errors = np.array([[differences[table, n].error for n in counts] for table in tables])
    plain = np.array([[own[table, n].mean for n in counts] for table in tables])
    columns = [f"{n} rows" for n in counts]
    return [
        Table(
            ResultTable(tables, columns, values, errors, "Inverse gamma minus learned scale, nats per row", best=None),
            "Mean and standard error over draws; hyperparameters are integrated out in both. Above zero: the heavy "
            "tail is better.",
        ),
        Table(ResultTable(tables, columns, plain, title="Log score with the learned scale", best=None)),
    ]


def _curves(rows: Rows, counts: Sequence[int]) -> bytes:
    figure, axes = panels(3, (12.0, 4.0))
    for prior, hyper in _models():
        number = list(TITLES).index(prior)
        style = {"color": f"C{number}", "marker": "o" if hyper == "integrated" else None, "ms": 4, "lw": 1.6}
        style |= {"ls": "-" if hyper == "integrated" else "--", "label": f"{TITLES[prior]}, {hyper}"}
        gains = [_gain(rows, n, prior, hyper) for n in counts]
        axes[0].plot(counts, gains, **style)
        for ax, name in zip(axes[1:], ("interval_score", "in_95%"), strict=True):
            factor = 100.0 if name == "in_95%" else 1.0
            ax.plot(counts, [factor * np.median(_values(rows, name, prior, hyper, n)) for n in counts], **style)
    axes[0].set_ylabel("log score, relative to the plain process, nats")
    axes[1].set_ylabel("interval score of 95 % intervals")
    axes[2].set_ylabel("inside of 95 % intervals, per cent")
    axes[2].axhline(95, color="0.5", lw=1.0)
    for ax in axes:
        ax.set_xscale("log")
        ax.set_xticks(counts, [str(n) for n in counts])
        ax.minorticks_off()
        ax.set_xlabel("rows")
    axes[0].set_yscale("symlog", linthresh=0.5)
    axes[0].set_ylim(bottom=-0.5)
    axes[1].set_yscale("log")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False, fontsize=7)
    return png(figure)


def _protocol(results: Results, draws: int) -> Section:
    config = results.config
    return Section(
        "How it was done",
        [
            Bullets(
                [
                    f"{draws} draws of every table and number of rows, at most {config.test_rows} other rows to "
                    "predict; inputs and targets standardised by the rows that are learned from. UCI tables: random "
                    "rows. Functions of ten inputs: scrambled Sobol points, noise of 0.5 % of the values' standard "
                    "deviation.",
                    "One kernel for all: functions of any features, added up (`kernels.Anova`), with a length and a "
                    "variance for every feature, and noise inside of the scale. No calibration on left-out rows, which "
                    "the regressor adds.",
                    "Optimum: largest evidence of hyperparameters, the best of two starts; a learned scale is "
                    "maximised with them. Integrated: `learning.integrate_evidence` with its hyperpriors; a learned "
                    "scale stays where it was largest.",
                    "Scores are of single rows in units of the test targets; `effective` in the rows of the results is "
                    "the effective number of draws.",
                ]
            )
        ],
    )
