"""`widetail inspect`."""

import re
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from widetail.cli import _options as options
from widetail.cli._errors import UsageError
from widetail.cli._model_file import TableModel
from widetail.cli._output import (
    PICTURES,
    Output,
    check_output,
    counted,
    integrated_table,
    noise_table,
    save_figure,
    table,
    use_no_display,
)

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
BARS = " ▁▂▃▄▅▆▇█"
BINS = 48
MOST_OUTLIERS = 10  # on the terminal; --json has all
MOST_DRAWN = 6  # columns whose partial dependence is drawn


def inspect(
    model: options.Model,
    plot: options.PlotFile = None,
    plot_outliers: Annotated[
        Path | None,
        typer.Option(
            "--plot-outliers", metavar="FILE", help="Draw targets against their predictions from the other rows."
        ),
    ] = None,
    plot_dependence: Annotated[
        Path | None,
        typer.Option(
            "--plot-dependence",
            metavar="FILE",
            help="Draw average predictions along the columns that matter most, with bands.",
        ),
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
):
    """Show what a model is and has learned.

    Columns, architecture, learned numbers, the readout scale before and after the data (drawn with --plot), and rows
    that a model with a scale for every row holds for outliers (--noise rows, both or auto; marked by --plot-outliers).
    """
    from widetail import plots
    from widetail.cli import _pictures as pictures
    from widetail.cli._model_file import load_model

    output = Output(as_json=as_json, quiet=quiet)
    check_output("--plot", plot, PICTURES)
    check_output("--plot-outliers", plot_outliers, PICTURES)
    check_output("--plot-dependence", plot_dependence, PICTURES)
    fitted = load_model(model)
    parts = _parts(fitted.estimator)
    facts = _facts(fitted, parts)
    left_out = _left_out(fitted.estimator)
    if left_out is not None:
        facts["outliers"] = [left_out.facts(row) for row in fitted.estimator.outliers().tolist()]
    drawn = parts if parts is not None and _has_density(parts) else None
    if plot is not None and drawn is not None:
        use_no_display()
        save_figure(pictures.scale(drawn.prior, drawn.posterior), plot)
        facts["plot"] = str(plot)
    elif plot is not None:
        output.remark("--plot: this model has no density of the readout variance; nothing is drawn.")
    if plot_outliers is not None:
        if left_out is None:
            raise UsageError("--plot-outliers is for exact models of regression.")
        use_no_display()
        outliers = fitted.estimator.outliers()
        axes = plots.left_out(left_out.target, left_out.predicted, outliers=outliers, name=facts["target"], first=1)
        save_figure(axes.figure, plot_outliers)
        facts["plot_outliers"] = str(plot_outliers)
    if plot_dependence is not None:
        if not hasattr(fitted.estimator, "partial_dependence"):
            raise UsageError("--plot-dependence is for exact models of regression.")
        use_no_display()
        along = [fitted.estimator.partial_dependence(name) for name in list(facts["relevances"])[:MOST_DRAWN]]
        save_figure(plots.dependences(along, ylabel=f"average {facts['target']}"), plot_dependence)
        facts |= {"plot_dependence": str(plot_dependence), "dependence": {one.name: _points(one) for one in along}}
    output.result(facts, lambda console: _draw(console, facts, drawn))


def _points(found: Any) -> list[dict[str, Any]]:
    """Average predictions along a column, as JSON types."""
    low, high = found.average.interval(0.9)
    numbers = (np.asarray(part, float).tolist() for part in (found.average.quantile(0.5), low, high))
    values = found.values.tolist() if found.values.dtype.kind == "f" else found.values.astype(str).tolist()
    names = ("value", "median", "lower", "upper")
    return [dict(zip(names, one, strict=True)) for one in zip(values, *numbers, strict=True)]


class _LeftOut(NamedTuple):
    """Targets, and their predictions from all other rows, in the units of the table."""

    target: np.ndarray
    predicted: np.ndarray
    deviations: np.ndarray  # how many standard deviations the one lies above the other

    def facts(self, row: int) -> dict[str, Any]:
        """Of one row; rows are counted from one, as in messages."""
        numbers = zip(self._fields, (float(part[row]) for part in self), strict=True)
        return {"row": row + 1, **dict(numbers)}


def _left_out(estimator: Any) -> _LeftOut | None:
    if not hasattr(estimator, "outliers"):
        return None
    posterior, scaling = estimator.posterior, estimator.y_scaling_
    left = posterior.left_out()
    target, predicted = (y * scaling.factor[0] + scaling.shift[0] for y in (posterior.y, left.location))
    return _LeftOut(target, predicted, (posterior.y - left.location) / left.scale)


class _Parts(NamedTuple):
    """What a model is made of, exact or sparse."""

    network: Any
    prior: Any
    noise: Any
    posterior: Any


def _parts(estimator: Any) -> _Parts | None:
    if hasattr(estimator, "process_"):
        process = estimator.process_
        return _Parts(process.kernel, process.prior_scale, process.noise, estimator.posterior_.scale)
    if hasattr(estimator, "model_"):
        import widetail as wt

        prior = wt.InverseGamma(2.0, 2.0) if estimator.prior is None else estimator.prior
        return _Parts(estimator.kernel_, prior, estimator.model_.likelihood, estimator.model_.q.law)
    return None


def _has_density(parts: _Parts) -> bool:
    """Whether both laws can be drawn; that of a sparse model has quantiles only."""
    return type(parts.prior).__name__ != "PointMass" and hasattr(parts.posterior, "log_prob_of_log")


def _facts(model: TableModel, parts: _Parts | None) -> dict[str, Any]:
    from widetail.tables import as_json

    tails = getattr(model.estimator, "tails_", None)
    kind = getattr(model.estimator, "target_", None)
    relevances = getattr(model.estimator, "relevances", dict)()
    facts = {
        **model.facts,
        "task": model.task,
        "target": model.target.name,
        "columns": [as_json(column) for column in model.estimator.table_.columns_],
        "relevances": relevances,
        "target_kind": None if kind is None else kind.describe(),
        "tails": None
        if tails is None
        else {"degrees_of_freedom": float(tails.degrees[0]), "width_factor": float(tails.factor[0])},
    }
    if parts is not None:
        facts |= {"network": _rounded(repr(parts.network)), "prior": repr(parts.prior), "noise": repr(parts.noise)}
        facts["scale"] = {
            name: {f"{p:g}": float(law.quantile(np.asarray(p))) for p in QUANTILES}
            for name, law in (("prior", parts.prior), ("posterior", parts.posterior))
        }
    return facts


def _rounded(text: str) -> str:
    """Code with four digits of every number, for reading."""
    return re.sub(r"\d+\.\d{4,}(e-?\d+)?", lambda found: f"{float(found.group()):.4g}", text)


def _bars(prior: Any, posterior: Any) -> list[tuple[str, str]]:
    """Both densities as a line of blocks on one axis of log variance."""
    from widetail.cli import _pictures as pictures

    grid = pictures.log_grid(prior, posterior, BINS)
    lines = []
    for name, law in (("prior", prior), ("posterior", posterior)):
        density = np.exp(np.asarray(law.log_prob_of_log(grid)))
        heights = np.ceil((len(BARS) - 1) * density / density.max()).astype(int)
        lines.append((name, "".join(BARS[height] for height in heights)))
    left, right = f"{np.exp(grid[0]):.3g}", f"{np.exp(grid[-1]):.3g}"
    lines.append(("", left + right.rjust(BINS - len(left))))
    return lines


def _draw(console: Any, facts: dict[str, Any], drawn: _Parts | None) -> None:
    tails = facts["tails"]
    summary = [
        ("model", facts["estimator"]),
        ("task", f"{facts['task']} of {facts['target']!r}, from {facts['rows']} rows"),
        ("target", facts["target_kind"]),
        ("architecture", facts["architecture"]),
        ("network", facts.get("network")),
        ("prior", facts.get("prior")),
        ("noise", facts.get("noise")),
        (
            "tails",
            None
            if tails is None
            else f"{tails['degrees_of_freedom']:.3g} degrees of freedom, {tails['width_factor']:.3g} times the width "
            f"(measured on left-out rows)",
        ),
        ("log evidence", None if facts["log_evidence"] is None else f"{facts['log_evidence']:.2f}"),
    ]
    for name, value in summary:
        if value is not None:
            console.print(f"{name:14}{value}")
    columns = [
        (column["name"], column["kind"], ", ".join(column["levels"][:8]) + ", ..." * (len(column["levels"]) > 8))
        for column in facts["columns"]
    ]
    console.print(table(None, ["column", "kind", "categories"], columns))
    if facts["relevances"]:
        shown = list(facts["relevances"].items())
        console.print(table(None, ["column", "what it does to predictions (standard deviation)"], shown))
    if facts.get("integrated"):  # files of earlier versions do not know it
        console.print(integrated_table(facts["integrated"]))
    if facts["learned"]:
        console.print(table(None, ["learned", "value"], [(one["name"], one["value"]) for one in facts["learned"]]))
    if facts.get("noise_choice"):
        console.print(noise_table(facts["noise_choice"]))
    if facts.get("outliers"):
        shown = [tuple(one.values()) for one in facts["outliers"][:MOST_OUTLIERS]]
        title = f"{counted(len(facts['outliers']), 'outlier')}; predictions are from the other rows"
        console.print(table(title, ["row", "target", "predicted", "standard deviations"], shown))
    if "scale" in facts:
        rows = [(name, *entries.values()) for name, entries in facts["scale"].items()]
        console.print(table(None, ["readout variance", *(f"{p:.0%}" for p in QUANTILES)], rows))
    if drawn is not None:
        for name, bars in _bars(drawn.prior, drawn.posterior):
            console.print(f"{name:10}{bars}")
