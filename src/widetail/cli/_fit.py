"""`widetail fit`."""

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from widetail.cli import _options as options
from widetail.cli._errors import CommandError, UsageError
from widetail.cli._model_file import TableModel
from widetail.cli._output import Output, check_output, table
from widetail.cli._schema import Schema
from widetail.cli._tables import Table

FEWEST_ROWS = 2


def fit(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A .csv or .parquet file.")],
    target: Annotated[str, typer.Option("--target", metavar="COL", help="The column to predict.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="MODEL", help="The file to write.")],
    prior: Annotated[str | None, typer.Option("--prior", help="Such as 'inverse-gamma(2,2)', the default.")] = None,
    net: options.Net = None,
    noise: Annotated[
        Literal["scaled", "independent"] | None,
        typer.Option("--noise", help="Inside the scale (fast, the default), or ordinary Gaussian noise."),
    ] = None,
    sparse: Annotated[
        int | None,
        typer.Option("--sparse", min=1, metavar="M", help="Approximate with M inducing points: for many rows."),
    ] = None,
    task: Annotated[
        Literal["auto", "regression", "classification"],
        typer.Option("--task", help="auto: a target of text is classified, one of numbers regressed."),
    ] = "auto",
    drop: options.Drop = None,
    categorical: options.Categorical = None,
    max_categories: options.MaxCategories = 100,
    impute: options.Impute = False,
    delimiter: options.Delimiter = None,
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

    began = time.monotonic()
    output = Output(as_json=as_json, quiet=quiet)
    check_output("--out", out)
    if sparse is not None and noise is not None:
        raise UsageError("--noise is of exact models; leave it out with --sparse.")
    make_net = None if net is None else parse_net(net)
    chosen_prior = None if prior is None else parse_prior(prior)
    opened = open_table(data, delimiter)
    schema = _read_schema(opened, target, task, drop, categorical, max_categories, impute)
    x, y, schema = _read_rows(opened, schema)
    if len(y) < FEWEST_ROWS:
        raise CommandError(f"{str(data)!r} has {len(y)} row; at least {FEWEST_ROWS} are needed to fit anything.")
    _remark_what_was_read(output, schema, len(y))
    estimator = _estimator(schema, sparse, noise, verbose=not quiet)
    given = {"net": make_net(x.shape[1]) if make_net else None, "prior": chosen_prior, "random_state": seed}
    estimator.set_params(**given).fit(x, y)
    model = _model(estimator, schema, len(y), time.monotonic() - began)
    model.save(out)
    results = {**model.facts, "task": schema.task, "target": target, "features": schema.features, "model": str(out)}
    output.result(results, lambda console: _draw(console, model, out))


def _read_schema(
    opened: Table,
    target: str,
    task: str,
    drop: str | None,
    categorical: str | None,
    most_levels: int,
    impute: bool,
) -> Schema:
    """One pass over the table: what its columns are."""
    from widetail.cli._schema import Column, Schema, column_of, profile, split_names

    if target not in opened.columns:
        split_names("--target", target.replace(",", " "), opened)
    dropped = split_names("--drop", drop, opened)
    named = split_names("--categorical", categorical, opened)
    if target in dropped:
        raise UsageError(f"--drop must not name the target {target!r}.")
    names = [name for name in opened.columns if name not in dropped]
    if len(names) < 2:
        raise CommandError(f"{str(opened.path)!r} has nothing to predict {target!r} from.")
    profiles = {one.name: one for one in profile(opened, names, most_levels)}
    goal = profiles.pop(target)
    if goal.missing_count:
        rows = ", ".join(map(str, goal.missing))
        raise CommandError(
            f"the target {target!r} is missing in {goal.missing_count} rows, such as {rows}; leave those rows out."
        )
    is_named = task == "classification" or target in named
    label = Column(target, "number")
    if task != "regression":
        label = column_of(goal, most_levels, is_category=is_named)
    columns = tuple(column_of(one, most_levels, is_category=name in named) for name, one in profiles.items())
    return Schema(columns, target, "regression" if label.kind == "number" else "classification", impute)


def _read_rows(opened: Table, schema: Schema) -> tuple[np.ndarray, np.ndarray, Schema]:
    """A second pass: inputs and targets."""
    from widetail.cli._schema import numbers, texts

    inputs, targets, rows = [], [], 0
    for batch in opened.batches():
        first = rows + 1
        inputs.append(schema.matrix(batch, first, impute=schema.impute))
        target = batch[str(schema.target)]
        targets.append(numbers(str(schema.target), target, first) if schema.task == "regression" else texts(target))
        rows += len(target)
    x = np.concatenate(inputs)
    schema = schema.with_medians(x)
    y = np.concatenate(targets)
    return schema.complete(x, 1, impute=schema.impute), y if schema.task == "regression" else y.astype(str), schema


def _remark_what_was_read(output: Output, schema: Schema, rows: int) -> None:
    features = len(schema.features)
    output.remark(
        f"{rows} rows, {len(schema.columns)} columns as {features} features, {schema.task} of {schema.target!r}"
    )


def _estimator(schema: Schema, sparse: int | None, noise: str | None, *, verbose: bool) -> Any:
    import widetail as wt

    family = "ScaleMixture" if sparse is None else "SparseMixture"
    kind = getattr(wt, f"{family}{'Regressor' if schema.task == 'regression' else 'Classifier'}")
    return kind(noise=noise or "scaled", verbose=verbose) if sparse is None else kind(inducing=sparse, verbose=verbose)


def _model(estimator: Any, schema: Schema, rows: int, seconds: float) -> TableModel:
    from importlib.metadata import version

    from widetail.cli._model_file import TableModel

    fit = getattr(estimator, "evidence_fit_", None)
    choice = getattr(estimator, "choice_", None)
    facts: dict[str, Any] = {
        "widetail": version("widetail"),
        "estimator": type(estimator).__name__,
        "rows": rows,
        "architecture": getattr(estimator, "architecture_", None),
        "log_evidence": None if fit is None else fit.log_evidence,
        "evidence_rows": None if fit is None else fit.rows,
        "candidates": None if choice is None else dict(choice.scores),
        "learned": []
        if fit is None
        else [
            {"name": _with_feature(name, schema), "value": value, "at_bound": at_bound}
            for name, value, at_bound in fit.learned
        ],
        "seconds": seconds,
    }
    return TableModel(estimator, schema, facts)


def _with_feature(name: str, schema: Schema) -> str:
    """Say which column an entry of the first layer's variances belongs to."""
    if not name.endswith("]") or "_var[" not in name:
        return name
    stem, _, number = name[:-1].rpartition("[")
    return f"{stem}[{schema.features[int(number)]}]"


def _draw(console: Any, model: TableModel, out: Path) -> None:
    facts = model.facts
    summary = [("model", facts["estimator"]), ("architecture", facts["architecture"])]
    if facts["log_evidence"] is not None:
        summary.append(("log evidence", f"{facts['log_evidence']:.2f} on {facts['evidence_rows']} rows"))
    summary += [("seconds", f"{facts['seconds']:.1f}"), ("written to", str(out))]
    console.print(table(None, ["fitted", ""], [row for row in summary if row[1] is not None]))
    if facts["candidates"]:
        ranked = sorted(facts["candidates"].items(), key=lambda item: -item[1])
        console.print(table(None, ["architecture", "log evidence per row"], ranked))
    if facts["learned"]:
        rows = [(one["name"], one["value"], "at its bound" * one["at_bound"]) for one in facts["learned"]]
        console.print(table(None, ["learned", "value", ""], rows))
