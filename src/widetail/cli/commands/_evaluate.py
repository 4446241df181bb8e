"""`widetail evaluate`."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from widetail.cli import _options as options
from widetail.cli._model_file import TableModel
from widetail.cli._output import PICTURES, Output, check_output, save_figure, table, use_no_display

COVERAGES = (0.5, 0.8, 0.9, 0.95)


def evaluate(
    model: options.Model,
    test: Annotated[Path, typer.Argument(metavar="TEST", help="A .csv or .parquet file with columns and target.")],
    plot: options.PlotFile = None,
    chunk: options.Chunk = 2000,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
):
    """Score a model on rows that it has not seen.

    Draws its calibration with --plot. All scores are means over rows. The log score is in nats, per unit of the
    target; higher is better.
    """
    from widetail.cli._model_file import load_model

    output = Output(as_json=as_json, quiet=quiet)
    check_output("--plot", plot, PICTURES)
    fitted = load_model(model).reading(options.DECIMALS[decimal])
    score = _score_classes if fitted.task == "classification" else _score_numbers
    scores, draw = score(fitted, test, delimiter, chunk)
    if plot is not None:
        use_no_display()
        save_figure(draw(), plot)
        scores["plot"] = str(plot)
    rows = [(name.replace("_", " "), value) for name, value in scores.items() if name != "coverage"]
    rows += [(f"coverage of {name} intervals", value) for name, value in scores.get("coverage", {}).items()]
    output.result(scores, lambda console: console.print(table(None, ["score", "value"], rows)))


def _chunks(model: TableModel, test: Path, delimiter: str | None, chunk: int) -> Any:
    """Inputs, targets as cells and the number of the first row, a chunk at a time."""
    from widetail.cli._model_file import check_names
    from widetail.cli._tables import open_table

    opened = open_table(test, delimiter)
    check_names(model, opened, with_target=True)
    first = 1
    for batch in opened.batches(chunk):
        yield model.encoded(batch, first), batch[model.target.name], first
        first += len(batch)


def _score_numbers(model: TableModel, *where: Any) -> Any:
    from widetail.cli._pictures import calibration
    from widetail.tables import read_numbers

    parts = []
    for x, cells, first in _chunks(model, *where):
        y = read_numbers(model.target, cells, first)
        dist = model.estimator.predict_dist(x)
        prediction = np.asarray(model.estimator.predict(x))
        parts.append(np.stack([(prediction - y) ** 2, dist.log_prob(y), dist.crps(y), dist.pit(y)]))
    squared, log_prob, crps, pit = np.concatenate(parts, axis=1)
    # the central interval of probability q holds y exactly when |2 pit - 1| <= q
    inside = np.abs(2 * pit - 1)
    scores = {
        "rows": len(pit),
        "log_score": float(log_prob.mean()),
        "rmse": float(np.sqrt(squared.mean())),
        "crps": float(crps.mean()),
        "coverage": {f"{level:.0%}": float(np.mean(inside <= level)) for level in COVERAGES},
    }
    return scores, lambda: calibration({"": pit}, bins=min(20, max(5, len(pit) // 20)))


def _score_classes(model: TableModel, *where: Any) -> Any:
    from widetail import metrics
    from widetail.tables import read_labels

    places = {str(label): place for place, label in enumerate(model.estimator.classes_)}
    probabilities, labels = [], []
    for x, cells, first in _chunks(model, *where):
        labels += [places[label] for label in read_labels(model.target, cells, first)]
        probabilities.append(np.asarray(model.estimator.predict_proba(x)))
    p, y = np.concatenate(probabilities), np.asarray(labels, dtype=np.int64)
    scores = {
        "rows": len(y),
        "log_score": -metrics.nll_from_probabilities(p, y),
        "accuracy": metrics.accuracy(p, y),
        "brier": metrics.brier(p, y),
        "ece": metrics.ece(p, y),
    }
    return scores, lambda: _draw_classes(p, y)


def _draw_classes(p: np.ndarray, y: np.ndarray) -> Any:
    from widetail import plots

    return plots.reliability_diagram(p, y).figure
