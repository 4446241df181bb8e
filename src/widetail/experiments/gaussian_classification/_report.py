"""What classification with Gaussian likelihood found."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from widetail.experiments.images._names import shown
from widetail.experiments.images._shifts import training_rows
from widetail.experiments.reporting._aggregate import paired_differences, summarise
from widetail.experiments.reporting._paper import GAUSSIAN_CLASSIFICATION
from widetail.experiments.reporting._parts import Bullets, Figure, Prose, Section, Table, TextTable
from widetail.experiments.reporting._reliability import reliability_figure
from widetail.experiments.reporting._tables import between, ours, papers, side_by_side
from widetail.experiments.running._registry import Findings, Results

FIXED, NNGP, INVERSE_GAMMA, BURR = "NNGP, variance 1", "NNGP", "Inverse gamma", "Burr XII"  # in rows
# In tables: the kernel is what evidence chose, more often an RBF than a network.
TITLES = {FIXED: "GP, variance 1", NNGP: "GP", INVERSE_GAMMA: INVERSE_GAMMA, BURR: BURR}
CORNER = "data set"


def findings(results: Results) -> Findings:
    """Sentences and sections of the report."""
    rows = [{**row, "case": f"{row['images']}/{row['test']}"} for row in results.rows]
    # the order of the paper: a data set, then its corruptions
    order = sorted(
        dict.fromkeys(row["case"] for row in rows), key=lambda c: results.config.images.index(c.split("/")[0])
    )
    cases = {case: shown(*case.split("/")) for case in order}
    by_prior = [
        {"case": row["case"], "seed": row["seed"], "model": model, **found}
        for row in rows
        for model, found in row["targets"].items()
    ]
    gaps = {
        model: paired_differences(by_prior, ("case",), "model", model, NNGP, ("seed",), "nll")
        for model in (FIXED, INVERSE_GAMMA, BURR)
    }
    return Findings(
        _sentences(cases, gaps),
        [
            Section("Density of the targets", _targets(by_prior, cases, gaps)),
            Section("Class probabilities and calibration", _classes(rows, cases)),
            Section("What was chosen, and how long it took", _choices(rows, results)),
            Section("How this differs from the paper", _protocol(results)),
        ],
    )


def _sentences(cases: Mapping[str, str], gaps: Mapping[str, Mapping[Any, Any]]) -> list[str]:
    mixture = [gap.mean for gap in (*gaps[INVERSE_GAMMA].values(), *gaps[BURR].values())]
    fixed = [gap.mean for gap in gaps[FIXED].values()]
    return [
        f"On {len(cases)} test sets the NLL of a target under both mixtures differs from that of a Gaussian process "
        f"(GP) whose readout variance was learned by **{between(mixture, 5)}** nats: with thousands of targets that "
        "variance is known, and every prior gives the same predictive distribution.",
        "What matters is a readout variance that is fixed where it should not be: the NLL of a GP with variance 1 "
        f"differs by {between(fixed)} nats, and is higher on {sum(gap > 0 for gap in fixed)} test sets. A prior makes "
        "that tuning unnecessary.",
        "The location, and with it accuracy and class probabilities, is the same under every prior.",
    ]


def _targets(by_prior: Sequence[Mapping[str, Any]], cases: Mapping[str, str], gaps: Any) -> list[Any]:
    nll = summarise(by_prior, ("case", "model"), "nll")
    columns = {
        "paper: NNGP": papers(GAUSSIAN_CLASSIFICATION, "NNGP"),
        TITLES[FIXED]: ours(nll, FIXED),
        TITLES[NNGP]: ours(nll, NNGP),
        "paper: inverse gamma": papers(GAUSSIAN_CLASSIFICATION, "Inverse gamma"),
        INVERSE_GAMMA: ours(nll, INVERSE_GAMMA),
        "paper: Burr XII": papers(GAUSSIAN_CLASSIFICATION, "Burr XII"),
        BURR: ours(nll, BURR),
    }
    beside = [name for name in columns if name.startswith("paper")]
    title = "NLL of one one-hot target, in nats, mean over images and classes; lower is better"
    differences = {f"{TITLES[model]} minus {TITLES[NNGP]}": ours(gaps[model]) for model in gaps}
    return [
        Table(
            side_by_side(title, CORNER, cases, columns, beside=beside, digits=3),
            "Compare the paper's NLLs with each other alone: its test images were scaled differently from its training "
            "images, and an NLL of 9.29 is a standard deviation of thousands on targets of 0 and 1.",
        ),
        Table(
            side_by_side(
                "Difference of the NLL on the same seed, mean ± standard error",
                CORNER,
                cases,
                differences,
                best=None,
                digits=5,
            )
        ),
    ]


def _classes(rows: Sequence[Mapping[str, Any]], cases: Mapping[str, str]) -> list[Any]:
    columns = {
        "paper: accuracy": papers(GAUSSIAN_CLASSIFICATION, "accuracy"),
        "accuracy": ours(summarise(rows, ("case",), "accuracy"), factor=100.0),
        "NLL of the class": ours(summarise(rows, ("case",), "class_nll")),
        "expected calibration error": ours(summarise(rows, ("case",), "ece")),
    }
    title = "Accuracy in per cent; NLL of the class in nats per image"
    pooled = {name: {"": [row for row in rows if row["case"] == case]} for case, name in cases.items()}
    return [
        Prose(
            "Probabilities are a softmax of the locations, with a temperature fitted to training images that are left "
            "out one at a time. They are the same under every prior."
        ),
        Table(
            side_by_side(title, CORNER, cases, columns, beside=["paper: accuracy"], best=None),
        ),
        Figure(
            "gaussian-reliability",
            reliability_figure(pooled),
            "Accuracy against confidence, all seeds together; below the diagonal predictions are too sure of "
            "themselves. Bars are 95 % intervals.",
        ),
    ]


def _choices(rows: Sequence[Mapping[str, Any]], results: Results) -> list[Any]:
    lines = []
    for images in results.config.images:
        mine = [row for row in rows if row["images"] == images and row["test"] == "clean"]
        chosen = Counter(row["architecture"] for row in mine).most_common()
        variances = [row["targets"][NNGP]["variance"] for row in mine]
        burr = Counter(row["targets"][BURR]["prior"] for row in mine).most_common(1)[0][0]
        seconds = summarise(mine, ("images",), "seconds")[(images,)].mean
        lines.append(
            [
                shown(images, "clean"),
                ", ".join(f"{a} ({n})" for a, n in chosen),
                between(variances),
                burr,
                f"{seconds:.1f}",
            ]
        )
    head = ("data set", "architecture by evidence (seeds)", "readout variance of the GP", "Burr XII", "seconds")
    return [TextTable(head, lines)]


def _protocol(results: Results) -> list[Any]:
    config = results.config
    return [
        Bullets(
            [
                f"{training_rows(config)} and {config.test_rows} test images, drawn anew for each of {config.seeds} "
                "seeds; the paper has 5000 and 1000. Fully connected networks on pixels, or an RBF kernel: "
                "architecture, weight and bias variances and noise by evidence on training images. Columns GP are "
                "Gaussian processes with the kernel that was chosen, NNGPs only where that is a network.",
                "All images are scaled with the mean and the spread of the training pixels. The paper's test images "
                "were not scaled like its training images, so that its predictive standard deviations are those of "
                "inputs far away from all data. Only the ordering of its columns can be compared.",
                "Targets are one-hot minus the share of a class, observed with noise; the NLL is of a noisy target, "
                "marginal, mean over images and classes. The ± is the standard error over seeds.",
                "All columns share one kernel and one noise, learned under InverseGamma(2, 2). Parameters of the "
                "inverse gamma and Burr XII priors are chosen from {0.5, 1, 2, 3, 4} by evidence. All classes share "
                "one readout variance, so that its posterior rests on images times classes observations.",
                "EMNIST is its letters part, 26 classes.",
            ]
        )
    ]
