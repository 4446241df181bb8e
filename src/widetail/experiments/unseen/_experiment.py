"""Classes that were never seen: what doubt gives, what it costs, and where the paper's gain comes from."""

import dataclasses
import functools
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from widetail import metrics
from widetail.datasets import load_images
from widetail.experiments.running._registry import Experiment, config_of
from widetail.experiments.running._runner import Outcome, Task
from widetail.experiments.sparse import (
    DOUBT,
    DRAWS,
    PLAIN,
    Plain,
    SparseConfig,
    latent,
    logs_of,
    plain_model,
    trained_on,
)
from widetail.experiments.unseen._published import train_published
from widetail.experiments.unseen._report import CODED, CODED_HELD, CODED_PLAIN, DOUBLED, OWN, SHARED, findings
from widetail.experiments.unseen._tails import drawn
from widetail.sparse import Doubt, InverseGammaScale, class_probabilities, fit_doubt


@dataclasses.dataclass(frozen=True)
class UnseenConfig(SparseConfig):
    """What to train and test; `SparseConfig` says what the fields are. Each training lacks the classes `left_out`.

    Attributes:
        foreign: data sets none of whose images a model of the first of `images` has anything to say about.
        foreign_rows: test images of each of them.
        degrees: of freedom of the t laws that latent values are drawn from.
        epochs: of the models as coded.
    """

    images: tuple[str, ...] = ("mnist", "fashion_mnist")
    trainings: tuple[str, ...] = ("left_out",)
    rows: int = 60_000
    test_rows: int = 10_000
    inducing: int = 400
    left_out: tuple[int, ...] = (1, 4, 8)
    foreign: tuple[str, ...] = ("fashion_mnist", "kmnist", "notmnist")
    foreign_rows: int = 1000
    degrees: tuple[float, ...] = (30.0, 10.0, 4.0)
    epochs: int = 25

    @classmethod
    def quick(cls) -> "UnseenConfig":
        """One data set, two seeds, few images."""
        return cls(images=("mnist",), seeds=2, rows=2000, test_rows=500, inducing=70, depth=2, foreign_rows=200)


def tasks(config: UnseenConfig) -> list[Task]:
    """One for every data set and seed: all models share a kernel, inducing images and features."""
    return [
        Task({"images": images, "seed": seed}, functools.partial(_run, config, images, seed))
        for seed in range(config.seed, config.seed + config.seeds)
        for images in config.images
    ]


class Tested(NamedTuple):
    """Features of the test images, and what they show."""

    features: np.ndarray
    residual: np.ndarray
    labels: np.ndarray
    is_new: np.ndarray

    def row(self, fit: str, law: str, p: np.ndarray, log_score: np.ndarray, score: Any = None) -> dict[str, Any]:
        """Scores of class probabilities, and how well a score tells new classes: entropy by default."""
        score = metrics.predictive_entropy(p) if score is None else score
        is_old = ~self.is_new
        return {
            "fit": fit,
            "law": law,
            "nll": float(np.mean(-log_score)),
            "nll_seen": float(np.mean(-log_score[is_old])),
            "nll_unseen": float(np.mean(-log_score[self.is_new])),
            "accuracy_seen": metrics.accuracy(p[is_old], self.labels[is_old]),
            "auroc": metrics.auroc(score[is_old], score[self.is_new]),
        }


def _run(config: UnseenConfig, images: str, seed: int) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="widetail-unseen-") as folder:
        return compare(config, images, seed, Path(folder))


