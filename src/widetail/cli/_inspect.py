"""`widetail inspect`."""

import re
from typing import Any

import numpy as np

from widetail.cli import _options as options
from widetail.cli._model_file import TableModel
from widetail.cli._output import PICTURES, Output, check_output, save_figure, table, use_no_display

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
BARS = " ▁▂▃▄▅▆▇█"
BINS = 48


def inspect(
    model: options.Model,
    plot: options.PlotFile = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
):
    """Show what a model is and has learned.

    Columns, architecture, learned numbers, and the readout scale before and after the data (drawn with --plot).
    """
    from widetail.cli import _pictures as pictures
    from widetail.cli._model_file import load_model

    output = Output(as_json=as_json, quiet=quiet)
    check_output("--plot", plot, PICTURES)
    fitted = load_model(model)
    facts = _facts(fitted)
    estimator: Any = fitted.estimator
    has_scale = hasattr(estimator, "process_") and hasattr(estimator, "posterior_")
    if has_scale:
        facts["scale"] = {
            name: {f"{p:g}": float(law.quantile(p)) for p in QUANTILES}
            for name, law in (("prior", estimator.process_.prior_scale), ("posterior", estimator.posterior_.scale))
        }
    is_spread = has_scale and not facts["prior"].startswith("PointMass")
    if plot is not None and is_spread:
        use_no_display()
        save_figure(pictures.scale(estimator.process_.prior_scale, estimator.posterior_.scale), plot)
        facts["plot"] = str(plot)
    elif plot is not None:
        output.remark("--plot: the readout variance of this model is one number, or is not kept; nothing is drawn.")
    laws = (estimator.process_.prior_scale, estimator.posterior_.scale) if is_spread else None
    output.result(facts, lambda console: _draw(console, facts, laws))


def _facts(model: TableModel) -> dict[str, Any]:
    schema, estimator = model.schema, model.estimator
    process = getattr(estimator, "process_", None)
    tails = getattr(estimator, "tails_", None)
    return {
        **model.facts,
        "task": schema.task,
        "target": schema.target,
        "columns": [
            {"name": column.name, "kind": column.kind, "levels": list(column.levels)} for column in schema.columns
        ],
        "network": None if process is None else _rounded(repr(process.kernel)),
        "prior": None if process is None else repr(process.prior_scale),
        "noise": None if process is None else repr(process.noise),
        "tails": None
        if tails is None
        else {"degrees_of_freedom": float(tails.degrees[0]), "width_factor": float(tails.factor[0])},
    }


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


def _draw(console: Any, facts: dict[str, Any], laws: Any) -> None:
    tails = facts["tails"]
    summary = [
        ("model", facts["estimator"]),
        ("task", f"{facts['task']} of {facts['target']!r}, from {facts['rows']} rows"),
        ("architecture", facts["architecture"]),
        ("network", facts["network"]),
        ("prior", facts["prior"]),
        ("noise", facts["noise"]),
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
    if facts["learned"]:
        console.print(table(None, ["learned", "value"], [(one["name"], one["value"]) for one in facts["learned"]]))
    if laws is not None:
        rows = [(name, *entries.values()) for name, entries in facts["scale"].items()]
        console.print(table(None, ["readout variance", *(f"{p:.0%}" for p in QUANTILES)], rows))
        for name, bars in _bars(*laws):
            console.print(f"{name:10}{bars}")
