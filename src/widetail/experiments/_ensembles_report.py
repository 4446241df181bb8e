"""What the ensembles found."""

from collections.abc import Mapping, Sequence
from typing import Any

from widetail.experiments._aggregate import paired_differences, summarise
from widetail.experiments._image_names import shown
from widetail.experiments._paper import ENSEMBLES
from widetail.experiments._registry import Findings, Results
from widetail.experiments._reliability import reliability_figure
from widetail.experiments._report import Bullets, Figure, Prose, Section, Table
from widetail.experiments._tables import ours, papers, side_by_side

MODELS = {"plain": "plain", "mixture": "mixture"}
CORNER = "data set"
# The paper's NLLs are times 100, and means over 10 classes too.
TO_NATS = 10 / 100


def findings(results: Results) -> Findings:
    """Sentences and sections of the report."""
    rows = [{**row, "case": _case(row)} for row in results.rows]
    cases = {row["case"]: shown(*row["case"].split("/")) for row in rows}
    gaps = paired_differences(rows, ("case",), "model", "mixture", "plain", ("seed",), "nll")
    return Findings(
        _sentences(cases, gaps, results.config.seeds),
        [
            Section("Negative log-likelihood and accuracy", _scores(rows, cases, gaps)),
            Section("Calibration", _calibration(rows, cases)),
            Section("Classes that were never seen", _unseen(rows, cases)),
            Section("Time", _time(results)),
            Section("How this differs from the paper", _protocol(results)),
        ],
    )


def _case(row: Mapping[str, Any]) -> str:
    """Data set and what was shifted: the test images, or the training data."""
    return f"{row['images']}/{row['test'] if row['training'] == 'clean' else row['training']}"


def _sentences(cases: Mapping[str, str], gaps: Mapping[Any, Any], seeds: int) -> list[str]:
    def verdict(chosen: Sequence[str]) -> str:
        clear = [gaps[(case,)] for case in chosen if gaps[(case,)].is_clear]
        better = sum(gap.mean < 0 for gap in clear)
        return f"lower on {better}, higher on {len(clear) - better}, neither on {len(chosen) - len(clear)}"

    sentences = [
        f"NLL of the mixture against that of the plain ensemble, on {len(cases)} cases, {seeds} seeds, by a paired "
        f"t-test at 5 %: **{verdict(list(cases))}**."
    ]
    left_out = [case for case in cases if case.endswith("/left_out")]
    if left_out:
        numbers = ", ".join(
            f"{cases[case]} {gaps[(case,)].mean:+.2f} ± {gaps[(case,)].error:.2f}" for case in left_out
        ).replace("-", "\N{MINUS SIGN}")
        sentences.append(
            f"With classes that were never seen in training (nats per image, mixture minus plain): {numbers}."
        )
    return sentences


def _scores(rows: Sequence[Mapping[str, Any]], cases: Mapping[str, str], gaps: Any) -> list[Any]:
    blocks: list[Any] = []
    titles = {
        "nll": ("NLL in nats per image, mean ± standard error over seeds; lower is better", "lowest", 3, 1.0, TO_NATS),
        "accuracy": ("Accuracy in per cent, mean ± standard error over seeds", "highest", 2, 100.0, 1.0),
    }
    for score, (title, best, digits, factor, paper_factor) in titles.items():
        summaries = summarise(rows, ("case", "model"), score)
        columns = {}
        for model in MODELS:
            name = "NLL" if score == "nll" else score
            columns[f"paper: {model}"] = papers(ENSEMBLES, f"{model} {name}", paper_factor)
            columns[model] = ours(summaries, model, factor=factor)
        if score == "nll":
            columns["mixture minus plain"] = ours(gaps)
        beside = [name for name in columns if name not in MODELS]
        table = side_by_side(title, CORNER, cases, columns, beside=beside, best=best, digits=digits)  # type: ignore[arg-type]
        blocks.append(Table(table, _NOTE if score == "nll" else ""))
    return blocks


_NOTE = (
    "The paper's numbers were multiplied by 10: it divides by the number of classes. The last column is the mean ± "
    "standard error of the difference on the same seed."
)


def _calibration(rows: Sequence[Mapping[str, Any]], cases: Mapping[str, str]) -> list[Any]:
    ece = summarise(rows, ("case", "model"), "ece")
    columns = {model: ours(ece, model) for model in MODELS}
    table = side_by_side("Expected calibration error, 15 bins; lower is better", CORNER, cases, columns, digits=4)
    pooled = {
        title: {model: [row for row in rows if (row["case"], row["model"]) == (case, model)] for model in MODELS}
        for case, title in cases.items()
    }
    return [Table(table), Figure("ensemble-reliability", reliability_figure(pooled), _CAPTION)]


_CAPTION = (
    "Accuracy against confidence, all seeds together; below the diagonal predictions are too sure of themselves. Bars "
    "are 95 % intervals."
)


def _unseen(rows: Sequence[Mapping[str, Any]], cases: Mapping[str, str]) -> list[Any]:
    auroc = summarise(rows, ("case", "model"), "auroc")
    seen = {case: name for case, name in cases.items() if case.endswith("/left_out")}
    if not seen:
        return [Prose("No classes were left out in this run.")]
    columns = {model: ours(auroc, model) for model in MODELS}
    title = "AUROC of telling images of unseen classes from the others by the entropy of the probabilities"
    return [
        Table(side_by_side(title, CORNER, seen, columns, best="highest", digits=4)),
        Prose(
            "Networks have an output for every class, also for those that they never see, and are scored on all test "
            "images, as in the paper: the NLL of an unseen class says how little a network has ruled it out."
        ),
    ]


def _time(results: Results) -> list[Any]:
    seconds = summarise(results.rows, ("images", "training", "model"), "train_seconds")
    trainings = {f"{i}/{t}": shown(i, t) for i in results.config.images for t in results.config.trainings}
    by_case = {(f"{i}/{t}", m): value for (i, t, m), value in seconds.items()}
    columns = {model: ours(by_case, model) for model in MODELS}
    table = side_by_side("Seconds to train one ensemble", "training data", trainings, columns, best=None, digits=1)
    return [Table(table)]


def _protocol(results: Results) -> list[Any]:
    config = results.config
    return [
        Bullets(
            [
                f"Here: {config.members} networks of 4 convolutions with {config.width} channels, NTK "
                f"parametrisation, Adam, {config.rows} training images of which a tenth stops the training, "
                f"{config.test_rows} test images, {config.seeds} seeds. The paper: 8 networks, 128 channels, all "
                "images. A GPU gets that size from the same command.",
                f"The mixture draws the readout variance of each network from {config.prior}; the plain ensemble has "
                "variance 1. Both start from the same random numbers and see the same images in the same order.",
                "The NLL is the mean over images of minus the log of the mean probability of the members, in nats. "
                "The paper's numbers are a mean over classes too (a tenth of that) and times 100: its columns are "
                "converted.",
                "Corruptions follow the recipes of MNIST-C at its published severities. Left out: classes "
                f"{', '.join(map(str, config.left_out))}. Imbalance: class sizes fall exponentially to "
                f"{config.imbalance:.0%} (the paper does not say how far). Label noise: half of the labels are drawn "
                f"anew in the paper, so that 45 % are wrong; {config.label_noise:.0%} are here.",
                "Accuracies of small training sets are lower than the paper's; what can be compared is the difference "
                "between both columns.",
            ]
        )
    ]