def compare(config: UnseenConfig, images: str, seed: int, folder: Path) -> Outcome:
    """All models of one data set and seed; `folder` keeps features, for a run that goes on after an interruption."""
    fitted = plain_model(config, images, "left_out", seed, folder)
    model, began = fitted.model, time.process_time()
    doubt = fit_doubt(model, fitted.rows, fitted.labels, seed=seed)
    doubt_seconds = time.process_time() - began
    data = load_images(images)
    labels = data.y_test[: config.test_rows].astype(np.int64)
    features = fitted.features(data.x_test[: config.test_rows], folder / f"{images}-{seed}.test")
    parts, residual = (part.astype(np.float64) for part in features)
    tested = Tested(parts, residual, labels, np.isin(labels, config.left_out))
    share, scale = model.residual_share, 1 / model.q.law.mean_precision
    about = {"open_share": share, "scale": scale}

    assert doubt is not None
    plain, doubts = doubt.of_features(model, tested.features, tested.residual, seed=seed)
    found = [
        tested.row(PLAIN, OWN, plain.probabilities, _log_of(plain.probabilities, labels))
        | about | {"processor_seconds": fitted.seconds}
    ]  # fmt: skip
    doubted = doubt.applied(plain.probabilities, doubts)
    found.append(
        tested.row(DOUBT, OWN, doubted, _log_of(doubted, labels), doubts)
        | about
        | {
            "price": doubt.price,
            "auroc_hidden": doubt.auroc,
            "weights": doubt.weights,
            "processor_seconds": doubt_seconds,
        }
        | _foreign(config, images, fitted, doubt, doubts[~tested.is_new])
    )
    found += _swapped(config, PLAIN, tested, *latent(parts, residual * share, model.q), scale, about)

    began = time.process_time()
    shared = trained_on(fitted, config.prior, seed).q
    own = shared.law
    assert isinstance(own, InverseGammaScale)
    about = {"open_share": share, "scale": 1 / own.mean_precision, "a": own.a, "b": own.b}
    mean, variance = latent(parts, residual * share, shared)
    p = class_probabilities(mean, variance, own, draws=DRAWS).probabilities
    found.append(
        tested.row(SHARED, OWN, p, _log_of(p, labels)) | about | {"processor_seconds": time.process_time() - began}
    )
    found += _swapped(config, SHARED, tested, mean, variance, 1 / own.mean_precision, about)
    return Outcome(found + _coded(config, tested, fitted, seed))


def _log_of(p: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return logs_of(p)[np.arange(len(labels)), labels]


def _swapped(
    config: UnseenConfig, fit: str, tested: Tested, mean: np.ndarray, variance: np.ndarray, scale: float, about: Any
) -> list[dict[str, Any]]:
    """The same fit, every latent value drawn by itself from other laws with the same centre and scale."""
    laws = {"normal": (np.inf, 1.0), DOUBLED: (np.inf, 2.0)} | {f"t, {d:g} degrees": (d, 1.0) for d in config.degrees}
    found = []
    for law, (degrees, factor) in laws.items():
        p, log_score = drawn(mean, np.sqrt(factor * scale * variance), tested.labels, degrees)
        found.append(tested.row(fit, law, p, log_score) | about)
    return found


def _foreign(config: UnseenConfig, images: str, fitted: Plain, doubt: Doubt, known: np.ndarray) -> dict[str, float]:
    """AUROC of telling images of other data sets from test images of classes that were seen, by doubt."""
    found = {}
    for name in config.foreign if images == config.images[0] else ():
        pixels = load_images(name).x_test
        some = np.random.default_rng(0).permutation(len(pixels))[: config.foreign_rows]
        doubts = doubt.of_features(fitted.model, *fitted.features(pixels[some]))[1]
        found[f"auroc_{name}"] = metrics.auroc(known, doubts)
    return found


def _coded(config: UnseenConfig, tested: Tested, fitted: Plain, seed: int) -> list[dict[str, Any]]:
    """SVGP and SVTP as the scripts have them, and that SVGP with the scale of that SVTP."""
    prior = float(config.prior.a)  # type: ignore[attr-defined]
    model = fitted.model
    found: list[dict[str, Any]] = []
    mean_scale = 10.0
    shared = {"epochs": config.epochs, "seed": seed}
    for name, shape, is_given in ((CODED_PLAIN, None, False), (CODED, prior, False), (CODED_HELD, None, True)):
        began = time.process_time()
        fit = train_published(
            fitted.rows, model.whitening.factor, len(model.q.mean), prior=shape, scale=mean_scale, is_given=is_given,
            **shared,
        )  # fmt: skip
        about: dict[str, Any] = {
            "open_share": 1.0,
            "scale": fit.scale,
            "processor_seconds": time.process_time() - began,
        }
        if np.isfinite(fit.a):
            about |= {"a": fit.a, "b": fit.b}
            mean_scale = fit.b / (fit.a - 1) if fit.a > 1 else fit.scale
        mean, variance = fit.latent(tested.features, tested.residual)
        p, log_score = drawn(mean, np.sqrt(fit.scale * variance), tested.labels, fit.degrees)
        found.append(tested.row(name, OWN, p, log_score) | about)
        if name != CODED_HELD:
            found += _swapped(config, name, tested, mean, variance, fit.scale, about)
    return found


EXPERIMENT = Experiment(
    title="Classes that were never seen",
    question=(
        "How much of the probability of an image does a model keep for classes of which it had no rows, what does that "
        "cost on the others, and do heavy tails of the scale or of every latent value do the same?"
    ),
    config=config_of(UnseenConfig),
    tasks=tasks,
    findings=findings,
)
