"""`widetail fit`."""

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from widetail.cli import _options as options
from widetail.cli._errors import CommandError, UsageError
from widetail.cli._model_file import TableModel
from widetail.cli._output import Output, check_output, counted, integrated_table, noise_table, table

FEWEST_ROWS = 2


def fit(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A .csv or .parquet file.")],
    target: Annotated[str, typer.Option("--target", metavar="COL", help="The column to predict.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="MODEL", help="The file to write.")],
    prior: Annotated[str | None, typer.Option("--prior", help="Such as 'inverse-gamma(2,2)', the default.")] = None,
    net: options.Net = None,
    noise: Annotated[
        Literal["scaled", "independent", "rows", "inputs", "both", "auto"] | None,
        typer.Option(
            "--noise",
            help="One variance inside the scale (the default) or outside of it; a scale for every row (outliers do not "
            "pull); a variance that depends on the inputs; both of these; or whichever predicts left-out rows best.",
        ),
    ] = None,
    sparse: Annotated[
        int | None,
        typer.Option(
            "--sparse",
            min=1,
            metavar="M",
            help="Approximate with M inducing points; by default only with more rows than are exact in a minute or so.",
        ),
    ] = None,
    task: Annotated[
        Literal["auto", "regression", "classification"],
        typer.Option("--task", help="auto: a target of text is classified, one of numbers regressed."),
    ] = "auto",
    drop: options.Drop = None,
    categorical: options.Categorical = None,
    max_categories: options.MaxCategories = 100,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
):
    """Fit a model to a table.

    DATA has a header, and a row per case. What the columns are is found out, and kept with the model.
    """
    from widetail.cli._specs import parse_net, parse_prior
    from widetail.cli._tables import open_table
    from widetail.tables import TableEncoder, columns_of, detect_goal

    began = time.monotonic()
    output = Output(as_json=as_json, quiet=quiet)
    check_output("--out", out)
    if sparse is not None and noise is not None:
        raise UsageError("--noise is of exact models; leave it out with --sparse.")
    make_net = None if net is None else parse_net(net)
    chosen_prior = None if prior is None else parse_prior(prior)
    opened = open_table(data, delimiter)
    opened.check_names("--target", [target])
    dropped = opened.split_names("--drop", drop)
    named = opened.split_names("--categorical", categorical)
    if target in dropped:
        raise UsageError(f"--drop must not name the target {target!r}.")
    frame = opened.read().drop(dropped)
    if frame.width < 2:
        raise CommandError(f"{str(data)!r} has nothing to predict {target!r} from; it needs another column.")
    if len(frame) < FEWEST_ROWS:
        raise CommandError(f"{str(data)!r} has {len(frame)} row; at least {FEWEST_ROWS} are needed to fit anything.")
    goal = detect_goal(
        columns_of(frame),
        target,
        None if task == "auto" else task,
        categorical=named,
        max_levels=max_categories,
        decimal=options.DECIMALS[decimal],
        usual_decimal=opened.usual_decimal,
    )
    inputs = frame.drop(target)
    encoder = TableEncoder().learn(inputs, goal.others)
    for remark in encoder.remarks_:
        output.remark(remark)
    output.remark(
        f"{len(frame)} rows, {counted(len(encoder.columns_), 'column')} as {counted(len(encoder.places_), 'feature')}, "
        f"{goal.task} of {target!r}"
    )
    if goal.task == "classification" and noise in ("rows", "inputs", "both", "auto"):
        raise UsageError(f"--noise {noise} is for regression; leave it out to classify {target!r}.")
    estimator = _estimator(goal.task, sparse, noise, verbose=not quiet)
    given = {"net": make_net(len(encoder.groups_)) if make_net else None, "prior": chosen_prior, "random_state": seed}
    estimator.set_params(**given, table=encoder).fit(inputs, goal.values)
    if hasattr(estimator, "estimator_"):
        output.remark(f"{type(estimator.estimator_).__name__}: {estimator.reason_}")
        estimator = estimator.estimator_
    kind = getattr(estimator, "target_", None)
    if kind is not None and kind.kind != "real":
        output.remark(f"{target!r} is taken as {kind.describe()}")
    model = _model(estimator, goal.column, len(frame), time.monotonic() - began)
    model.save(out)
    results = {**model.facts, "task": goal.task, "target": target, "features": model.features, "model": str(out)}
    output.result(results, lambda console: _draw(console, model, out))


def _estimator(task: str, sparse: int | None, noise: str | None, *, verbose: bool) -> Any:
    """That of the options that were given; without any, the one that picks by the number of rows."""
    import widetail as wt

    kind = "Regressor" if task == "regression" else "Classifier"
    if sparse is not None:
        return getattr(wt, f"SparseMixture{kind}")(inducing=sparse, verbose=verbose)
    if noise is not None:
        return getattr(wt, f"ScaleMixture{kind}")(noise=noise, verbose=verbose)
    return getattr(wt, f"Mixture{kind}")(verbose=verbose)


def _model(estimator: Any, target: Any, rows: int, seconds: float) -> TableModel:
    from importlib.metadata import version

    from widetail.cli._model_file import TableModel

    fit = getattr(estimator, "evidence_fit_", None)
    choice = getattr(estimator, "choice_", None)
    integrated = getattr(estimator, "integrated_", None)
    kinds = getattr(estimator, "noise_choice_", None)
    facts: dict[str, Any] = {
        "widetail": version("widetail"),
        "estimator": type(estimator).__name__,
        "rows": rows,
        "architecture": getattr(estimator, "architecture_", None),
        "log_evidence": None if fit is None else fit.log_evidence,
        "evidence_rows": None if fit is None else fit.rows,
        "integrated": None
        if integrated is None
        else {
            "processes": len(integrated.weights),
            "weights": integrated.shares,
            "log_evidences": integrated.log_evidences,
            "effective_draws": integrated.effective,
        },
        "candidates": None if choice is None else dict(choice.scores),
        "noise_choice": None if kinds is None else {"kind": kinds.name, "scores": kinds.scores, "errors": kinds.errors},
        "learned": []
        if fit is None
        else [
            {"name": _with_group(name, estimator.table_), "value": value, "at_bound": at_bound}
            for name, value, at_bound in fit.learned
        ],
        "seconds": seconds,
    }
    return TableModel(estimator, target, facts)


def _with_group(name: str, encoder: Any) -> str:
    """Say which column, or part of one, an entry of a vector belongs to."""
    stem, bracket, number = name.removesuffix("]").rpartition("[")
    if not (bracket and name.endswith("]") and stem.endswith(("_var", "_scale"))):
        return name
    return f"{stem}[{encoder.groups_[int(number)].name}]"


def _draw(console: Any, model: TableModel, out: Path) -> None:
    facts = model.facts
    summary = [("model", facts["estimator"]), ("architecture", facts["architecture"])]
    if facts["log_evidence"] is not None:
        summary.append(("log evidence", f"{facts['log_evidence']:.2f} on {facts['evidence_rows']} rows"))
    summary += [("seconds", f"{facts['seconds']:.1f}"), ("written to", str(out))]
    console.print(table(None, ["fitted", ""], [row for row in summary if row[1] is not None]))
    if facts["integrated"]:
        console.print(integrated_table(facts["integrated"]))
    if facts["candidates"]:
        ranked = sorted(facts["candidates"].items(), key=lambda item: -item[1])
        console.print(table(None, ["architecture", "log evidence per row"], ranked))
    if facts["noise_choice"]:
        console.print(noise_table(facts["noise_choice"]))
    if facts["learned"]:
        rows = [(one["name"], one["value"], "at its bound" * one["at_bound"]) for one in facts["learned"]]
        console.print(table(None, ["learned", "value", ""], rows))
