"""Ensembles of finite networks with and without random readout scales, on images and their shifts."""

import dataclasses
import math
import time
from typing import Any

import jax
import numpy as np
from scipy.special import log_softmax, logsumexp

from widetail import metrics
from widetail.datasets import load_images
from widetail.datasets.shifts import corrupt_mnist, rows_with_imbalance, rows_without, with_label_noise
from widetail.estimators._wide import default_network
from widetail.experiments._ensembles_report import findings
from widetail.experiments._registry import Experiment, Size
from widetail.experiments._runner import Outcome, Task
from widetail.finite import ScaledNetwork, fit_ensemble
from widetail.priors import InverseGamma, PointMass, ScalePrior

CLASSES = 10


@dataclasses.dataclass(frozen=True)
class EnsembleConfig:
    """What to train and test. The defaults take less than three hours on two cores.

    Attributes:
        images: names of data sets with ten classes, grey and 28 x 28.
        seeds: how many; a seed chooses training rows, corruptions, and the networks' random numbers.
        rows: training images, validation images among them.
        test_rows: test images.
        members, width, max_epochs, patience, batch_size, learning_rate: of the ensembles.
        prior: of the readout variance; the plain ensemble has a readout variance of 1.
        corruptions: shifted test sets.
        trainings: "clean", "left_out" (three classes never seen), "imbalance", "label_noise".
        left_out: classes that are never seen in training "left_out".
        imbalance: share that the rarest class keeps.
        label_noise: share of wrong labels.
        seed: of everything, added to the number of each seed.
    """

    images: tuple[str, ...] = ("mnist", "kmnist", "fashion_mnist")
    seeds: int = 4
    rows: int = 1500
    test_rows: int = 5000
    members: int = 8
    width: int = 24
    max_epochs: int = 15
    patience: int = 4
    batch_size: int = 32
    learning_rate: float = 0.02
    prior: ScalePrior = InverseGamma(2.0, 2.0)  # noqa: RUF009
    corruptions: tuple[str, ...] = ("shot_noise", "impulse_noise", "spatter", "glass_blur")
    trainings: tuple[str, ...] = ("clean", "left_out", "imbalance", "label_noise")
    left_out: tuple[int, ...] = (7, 8, 9)
    imbalance: float = 0.05
    label_noise: float = 0.45
    seed: int = 0

    @classmethod
    def quick(cls) -> "EnsembleConfig":
        """One data set, two seeds, tiny networks."""
        return cls(
            images=("mnist",),
            seeds=2,
            rows=500,
            test_rows=1000,
            members=4,
            width=12,
            max_epochs=8,
            corruptions=("shot_noise", "glass_blur"),
            trainings=("clean", "left_out"),
        )

    @classmethod
    def accelerated(cls) -> "EnsembleConfig":
        """The paper's size, for a GPU: all images, 128 channels."""
        return cls(rows=60_000, test_rows=10_000, width=128, max_epochs=60, patience=8)


def config(size: Size) -> EnsembleConfig:
    """The configuration of each size; the full one depends on whether JAX has more than a processor."""
    if size == "quick":
        return EnsembleConfig.quick()
    return EnsembleConfig() if jax.default_backend() == "cpu" else EnsembleConfig.accelerated()


def tasks(config: EnsembleConfig) -> list[Task]:
    """One ensemble each."""
    return [
        Task(
            {"images": images, "training": training, "model": model, "seed": seed},
            lambda i=images, t=training, m=model, s=seed: _run(config, i, t, m, s),
        )
        for seed in range(config.seed, config.seed + config.seeds)
        for images in config.images
        for training in config.trainings
        for model in ("plain", "mixture")
    ]


def _run(config: EnsembleConfig, images: str, training: str, model: str, seed: int) -> Outcome:
    data = load_images(images)
    order = np.random.default_rng(seed).permutation(len(data.y_train))[: config.rows]
    x, y = data.x_train[order], data.y_train[order].astype(np.int64)
    if training == "left_out":
        kept = rows_without(y, config.left_out)
        x, y = x[kept], y[kept]
    elif training == "imbalance":
        kept = rows_with_imbalance(y, config.imbalance, seed=seed)
        x, y = x[kept], y[kept]
    elif training == "label_noise":
        y = with_label_noise(y, config.label_noise, seed=seed)
    x_test, y_test = data.x_test[: config.test_rows], data.y_test[: config.test_rows].astype(np.int64)
    began = time.monotonic()
    log_probabilities = _fit(config, config.prior if model == "mixture" else PointMass(1.0), x, y, seed)
    seconds = time.monotonic() - began
    rows = [_row("clean", log_probabilities(x_test), y_test)]
    if training == "clean":
        for name in config.corruptions:
            rows.append(_row(name, log_probabilities(corrupt_mnist(x_test, name, seed=seed)), y_test))
    elif training == "left_out":
        entropy = metrics.predictive_entropy(np.exp(log_probabilities(x_test)))
        is_new = np.isin(y_test, config.left_out)
        rows[0]["auroc"] = metrics.auroc(entropy[~is_new], entropy[is_new])
    rows[0]["train_seconds"] = seconds
    return Outcome(rows)


def _fit(config: EnsembleConfig, prior: ScalePrior, x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """Train an ensemble with one output per class, seen or not; a function from images to log probabilities."""
    shift, factor = x.mean(), x.std()

    def inputs(images: np.ndarray) -> np.ndarray:
        return ((images[..., None] - shift) / factor).astype(np.float32)

    scale_key, fit_key = jax.random.split(jax.random.key(seed))
    scales = np.asarray(prior.sample(scale_key, (config.members,)), np.float64)
    held_out = len(x) // 10
    fit = fit_ensemble(
        ScaledNetwork(default_network((*x.shape[1:], 1)), config.width, outputs=CLASSES),
        scales,
        inputs(x[held_out:]),
        y[held_out:],
        key=fit_key,  # the plain ensemble and the mixture start from the same networks, but for the scale
        loss="cross_entropy",
        learning_rate=config.learning_rate,
        batch_size=config.batch_size,
        max_epochs=config.max_epochs,
        patience=config.patience,
        validation=(inputs(x[:held_out]), y[:held_out]),
    )

    def log_probabilities(images: np.ndarray) -> np.ndarray:
        members = log_softmax(fit.outputs(inputs(images)).astype(np.float64), axis=-1)
        return logsumexp(members, axis=0) - math.log(len(members))

    return log_probabilities


def _row(test: str, log_probabilities: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    p = np.exp(log_probabilities)
    binned = metrics.reliability(p, labels)
    return {
        "test": test,
        "accuracy": metrics.accuracy(p, labels),
        # from logarithms: the probability of a class that was never seen can be too small for a number
        "nll": -float(np.mean(log_probabilities[np.arange(len(labels)), labels])),
        "brier": metrics.brier(p, labels),
        "ece": binned.ece,
        "bin_counts": binned.counts,
        "bin_confidence": np.nan_to_num(binned.confidence),
        "bin_accuracy": np.nan_to_num(binned.accuracy),
    }


EXPERIMENT = Experiment(
    title="Ensembles of finite networks",
    question=(
        "Does an ensemble whose networks have random readout variances (the mixture) have a lower NLL than a plain "
        "ensemble, under corruption, with classes that were never seen, with few images of some classes, and with "
        "wrong labels?"
    ),
    config=config,
    tasks=tasks,
    findings=findings,
)
