"""Ensembles of finite networks with and without random readout scales, on images and their shifts."""

import dataclasses
import math
import time
from typing import Any

import jax
import numpy as np
from scipy.special import log_softmax, logsumexp

from widetail.estimators import default_network
from widetail.experiments._classification_report import Comparison
from widetail.experiments._image_shifts import ImageConfig, score, tasks_of, training_images, training_rows
from widetail.experiments._paper import ENSEMBLES
from widetail.experiments._registry import Experiment, Size
from widetail.experiments._runner import Outcome, Task
from widetail.finite import ScaledNetwork, fit_ensemble
from widetail.priors import InverseGamma, PointMass, ScalePrior

CLASSES = 10


@dataclasses.dataclass(frozen=True)
class EnsembleConfig(ImageConfig):
    """What to train and test. The defaults take less than three hours on two cores.

    Attributes:
        images, seeds, rows, test_rows, corruptions, trainings, left_out, imbalance, label_noise, seed: see
            `ImageConfig`;
            validation images are among the training images.
        members, width, max_epochs, patience, batch_size, learning_rate: of the ensembles.
        prior: of the readout variance; the plain ensemble has a readout variance of 1.
    """

    rows: int = 1500
    test_rows: int = 5000
    trainings: tuple[str, ...] = ("clean", "left_out", "imbalance", "label_noise")
    members: int = 8
    width: int = 24
    max_epochs: int = 15
    patience: int = 4
    batch_size: int = 32
    learning_rate: float = 0.02
    prior: ScalePrior = InverseGamma(2.0, 2.0)  # noqa: RUF009

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
    return tasks_of(config, ("plain", "mixture"), _run)


def _run(config: EnsembleConfig, images: str, training: str, model: str, seed: int) -> Outcome:
    x, y = training_images(config, images, training, seed)
    began = time.monotonic()
    log_probabilities = _fit(config, config.prior if model == "mixture" else PointMass(1.0), x, y, seed)
    return score(config, images, training, seed, log_probabilities, time.monotonic() - began)


def _fit(config: EnsembleConfig, prior: ScalePrior, x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """Train an ensemble with one output per class, seen or not; a function from images to log probabilities."""
    shift, factor = x.mean(), x.std()

    def inputs(images: np.ndarray) -> np.ndarray:
        return ((images[..., None] - shift) / factor).astype(np.float32)

    scale_key, fit_key = jax.random.split(jax.random.key(seed))
    scales = np.asarray(prior.sample(scale_key, (config.members,)), np.float64)
    fit = fit_ensemble(
        ScaledNetwork(default_network((*x.shape[1:], 1)), config.width, outputs=CLASSES),
        scales,
        inputs(x),
        y,
        key=fit_key,  # the plain ensemble and the mixture start from the same networks, but for the scale
        loss="cross_entropy",
        learning_rate=config.learning_rate,
        batch_size=config.batch_size,
        max_epochs=config.max_epochs,
        patience=config.patience,
        held_out=np.arange(len(x)) < len(x) // 10,
    )

    def log_probabilities(images: np.ndarray) -> np.ndarray:
        members = log_softmax(fit.outputs(inputs(images)).astype(np.float64), axis=-1)
        return logsumexp(members, axis=0) - math.log(len(members))

    return log_probabilities


def _protocol(config: EnsembleConfig) -> list[str]:
    return [
        f"Here: {config.members} networks of 4 convolutions with {config.width} channels, NTK parametrisation, Adam, "
        f"{training_rows(config)}, of which a tenth stops the training, {config.test_rows} test images, "
        f"{config.seeds} seeds. The paper: 8 networks, 128 channels, all images.",
        f"The mixture draws the readout variance of each network from {config.prior}; the plain ensemble has variance "
        "1. Both start from the same random numbers and see the same images in the same order.",
        "The NLL is the mean over images of minus the log of the mean probability of the members, in nats. The "
        "paper's numbers are a mean over classes too (a tenth of that) and times 100: its columns are converted.",
        "Corruptions follow the recipes of MNIST-C at its published severities. Left out: classes "
        f"{', '.join(map(str, config.left_out))}. Imbalance: class sizes fall exponentially to {config.imbalance:.0%} "
        "(the paper does not say how far). Label noise: half of the labels are drawn anew in the paper, so that 45 % "
        f"are wrong; {config.label_noise:.0%} are here.",
        "Accuracies of small training sets are lower than the paper's; what can be compared is the difference between "
        "both columns.",
    ]


COMPARISON = Comparison(
    plain="plain",
    mixture="mixture",
    model="one ensemble",
    paper=ENSEMBLES,
    to_nats=10 / 100,  # the paper's NLLs are times 100, and means over 10 classes too
    unit_note="The paper's numbers were multiplied by 10: it divides by the number of classes. ",
    figure="ensemble-reliability",
    protocol=_protocol,
)

EXPERIMENT = Experiment(
    title="Ensembles of finite networks",
    question=(
        "Does an ensemble whose networks have random readout variances (the mixture) have a lower NLL than a plain "
        "ensemble, under corruption, with classes that were never seen, with few images of some classes, and with "
        "wrong labels?"
    ),
    config=config,
    tasks=tasks,
    findings=COMPARISON.findings,
)
