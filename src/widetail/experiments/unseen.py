"""Classes that were never seen: what doubt gives, what it costs, and what tails alone would."""

import dataclasses
import functools
import time
from typing import Any, Literal

import numpy as np
from scipy.special import log_softmax, logsumexp
from scipy.stats import norm, qmc, t

from widetail import metrics
from widetail.datasets import load_images
from widetail.estimators import SparseMixtureClassifier
from widetail.experiments._aggregate import summarise
from widetail.experiments._image_shifts import training_images
from widetail.experiments._registry import Experiment, Findings, Results, Size
from widetail.experiments._report import Bullets, Prose, Section, Table
from widetail.experiments._runner import Outcome, Task
from widetail.experiments._tables import ours, side_by_side
from widetail.experiments.sparse import CLASSES, SparseConfig, network
from widetail.priors import InverseGamma, PointMass
from widetail.sparse import InverseGammaScale

PLAIN, SHARED, DOUBT = "SVGP", "SVTP, one scale for all", "SVGP with doubt"
DEGREES = (30.0, 10.0, 4.0)
DOUBLED = "SVGP, twice the variance"
SWAP_DRAWS, SWAP_ROWS_AT_ONCE = 2048, 256


@dataclasses.dataclass(frozen=True)
class UnseenConfig(SparseConfig):
    """What to train and test; `SparseConfig` says what the fields are. Each training lacks the classes `left_out`."""

    images: tuple[str, ...] = ("mnist", "fashion_mnist")
    trainings: tuple[str, ...] = ("left_out",)
    rows: int = 60_000
    test_rows: int = 10_000
    inducing: int = 400
    left_out: tuple[int, ...] = (1, 4, 8)

    @classmethod
    def quick(cls) -> "UnseenConfig":
        """One data set, two seeds, few images."""
        return cls(images=("mnist",), seeds=2, rows=2000, test_rows=500, inducing=70, depth=2)


def config(size: Size) -> UnseenConfig:
    """The configuration of each size."""
    return UnseenConfig.quick() if size == "quick" else UnseenConfig()


def tasks(config: UnseenConfig) -> list[Task]:
    """Two fits for every data set and seed; the rows of the first are those of several models."""
    return [
        Task({"images": images, "prior": prior, "seed": seed}, functools.partial(_run, config, images, prior, seed))
        for seed in range(config.seed, config.seed + config.seeds)
        for prior in ("point", "inverse gamma")
        for images in config.images
    ]


def _run(config: UnseenConfig, images: str, prior: str, seed: int) -> Outcome:
    x, y = training_images(config, images, "left_out", seed)
    began = time.monotonic()
    is_point = prior == "point"
    model = SparseMixtureClassifier(
        network(config.depth), PointMass(1.0) if is_point else InverseGamma(2.0, 2.0), config.inducing, seed,
        doubt=is_point,
    )  # fmt: skip
    model.fit(x, y, classes=CLASSES)
    law = model.model_.q.law
    facts = {
        "scale": 1 / law.mean_precision,
        "a": law.a if isinstance(law, InverseGammaScale) else None,
        "b": law.b if isinstance(law, InverseGammaScale) else None,
        "open_share": model.model_.open_share,
        "train_seconds": time.monotonic() - began,
    }
    data = load_images(images)
    pixels, labels = data.x_test[: config.test_rows], data.y_test[: config.test_rows].astype(np.int64)
    is_new = np.isin(labels, config.left_out)
    if model.doubt_ is None:
        return Outcome([_row(PLAIN if is_point else SHARED, model.predict_proba(pixels), labels, is_new) | facts])
    inputs = model._new_inputs(pixels)
    plain, doubts = model.doubt_.predict(model.model_, inputs, seed=seed)
    learned = {"price": model.doubt_.price, "auroc_hidden": model.doubt_.auroc}
    doubted = _row(DOUBT, model.doubt_.applied(plain.probabilities, doubts), labels, is_new, doubts) | facts | learned
    rows = [_row(PLAIN, plain.probabilities, labels, is_new) | facts, doubted]
    mean, variance = model.model_.latent(inputs)
    spread = np.sqrt(variance * facts["scale"])
    for name, degrees, factor in (
        *((f"SVGP, t with {degrees:g} degrees of freedom", degrees, 1.0) for degrees in DEGREES),
        (DOUBLED, None, 2.0),
    ):
        rows.append(_row(name, _swapped(mean, np.sqrt(factor) * spread, degrees), labels, is_new) | facts)
    return Outcome(rows)


