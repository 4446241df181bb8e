"""What the regression experiment found."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from widetail.experiments.reporting._aggregate import Summary, paired_differences, summarise
from widetail.experiments.reporting._figures import grid, png
from widetail.experiments.reporting._paper import UCI_BURR, UCI_NLL, UCI_RMSE
from widetail.experiments.reporting._parts import Bullets, Figure, Prose, Section, Table, TextTable
from widetail.experiments.reporting._tables import between, ours, papers, side_by_side
from widetail.experiments.running._registry import Findings, Results
from widetail.experiments.uci._models import BURR, ENSEMBLE, INVERSE_GAMMA, MODELS, NNGP, RBF
from widetail.plots import coverage_curve, pit_histogram

NAMES = {
    "boston": "Boston Housing (506, 13)",
    "concrete": "Concrete Strength (1030, 8)",
    "energy": "Energy Efficiency (768, 8)",
    "kin8nm": "Kin8nm (8192, 8)",
    "naval": "Naval Propulsion (11934, 16)",
    "power": "Power Plant (9568, 4)",
    "wine_red": "Wine Quality Red (1599, 11)",
    "yacht": "Yacht Hydrodynamics (308, 6)",
}
PAPERS = {
    "paper: PBP-MV": "PBP-MV",
    "paper: Dropout": "Dropout",
    "paper: Ensembles": "Ensembles",
    "paper: RBF": "RBF",
    "paper: NNGP": "NNGP",
    "paper: inverse gamma": "Ours",
}
# our column after the one of the paper that it answers
ORDER = (
    "paper: PBP-MV",
    "paper: Dropout",
    "paper: Ensembles",
    ENSEMBLE,
    "paper: RBF",
    RBF,
    "paper: NNGP",
    NNGP,
    "paper: inverse gamma",
    INVERSE_GAMMA,
    BURR,
)
SHOWN = (RBF, NNGP, INVERSE_GAMMA, ENSEMBLE)  # Burr XII lies on the inverse gamma in every picture


def findings(results: Results) -> Findings:
    """Sentences and sections of the report."""
    rows = results.rows
    tables: dict[str, str] = {str(name): NAMES.get(str(name), str(name)) for name in results.config.tables}
    nll = summarise(rows, ("table", "model"), "nll")
    differences = {
        model: paired_differences(rows, ("table",), "model", model, NNGP, ("split",), "nll_own")
        for model in (INVERSE_GAMMA, BURR)
    }
    sections = [
        Section("Negative log-likelihood", _scores(rows, tables, nll)),
        Section("The prior of the readout variance", _priors(rows, tables, differences)),
        Section("Calibration", _calibration(rows, tables)),
        Section("What was chosen, and how long it took", _choices(rows, tables)),
        Section("How this differs from the paper's protocol", _protocol(results)),
    ]
    return Findings(_sentences(results, tables, nll, differences), sections)


def _sentences(
    results: Results,
    tables: Mapping[str, str],
    nll: Mapping[tuple[Any, ...], Summary],
    differences: Mapping[str, Mapping[tuple[Any, ...], Summary]],
) -> list[str]:
    best = {name: min(MODELS, key=lambda model: nll[name, model].mean) for name in tables}
    # which of three priors is ahead by a few ten-thousandths of a nat says nothing
    wide = "a wide network (NNGP or mixture)"
    wins = Counter(model if model in (RBF, ENSEMBLE) else wide for model in best.values())
    printed = {name: min(entry.value for entry in UCI_NLL[name].values()) for name in tables if name in UCI_NLL}
    lower = [name for name, value in printed.items() if nll[name, best[name]].mean < value]
    gaps = {name: differences[INVERSE_GAMMA][(name,)] for name in tables}
    clear = [name for name, gap in gaps.items() if gap.is_clear]
    inside = summarise(results.rows, ("table", "model"), "in_90%")
    covered = [inside[name, INVERSE_GAMMA].mean for name in tables]
    count = f"{results.config.splits} splits, {len(tables)} table{'s' * (len(tables) > 1)}"
    return [
        f"Lowest mean NLL of y in original units ({count}): "
        + ", ".join(f"**{model}** on {number}" for model, number in wins.most_common())
        + ".",
        f"Our best column is below the paper's best column on {len(lower)} of {len(printed)} tables. The protocols "
        "differ (see below), so this says that our fits are in order, not that a method beats another.",
        f"The heavy tail of the prior itself changes little once there are hundreds of rows: the NLL of the "
        f"inverse-gamma mixture minus that of the NNGP, both without recalibration, is "
        f"{between([gap.mean for gap in gaps.values()])} nats; a paired t-test at 5 % sees a difference on "
        f"{len(clear)} of {len(tables)} tables.",
        f"90 % intervals of the inverse-gamma mixture, calibrated on left-out training rows, hold "
        f"{between([100 * share for share in covered], 1)} % of the test targets.",
    ]


def _scores(rows: Sequence[Mapping[str, Any]], tables: Mapping[str, str], nll: Any) -> list[Any]:
    with_rbf = _rbf_counts(rows)
    short = {name: title.split(" (")[0] + (" †" if name in with_rbf else "") for name, title in tables.items()}

    def layout(title: str, paper: Any, summaries: Any) -> Table:
        columns = {
            name: papers(paper, PAPERS[name]) if name in PAPERS else ours(summaries, name, factor=1.0) for name in ORDER
        }
        return Table(side_by_side(title, "data set", short, columns, beside=list(PAPERS)), "")

    rmse = summarise(rows, ("table", "model"), "rmse")
    first = layout("NLL of y in original units, mean ± standard error over splits; lower is better", UCI_NLL, nll)
    second = layout("RMSE of y in original units, mean ± standard error over splits; lower is better", UCI_RMSE, rmse)
    note = (
        "Bold: the best of our own columns. In italics: the paper's numbers, of another protocol; its spread is over "
        "reshuffled training sets with one fixed test set."
    )
    if with_rbf:
        counts = ", ".join(f"{tables[name].split(' (')[0]} {count}" for name, count in with_rbf.items())
        note += (
            " † On some splits the kernel with the most evidence was an RBF, and NNGP, inverse gamma and Burr XII are "
            f"processes with that kernel, not with one of a network: {counts} splits."
        )
    blocks: list[Any] = [Table(first.results, note), second]
    if "naval" in tables:
        small = ", ".join(f"{model} {rmse['naval', model].mean:.1e}" for model in MODELS)
        blocks.append(Prose(f"RMSE of Naval Propulsion, which two digits do not show: {small}."))
    return blocks


def _rbf_counts(rows: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """On how many splits of every table the columns named after networks are those of an RBF kernel."""
    return Counter(row["table"] for row in rows if row["model"] == INVERSE_GAMMA and row["architecture"] == "rbf")


def _priors(rows: Sequence[Mapping[str, Any]], tables: Mapping[str, str], differences: Any) -> list[Any]:
    own = summarise(rows, ("table", "model"), "nll_own")
    columns = {
        "paper: NNGP": papers(UCI_BURR, "NNGP"),
        NNGP: ours(own, NNGP),
        "paper: inverse gamma": papers(UCI_BURR, "Inverse gamma"),
        INVERSE_GAMMA: ours(own, INVERSE_GAMMA),
        "paper: Burr XII": papers(UCI_BURR, "Burr XII"),
        BURR: ours(own, BURR),
    }
    beside = [name for name in columns if name.startswith("paper")]
    gaps = {f"{model} minus NNGP": ours(differences[model]) for model in differences}
    return [
        Prose(
            "The processes themselves, without recalibration of their predictive distribution: what differs between "
            "these columns is the prior of the readout variance alone."
        ),
        Table(
            side_by_side("NLL of y by prior, without recalibration", "data set (m, d)", tables, columns, beside=beside)
        ),
        Table(
            side_by_side(
                "Difference of the NLL on the same split, mean ± standard error",
                "data set (m, d)",
                tables,
                gaps,
                best=None,
                digits=4,
            ),
            "Below zero: the mixture is better. After n observations an inverse-gamma mixture is a Student-t process "
            "with 2a + n degrees of freedom, which is all but Gaussian on every one of these tables; its location is "
            "that of the Gaussian process.",
        ),
    ]


def _calibration(rows: Sequence[Mapping[str, Any]], tables: Mapping[str, str]) -> list[Any]:
    blocks: list[Any] = []
    for level in ("50%", "90%", "95%"):
        inside = summarise(rows, ("table", "model"), f"in_{level}")
        columns = {model: ours(inside, model, factor=100.0) for model in MODELS}
        title = f"Test targets inside the central {level.replace('%', ' %')} interval, in per cent"
        blocks.append(Table(side_by_side(title, "data set (m, d)", tables, columns, best=None, digits=1)))
    crps = summarise(rows, ("table", "model"), "crps")
    columns = {model: ours(crps, model) for model in MODELS}
    blocks.append(
        Table(side_by_side("CRPS in original units; lower is better", "data set (m, d)", tables, columns, digits=3))
    )
    pits = {(name, model): _pit_values(rows, name, model) for name in tables for model in SHOWN}
    titles = {name: tables[name].split(" (")[0] for name in tables}
    blocks.append(Figure("uci-coverage", _coverage(pits, titles), _COVERAGE_CAPTION))
    blocks.append(Figure("uci-pit", _pit(pits, titles), _PIT_CAPTION))
    return blocks


_COVERAGE_CAPTION = (
    "Share of test targets inside central intervals against the share that the intervals promise, all splits together. "
    "Below the diagonal intervals are too narrow."
)
_PIT_CAPTION = (
    "Probability integral transform of the test targets: flat is calibrated, a bowl is too narrow, a hump too wide. "
    "Targets that take few values (Wine, Naval) cannot be flat. The bands hold for independent points; a row can be a "
    "test row of several splits."
)


def _pit_values(rows: Sequence[Mapping[str, Any]], table: str, model: str) -> np.ndarray:
    """The values, each moved to the middle of its narrow bin."""
    counts = np.sum([row["pit_counts"] for row in rows if (row["table"], row["model"]) == (table, model)], axis=0)
    middles = (np.arange(len(counts)) + 0.5) / len(counts)
    return np.repeat(middles, counts)


def _coverage(pits: Mapping[tuple[str, str], np.ndarray], titles: Mapping[str, str]) -> bytes:
    figure, axes = grid(len(titles), 3.5)
    for ax, name in zip(axes, titles, strict=True):
        for model in SHOWN:
            coverage_curve(pits[name, model], label=model, ax=ax)
        _tidy(ax, titles[name], is_first=ax is axes[0])
    return png(figure)


def _pit(pits: Mapping[tuple[str, str], np.ndarray], titles: Mapping[str, str]) -> bytes:
    figure, axes = grid(len(titles), 3.0)
    for ax, name in zip(axes, titles, strict=True):
        for model in (RBF, INVERSE_GAMMA, ENSEMBLE):
            pit_histogram(pits[name, model], bins=10, label=model, ax=ax)
        _tidy(ax, titles[name], is_first=ax is axes[0])
    return png(figure)


def _tidy(ax: Any, title: str, *, is_first: bool) -> None:
    ax.set_title(title, fontsize="medium")
    legend = ax.get_legend()
    if is_first:
        ax.legend(loc=legend._loc, frameon=False, fontsize="x-small", ncols=1)
    else:
        legend.remove()
        ax.set_ylabel("")


def _choices(rows: Sequence[Mapping[str, Any]], tables: Mapping[str, str]) -> list[Any]:
    seconds = summarise(rows, ("table", "model"), "seconds")
    columns = {model: ours(seconds, model) for model in MODELS}
    lines = []
    for name, title in tables.items():
        cells = [title]
        for model in (INVERSE_GAMMA, ENSEMBLE):
            mine = [row for row in rows if (row["table"], row["model"]) == (name, model)]
            cells.append(
                ", ".join(f"{what} ({n})" for what, n in Counter(r["architecture"] for r in mine).most_common())
            )
        mine = [row for row in rows if (row["table"], row["model"]) == (name, INVERSE_GAMMA)]
        degrees = np.median([row["tail_degrees"] for row in mine])
        cells.append("normal" if degrees > 100 else f"t with {degrees:.1f} degrees of freedom")
        lines.append(cells)
    return [
        TextTable(
            ("data set", "architecture by evidence (splits)", "finite networks (splits)", "scatter of left-out rows"),
            lines,
        ),
        Table(
            side_by_side(
                "Seconds for one split, fit and prediction", "data set (m, d)", tables, columns, best=None, digits=1
            ),
            "What each column would take alone; NNGP, inverse gamma and Burr XII share the choice of the architecture, "
            "which is counted in each of them.",
        ),
    ]


def _protocol(results: Results) -> list[Any]:
    return [
        Prose("What was done here:"),
        Bullets(
            [
                f"The first {results.config.splits} of the 20 standard 90/10 splits of Hernández-Lobato and Adams "
                "(2015); all models see the same training rows, and test rows are used for scores alone.",
                "Scores are of noisy targets y in their original units: the NLL is the mean over test rows of minus "
                "the log marginal density, in nats. The ± is the standard error over splits, which overlap.",
                "Depth and activation by evidence (two hidden erf or relu layers, or an RBF kernel), one relevance per "
                "feature, hyperparameters by evidence from up to 3000 training rows, conditioning on all of them.",
                f"Tables with up to {results.config.most_rows_to_relearn} training rows: NNGP and Burr XII learn "
                "kernel and noise on under their own prior. Larger ones: they share kernel and noise with the inverse "
                "gamma. The parameters of the inverse-gamma and Burr XII priors are chosen from {0.5, 1, 2, 3, 4} by "
                "evidence; the readout variance of NNGP and RBF is the one with the largest evidence.",
                "Width and tails of the predictive distribution are measured on training rows left out one at a time, "
                "in the same way for RBF, NNGP and both mixtures; the second section has the scores without it.",
                "The finite ensemble draws a readout variance per network from InverseGamma(2, 2), is stopped early by "
                "held-out training rows, which also choose activation and learning rate and give the noise.",
            ]
        ),
        Prose("Why the paper's numbers cannot be compared with these line by line:"),
        Bullets(
            [
                "Its baselines (PBP-MV, Dropout, Ensembles, RBF, NNGP) were taken from another paper with another "
                "protocol.",
                "Its own NLL is of the noise-free function f, not of y, and the spread is over reshuffled training "
                "sets with one fixed test set, from splits of 80/10/10.",
                "Its Burr XII column chose hyperparameters on the test set, and importance sampling with the prior as "
                "proposal degenerates with the number of rows.",
                "Wine Quality Red: the paper counts 1588 rows, the standard table has 1599, of which 240 repeat "
                "another row. The targets are integers, so a density can be made as large as one likes at rows that "
                "were seen before: NLLs below zero say how sharply repeated rows are recognised. Naval Propulsion has "
                "51 different targets.",
            ]
        ),
    ]
