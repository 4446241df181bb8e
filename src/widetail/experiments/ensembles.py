"""Ensembles of finite networks with and without random readout scales, on images and their shifts."""

import dataclasses
import functools
import math
import time
from collections.abc import Callable

import jax
import numpy as np
from scipy.special import log_softmax

from widetail import nn
from widetail.experiments.images._report import Comparison
from widetail.experiments.images._shifts import (
    CIFAR10_SEVERITY,
    ImageConfig,
    classes_of,
    shifted_tests,
    tasks_of,
    training_images,
    training_rows,
)
from widetail.experiments.reporting._paper import ENSEMBLES
from widetail.experiments.running._registry import Experiment, Size
from widetail.experiments.running._runner import Outcome, Task
from widetail.finite import ScaledNetwork, fit_ensemble
from widetail.priors import InverseGamma, PointMass, ScalePrior

LOGITS = "_of_logits"  # of scores of the average of logits


@dataclasses.dataclass(frozen=True)
class EnsembleConfig(ImageConfig):
    """What to train and test; of the data, what `ImageConfig` says. Validation images are among the training images.

    Attributes:
        members, width, max_epochs, patience, batch_size, learning_rate: of the ensembles.
        strides: of the four convolutions; the paper's are all 1, which costs eight times as much as these.
        prior: of the readout variance; the plain ensemble has a readout variance of 1.
    """

    rows: int = 5000
    trainings: tuple[str, ...] = ("clean", "left_out", "imbalance", "label_noise")
    members: int = 8
    width: int = 32
    max_epochs: int = 15
    patience: int = 4
    batch_size: int = 32
    learning_rate: float = 0.02
    strides: tuple[int, ...] = (2, 1, 2, 1)
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
        """The paper's size, for a GPU: all images, 128 channels, no strides."""
        return cls(rows=60_000, test_rows=10_000, width=128, max_epochs=60, patience=8, strides=(1, 1, 1, 1))


def config(size: Size) -> EnsembleConfig:
    """The configuration of each size; the full one depends on whether JAX has more than a processor."""
    if size == "quick":
        return EnsembleConfig.quick()
    return EnsembleConfig() if jax.default_backend() == "cpu" else EnsembleConfig.accelerated()


def tasks(config: EnsembleConfig) -> list[Task]:
    """One ensemble each."""
    return tasks_of(config, functools.partial(_run, config), ("plain", "mixture"))


def _run(config: EnsembleConfig, images: str, training: str, seed: int, model: str) -> Outcome:
    x, y = training_images(config, images, training, seed)
    began = time.process_time()
    classes = len(classes_of(images))
    outputs = _fit(config, config.prior if model == "mixture" else PointMass(1.0), x, y, classes, seed)
    found = []
    seconds = time.process_time() - began
    for tests in shifted_tests(config, images, training, seed):
        logits = outputs(tests.pixels)
        of_probabilities = tests.row(np.logaddexp.reduce(log_softmax(logits, axis=-1)) - math.log(len(logits)))
        of_logits = tests.row(log_softmax(np.mean(logits, axis=0), axis=-1))
        found.append(of_probabilities | {name + LOGITS: of_logits[name] for name in ("nll", "accuracy")})
    found[0]["train_seconds"] = seconds
    return Outcome(found)


def _fit(
    config: EnsembleConfig, prior: ScalePrior, x: np.ndarray, y: np.ndarray, classes: int, seed: int
) -> Callable[[np.ndarray], np.ndarray]:
    """Train an ensemble with one output per class, seen or not; from images to outputs (members, m, classes)."""
    shift, factor = float(np.mean(x)), float(np.std(x))

    def inputs(images: np.ndarray) -> np.ndarray:
        with_channels = images.reshape(*images.shape[:3], -1)
        return ((with_channels - shift) / factor).astype(np.float32)

    scale_key, fit_key = jax.random.split(jax.random.key(seed))
    scales = np.asarray(prior.sample(scale_key, (config.members,)), np.float64)
    fit = fit_ensemble(
        ScaledNetwork(network(config.strides), config.width, outputs=classes),
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
    return lambda images: fit.outputs(inputs(images))


def network(strides: tuple[int, ...]) -> nn.Layer:
    """A convolution of 3 x 3 pixels with a relu for every stride."""
    layers: list[nn.Layer] = []
    for stride in strides:
        layers += [nn.Conv(3, weight_var=2.0, bias_var=0.1, strides=stride), nn.Relu()]
    return nn.Sequential(*layers, nn.Flatten())


def _protocol(config: EnsembleConfig) -> list[str]:
    return [
        f"Here: {config.members} networks of {len(config.strides)} convolutions with {config.width} channels and "
        f"strides {', '.join(map(str, config.strides))}, NTK parametrisation, Adam, {training_rows(config)}, of which "
        f"a tenth stops the training, {config.test_rows} test images at most, {config.seeds} seeds unless the title "
        "says that tasks are missing. The paper: 8 networks, 128 channels, strides of 1, all images.",
        f"The mixture draws the readout variance of each network from {config.prior}; the plain ensemble has variance "
        "1. Both start from the same random numbers and see the same images in the same order.",
        "The NLL is the mean over images of minus the log of the mean probability of the members, in nats; beside it, "
        "of the softmax of their mean outputs, as in the paper's scripts. The paper's numbers are a mean over classes "
        "too (a tenth of that; for EMNIST, for which its scripts have 37 outputs, a 37th) and times 100: its columns "
        "are converted.",
        "Corruptions follow the recipes of MNIST-C at its published severities, and of CIFAR-10-C at severity "
        f"{CIFAR10_SEVERITY} (the paper names none). Left out: classes {', '.join(map(str, config.left_out))}. "
        f"Imbalance: class sizes fall exponentially to {config.imbalance:.1%}, as in the paper's scripts. Label noise: "
        f"half of the labels are drawn anew in the paper, so that 45 % are wrong; {config.label_noise:.0%} are here.",
        "Accuracies of small training sets are lower than the paper's; what can be compared is the difference between "
        "both columns.",
    ]


COMPARISON = Comparison(
    plain="plain",
    mixture="mixture",
    model="one ensemble",
    paper=ENSEMBLES,
    # the paper's NLLs are times 100, and means over outputs too, of which its scripts have 37 for EMNIST
    to_nats=lambda case: (37 if case.startswith("emnist") else 10) / 100,
    unit_note="The paper's numbers were multiplied by 10, and by 37 for EMNIST: it divides by the number of outputs. ",
    ways={LOGITS: "of mean outputs"},
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
