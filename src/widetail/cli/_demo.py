"""`widetail demo`: the main job on data that scikit-learn ships."""

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from widetail.cli import _options as options
from widetail.cli._output import Output, table, use_no_display

HEAVY, PLAIN = "Student-t process", "plain NNGP"
COVERAGES = (0.5, 0.9, 0.95)


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder of the report.")] = Path("out/demo"),
    seed: options.Seed = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
):
    """Compare a heavy-tailed network with a plain one.

    Takes less than a minute and writes a report. The data are 442 diabetes patients; a quarter of them is predicted
    from the others.
    """
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import train_test_split

    import widetail as wt

    output = Output(as_json=as_json, quiet=quiet)
    out.mkdir(parents=True, exist_ok=True)
    use_no_display()
    x, y = load_diabetes(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.25, random_state=seed)
    output.remark(f"{len(y_train)} patients to learn from, {len(y_test)} to predict")
    shared = {"random_state": seed, "verbose": not quiet}
    models = {
        HEAVY: wt.ScaleMixtureRegressor(prior=wt.InverseGamma(2.0, 2.0), **shared),
        PLAIN: wt.ScaleMixtureRegressor(prior=wt.PointMass(1.0), calibrate=False, **shared),
    }
    scores = {name: _fit_and_score(model, x_train, y_train, x_test, y_test) for name, model in models.items()}
    report = _write_report(models, scores, x_test, y_test, out)
    results = {"train_rows": len(y_train), "test_rows": len(y_test), "scores": scores, "report": str(report)}
    output.result(results, lambda console: _draw(console, models[HEAVY], scores, report))


def _fit_and_score(model: Any, x_train: Any, y_train: Any, x_test: Any, y_test: Any) -> dict[str, Any]:
    from widetail import metrics

    began = time.monotonic()
    model.fit(x_train, y_train)
    seconds = time.monotonic() - began
    dist = model.predict_dist(x_test)
    return {
        "log score": -metrics.nll(dist, y_test),
        "RMSE": metrics.rmse(model.predict(x_test), y_test),
        "CRPS": metrics.crps(dist, y_test),
        "coverage": {f"{level:.0%}": metrics.coverage(dist, y_test, level) for level in COVERAGES},
        "architecture": model.architecture_,
        "seconds": seconds,
    }


def _draw(console: Any, model: Any, scores: dict[str, dict[str, Any]], report: Path) -> None:
    head = ["", "log score", "RMSE", "CRPS", *(f"{level:.0%}" for level in COVERAGES), "architecture", "seconds"]
    rows = [
        (
            name,
            *(f"{score[key]:.3f}" for key in ("log score", "RMSE", "CRPS")),
            *(f"{share:.1%}" for share in score["coverage"].values()),
            score["architecture"],
            f"{score['seconds']:.1f}",
        )
        for name, score in scores.items()
    ]
    console.print(table(None, head, rows))
    console.print(f"what the {HEAVY} learned:\n{model.evidence_fit_}\n\nreport: {report}")


def _write_report(models: Any, scores: dict[str, dict[str, Any]], x_test: Any, y_test: Any, out: Path) -> Path:
    from widetail import plots
    from widetail.cli import _pictures as pictures
    from widetail.experiments.report import Code, Figure, Prose, Report, Section, Table, png, to_html
    from widetail.files import write_whole

    columns = ["log score", "RMSE", "CRPS", *(f"inside {level:.0%}" for level in COVERAGES)]
    values = [
        [score["log score"], score["RMSE"], score["CRPS"], *score["coverage"].values()] for score in scores.values()
    ]
    numbers = np.array(values, dtype=np.float64)
    heavy = models[HEAVY]
    pit = {name: model.predict_dist(x_test).pit(y_test) for name, model in models.items()}
    intervals = Figure(
        "intervals", png(_intervals(heavy, x_test, y_test)), f"Intervals of the {HEAVY} and what was seen."
    )
    calibration = Figure(
        "calibration",
        png(pictures.calibration(pit, bins=8)),
        "A calibrated model stays in the grey band. Left: where observations fall in their predictive distributions.",
    )
    tails = Figure(
        "tails", png(_tails(models, x_test)), "What both models predict for the first patient, on a log scale."
    )
    scale = Figure(
        "scale",
        png(pictures.scale(heavy.process_.prior_scale, heavy.posterior.scale)),
        "Variance of the readout, before and after the data, in units of the standardised target.",
    )
    report = Report(
        title="A heavy-tailed infinite network on the diabetes data",
        lead=(
            f"Predictions of {len(y_test)} patients that the models have not seen. Both are infinitely wide networks "
            f"with exact inference; the {HEAVY} has an inverse-gamma prior on the variance of its readout, and width "
            f"and tails that were measured on left-out training rows."
        ),
        findings=[],
        facts={},
        sections=[
            Section(
                "Scores",
                [
                    Table(
                        plots.ResultTable(list(scores), columns, numbers, best=None),
                        "The log score is in nats per patient; higher is better. Coverage is the share of patients "
                        "inside of intervals that promise 50, 90 and 95 %.",
                    )
                ],
            ),
            Section("Predictive intervals", [intervals]),
            Section("Calibration", [calibration]),
            Section(
                "Tails",
                [
                    tails,
                    Prose(
                        "With hundreds of patients to learn from, the tails of both are nearly the same: heavy tails "
                        "of the prior matter where there are few observations."
                    ),
                ],
            ),
            Section("The scale", [scale]),
            Section("What was learned", [Code(str(heavy.evidence_fit_))]),
        ],
    )
    path = out / "report.html"
    write_whole(path, to_html([report], report.title).encode())
    return path


def _intervals(model: Any, x_test: np.ndarray, y_test: np.ndarray) -> Any:
    from widetail.plots.axes import COLOURS, axes_or_new, label_axes

    prediction = model.predict(x_test)
    order = np.argsort(prediction)
    rank = np.arange(len(order))
    axes = axes_or_new(None, (9.0, 4.0))
    for coverage, shade in ((0.95, "0.9"), (0.5, "0.75")):
        lower, upper = model.predict_interval(x_test[order], coverage)
        axes.fill_between(rank, lower, upper, color=shade, lw=0, step="mid", label=f"{coverage:.0%} interval")
    axes.step(rank, prediction[order], where="mid", color=COLOURS[0], label="predicted")
    axes.plot(rank, y_test[order], "o", ms=3.5, color=COLOURS[1], label="observed")
    axes.set_xlim(-1, len(order))
    axes.legend(frameon=False, loc="upper left")
    label_axes(
        axes,
        "patients that the model has not seen, by prediction",
        "disease progression after one year",
        f"Predictive intervals of a {HEAVY} ({model.architecture_})",
    )
    return axes.figure


def _tails(models: Any, x_test: np.ndarray) -> Any:
    from widetail import plots

    grid = np.linspace(-600.0, 900.0, 400)
    densities = {}
    for name, model in models.items():
        dist = model.predict_dist(x_test[:1])
        densities[name] = np.asarray(dist.log_prob(grid[:, None]))[:, 0]
    return plots.density_tails(grid, densities, lowest=1e-10, xlabel="disease progression after one year").figure
