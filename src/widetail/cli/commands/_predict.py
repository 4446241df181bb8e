"""`widetail predict`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO

import numpy as np
import typer

from widetail.cli import _options as options
from widetail.cli._errors import UsageError
from widetail.cli._model_file import TableModel
from widetail.cli._output import Output, check_output
from widetail.cli._tables import Table

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".pq")


def predict(
    model: options.Model,
    new: Annotated[Path, typer.Argument(metavar="NEW", help="A .csv or .parquet file with the same columns.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A .csv or .parquet file; standard output by default.")
    ] = None,
    interval: Annotated[
        float | None, typer.Option("--interval", help="Coverage of the central interval; 0.9 by default.")
    ] = None,
    quantiles: Annotated[
        str | None, typer.Option("--quantiles", help="Probabilities, separated by commas: 0.05,0.5,0.95.")
    ] = None,
    guarantee: Annotated[
        str | None,
        typer.Option(
            "--guarantee",
            metavar="METHOD",
            help="Intervals that hold whether or not the model is right: full, jackknife+ or cv+ (ten more fits).",
        ),
    ] = None,
    groups: Annotated[
        str | None, typer.Option("--groups", metavar="COL", help="With --guarantee: have it for each value of COL.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="COLS", help="Columns of NEW to copy in front, separated by commas.")
    ] = None,
    chunk: options.Chunk = 2000,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
):
    """Predict the rows of a new table.

    Every row, in its order; the file may be larger than memory. Of numbers: prediction (the median), lower and upper
    end of the interval, and the quantiles that are asked for. Of categories: prediction and the probability of each.

    --guarantee rests the interval on how rows that were left out compare with their predictions: for rows that are
    exchangeable with those of the table, "full" and "jackknife+" hold the coverage that --interval asks for as far as
    the table has many rows for what was learned from it, "cv+" whatever was learned (twice as many misses at worst).
    """
    from widetail.cli._model_file import check_names, load_model
    from widetail.cli._tables import open_table

    output = Output(as_json=as_json, quiet=quiet)
    check_output("--out", out, SUFFIXES)
    coverage = _probability("--interval", interval) if interval is not None else 0.9
    asked = [] if quantiles is None else [_probability("--quantiles", part) for part in quantiles.split(",")]
    if as_json and out is None:
        raise UsageError("--json reports where the predictions went; name a file with --out.")
    fitted = load_model(model).reading(options.DECIMALS[decimal])
    if fitted.task == "classification" and (interval is not None or asked):
        raise UsageError("--interval and --quantiles are of numbers; this model predicts categories.")
    if guarantee is not None or groups is not None:
        _check_guarantee(fitted, guarantee, groups)
    opened = open_table(new, delimiter)
    check_names(fitted, opened)
    kept = opened.split_names("--keep", keep)
    rows = 0
    with _destination(out) as file:
        for part in _predictions(fitted, opened, coverage, asked, (guarantee, groups), kept, chunk):
            _write(file, part, with_header=rows == 0)
            rows += len(part["prediction"])
    if out is not None:
        facts = {"rows": rows, "out": str(out), "model": str(model)}
        output.result(facts, lambda console: console.print(f"{rows} predictions written to {out}"))


def _probability(option: str, text: str | float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < 1:
        raise UsageError(f"{option} takes numbers strictly between 0 and 1, such as 0.9; got {text!r}.")
    return value


def _predictions(
    model: TableModel,
    opened: Table,
    coverage: float,
    quantiles: list[float],
    promise: tuple[str | None, str | None],
    kept: list[str],
    chunk: int,
) -> Iterator[dict[str, np.ndarray]]:
    """Columns of the result, a chunk of rows at a time."""
    from widetail.tables import cells_of

    first = 1
    for batch in opened.batches(chunk):
        x = model.encoded(batch, first)
        first += len(batch)
        if model.task == "classification":
            predicted = class_columns(model.estimator, x)
        else:
            predicted = number_columns(model.estimator, x, coverage, quantiles)
            if promise[0] is not None:
                predicted["lower"], predicted["upper"] = _guaranteed(model, x, coverage, *promise)
        both = [name for name in kept if name in predicted]
        if both:
            raise UsageError(f"--keep {both[0]}: the result has a column of this name; rename that of the table.")
        columns = {name: np.array(cells_of(name, batch[name]).to_list(), object) for name in kept} | predicted
        yield columns


def _check_guarantee(model: TableModel, guarantee: str | None, groups: str | None) -> None:
    methods = ("full", "jackknife+", "cv+")
    if guarantee is None:
        raise UsageError("--groups is for intervals with a guarantee; add --guarantee full.")
    if guarantee not in methods:
        raise UsageError(f"--guarantee takes {', '.join(methods[:-1])} or {methods[-1]}; got {guarantee!r}.")
    if model.task == "classification":
        raise UsageError("--guarantee is of intervals of numbers; this model predicts categories.")
    if not hasattr(model.estimator, "process_"):
        raise UsageError("--guarantee needs a model that keeps its rows; fit without --sparse.")
    names = [column.name for column in model.estimator.table_.columns_]
    if groups is not None and groups not in names:
        raise UsageError(f"--groups takes a column of the model; got {groups!r}; there are {', '.join(names[:8])}.")


def _guaranteed(
    model: TableModel, x: Any, coverage: float, method: str | None, groups: str | None
) -> tuple[np.ndarray, np.ndarray]:
    return model.estimator.predict_interval(x, coverage, method=method, groups=groups)


def number_columns(estimator: Any, x: Any, coverage: float, quantiles: list[float]) -> dict[str, np.ndarray]:
    """Prediction, interval and quantiles by name."""
    dist = estimator.predict_dist(x)
    lower, upper = dist.interval(coverage)
    columns = {"prediction": np.asarray(estimator.predict(x)), "lower": np.asarray(lower), "upper": np.asarray(upper)}
    return columns | {f"q{p:g}": np.asarray(dist.quantile(p)) for p in quantiles}


def class_columns(estimator: Any, x: Any) -> dict[str, np.ndarray]:
    """The predicted class, and the probability of every class."""
    probabilities = np.asarray(estimator.predict_proba(x))
    columns = {"prediction": estimator.classes_[np.argmax(probabilities, axis=1)]}
    return columns | {f"p({name})": probabilities[:, place] for place, name in enumerate(estimator.classes_)}


@contextmanager
def _destination(out: Path | None) -> Iterator[TextIO]:
    """Where CSV lines go; a Parquet file is made of them at the end, again without holding all rows."""
    from widetail.files import whole_file

    if out is None:
        yield sys.stdout
        return
    if out.suffix.lower() not in (".parquet", ".pq"):
        with whole_file(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
            yield file
        return
    import polars as pl

    with whole_file(out) as temporary:
        lines = temporary.with_suffix(".csv")
        try:
            with lines.open("w", encoding="utf-8", newline="") as file:
                yield file
            pl.scan_csv(lines, infer_schema_length=None, glob=False).sink_parquet(temporary)
        finally:
            lines.unlink(missing_ok=True)


def _write(file: TextIO, columns: dict[str, np.ndarray], *, with_header: bool) -> None:
    import csv

    writer = csv.writer(file, lineterminator="\n")
    if with_header:
        writer.writerow(columns)
    # repr of a float is the shortest text that reads back as the same number
    cells = [
        [repr(value) if isinstance(value, float) else value for value in part.tolist()] for part in columns.values()
    ]
    writer.writerows(zip(*cells, strict=True))
