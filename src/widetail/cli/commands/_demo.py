"""`widetail demo`: few rows, and intervals that hold what they promise, beside two models of scikit-learn."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from widetail.cli import _options as options
from widetail.cli._output import Output, table, use_no_display
from widetail.progress import reporter

DRAWS = 3


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder of the report.")] = Path("out/demo"),
    seed: options.Seed = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
):
    """Learn from few rows, and compare the intervals with those of two models of scikit-learn.

    Takes less than a minute and writes a report. Three tables that scikit-learn ships, forty random rows of each to
    learn from, three times, and all the others to predict.
    """
    from widetail.cli.commands import _demo_study as study

    output = Output(as_json=as_json, quiet=quiet)
    out.mkdir(parents=True, exist_ok=True)
    use_no_display()
    output.remark(f"three tables, {study.ROWS} rows to learn from, {DRAWS} draws, three models with their defaults")
    found = list(study.predictions(DRAWS, seed, reporter(not quiet, "tables")))
    scores = summary(found)
    report = _write_report(found, scores, out)
    results = {"rows": study.ROWS, "draws": DRAWS, "scores": scores, "report": str(report)}
    output.result(results, lambda console: _draw(console, scores, report))


def summary(found: Sequence[Any]) -> dict[str, dict[str, float]]:
    """Means over tables and draws by model, and the fewest and the most intervals that held on one draw."""
    scores = {}
    for model in dict.fromkeys(part.model for part in found):
        parts = [part.scores() for part in found if part.model == model]
        mean = {name: float(np.mean([part[name] for part in parts])) for name in parts[0]}
        held = [part["holds"] for part in parts]
        scores[model] = {"holds": mean["holds"], "worst": min(held), "best": max(held), **mean}
    return scores


def _draw(console: Any, scores: dict[str, dict[str, float]], report: Path) -> None:
    head = ["", "90 % intervals hold", "worst draw", "interval score", "width", "absolute error", "seconds"]
    rows = [
        (
            model,
            *(f"{score[name]:.1%}" for name in ("holds", "worst")),
            *(f"{score[name]:.2f}" for name in ("interval score", "width", "absolute error")),
            f"{score['seconds']:.1f}",
        )
        for model, score in scores.items()
    ]
    console.print(table(None, head, rows))
    console.print(f"{said(scores)}\n\nreport: {report}")


def said(scores: dict[str, dict[str, float]]) -> str:
    """Who wins what, in words; whoever it is."""
    nearest = min(scores, key=lambda model: abs(scores[model]["holds"] - 0.9))
    winners = {
        name: min(scores, key=lambda model: scores[model][name])
        for name in ("interval score", "absolute error", "seconds")
    }
    return (
        "The interval score is the width, and twenty times by how much a target lies outside; lower is better, in "
        "standard deviations of the target.\n"
        f"Nearest to 90 %: {nearest}. Best interval score: {winners['interval score']}. "
        f"Smallest error: {winners['absolute error']}. Fastest: {winners['seconds']}."
    )


def _write_report(found: Sequence[Any], scores: dict[str, dict[str, float]], out: Path) -> Path:
    from widetail import plots
    from widetail.cli.commands import _demo_pictures as pictures
    from widetail.cli.commands import _demo_study as study
    from widetail.experiments.report import Code, Figure, Prose, Report, Section, Table, png, to_html
    from widetail.files import write_whole

    columns = ["interval score", "width", "absolute error", "seconds"]
    values = np.array([[score[name] for name in columns] for score in scores.values()], np.float64)
    held = np.array([[100 * score[name] for name in ("holds", "worst", "best")] for score in scores.values()])
    ours = next(part.fitted for part in found if part.model == study.OURS)
    shown = next(iter(dict.fromkeys(part.table for part in found)))
    first = [part for part in found if part.table == shown and part.draw == 0]
    report = Report(
        title="Forty rows: whose intervals hold?",
        lead=(
            f"Three tables that scikit-learn ships. Three models learn from the same {study.ROWS} random rows of each, "
            f"{DRAWS} times, and say for every other row in which interval the target lies with a probability of 90 %. "
            "None of the targets can be negative: all models learn its logarithm."
        ),
        findings=said(scores).splitlines(),
        facts={},
        sections=[
            Section(
                "Do the intervals hold?",
                [
                    Table(
                        plots.ResultTable(list(scores), ["mean", "worst draw", "best draw"], held, best=None, digits=1),
                        "Share of new rows inside of their 90 % intervals, in per cent.",
                    ),
                    Figure(
                        "coverage",
                        png(pictures.coverages(found)),
                        "Every dot is one draw of forty rows. Below the line intervals promise too much.",
                    ),
                ],
            ),
            Section(
                "What do they cost?",
                [
                    Table(
                        plots.ResultTable(list(scores), columns, values, compare="rows", digits=2),
                        "In standard deviations of the target; lower is better. The interval score is the width of the "
                        "intervals, and twenty times by how much targets lie outside: narrow ones are good as long as "
                        "they hold. Bold is the best; a width alone is not a merit.",
                    ),
                ],
            ),
            Section(
                "What one sees",
                [
                    Figure(
                        "intervals",
                        png(pictures.intervals(first)),
                        f"{shown}, first draw: new rows in the order of what is predicted, and the intervals.",
                    ),
                    Prose(
                        "Forty rows do not tell the length scales of ten features. widetail averages over what they "
                        "may be and over four kinds of functions, with a heavy-tailed prior for the scale, and checks "
                        "the width on rows that are left out one at a time."
                    ),
                ],
            ),
            Section("What it averaged", [Code(str(ours.integrated_))]),
        ],
    )
    path = out / "report.html"
    write_whole(path, to_html([report], report.title).encode())
    return path