def _swapped(mean: np.ndarray, spread: np.ndarray, degrees: float | None) -> np.ndarray:
    """Class probabilities when every latent value is drawn by itself from another law with the same scale."""
    points = qmc.Sobol(mean.shape[1], scramble=True, rng=np.random.default_rng(0)).random(SWAP_DRAWS)
    points = np.clip(points, 1e-9, 1 - 1e-9)
    table = norm.ppf(points) if degrees is None else t.ppf(points, degrees)
    parts = []
    for start in range(0, len(mean), SWAP_ROWS_AT_ONCE):
        here = slice(start, start + SWAP_ROWS_AT_ONCE)
        f = mean[here, None] + spread[here, None] * table
        parts.append(logsumexp(log_softmax(f, axis=-1), axis=1) - np.log(SWAP_DRAWS))
    return np.exp(np.concatenate(parts))


def _row(
    model: str, p: np.ndarray, labels: np.ndarray, is_new: np.ndarray, score: np.ndarray | None = None
) -> dict[str, Any]:
    losses = -np.log(np.maximum(p[np.arange(len(labels)), labels], np.finfo(np.float64).tiny))
    score = metrics.predictive_entropy(p) if score is None else score
    return {
        "model": model,
        "nll": float(np.mean(losses)),
        "nll_seen": float(np.mean(losses[~is_new])),
        "nll_unseen": float(np.mean(losses[is_new])),
        "accuracy_seen": metrics.accuracy(p[~is_new], labels[~is_new]),
        "auroc": metrics.auroc(score[~is_new], score[is_new]),
    }


def findings(results: Results) -> Findings:
    """One table for every number."""
    rows = results.rows
    models = list(dict.fromkeys(row["model"] for row in rows))
    images = {row["images"]: row["images"] for row in rows}
    tables, sentences = [], []
    listed: tuple[tuple[str, str, Literal["lowest", "highest"] | None], ...] = (
        ("nll", "NLL of all test images, nats per image", "lowest"),
        ("nll_seen", "NLL of the classes that were seen", "lowest"),
        ("nll_unseen", "NLL of the classes that were left out", "lowest"),
        ("accuracy_seen", "Accuracy on the classes that were seen", "highest"),
        ("auroc", "AUROC of telling classes that were left out: by entropy, or by doubt where there is one", "highest"),
        ("scale", "Scale: one over the mean of one over it", None),
    )
    for value, title, best in listed:
        found = summarise(rows, ("images", "model"), value)
        columns = {name: ours(found, name) for name in models}
        tables.append(Table(side_by_side(title, "data set", images, columns, best=best, digits=3)))
        if value in ("nll", "nll_seen", "auroc"):
            for name in images:
                said = "; ".join(f"{model} {found[name, model].mean:.3f}" for model in models if (name, model) in found)
                sentences.append(f"{title}, {name}: {said}.")
    config = results.config
    protocol = [
        f"{config.rows} training images without the classes {', '.join(map(str, config.left_out))}, "
        f"{config.inducing} inducing images, {config.test_rows} test images, {config.seeds} seeds.",
        "All ten classes have an output. Doubt gives a share of the probability to the classes without rows, and was "
        "learned by hiding other classes; no test image took part.",
        "Rows with t variables or a doubled variance are the fit of the SVGP with another law of its latent values, "
        "drawn for every image and class by itself.",
    ]
    return Findings(sentences, [Section("Scores", [Prose("Mean and standard error over seeds."), *tables]),
                                Section("How it was done", [Bullets(protocol)])])  # fmt: skip


EXPERIMENT = Experiment(
    title="Classes that were never seen",
    question=(
        "How much of the probability of an image does a model keep for classes of which it had no rows, what does that "
        "cost on the others, and do heavy tails of the scale or of every latent value do the same?"
    ),
    config=config,
    tasks=tasks,
    findings=findings,
)
