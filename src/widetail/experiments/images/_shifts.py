"""Training data and test scores that the experiments on images share."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from widetail import metrics
from widetail.datasets import DataUnavailableError, load_images
from widetail.datasets.shifts import (
    corrupt_cifar10,
    corrupt_mnist,
    rows_with_imbalance,
    rows_without,
    with_label_noise,
)
from widetail.experiments.images._names import shown
from widetail.experiments.running._runner import Outcome, Task

CIFAR10_SEVERITY = 5


@dataclasses.dataclass(frozen=True)
class ImageConfig:
    """Data of an experiment that compares classifiers.

    Attributes:
        images: names of data sets.
        seeds: how many; a seed chooses training rows, corruptions, and the models' random numbers.
        rows: training images, at most.
        test_rows: test images, at most.
        corruptions: of the test images of MNIST.
        colour_corruptions: of those of CIFAR-10.
        trainings: "clean", "left_out" (three classes never seen), "imbalance", "label_noise".
        left_out: classes that are never seen in training "left_out": those of the paper's scripts by default.
        imbalance: share that the rarest class keeps; the paper's scripts have exp(-4.5).
        label_noise: share of wrong labels.
        seed: of everything, added to the number of each seed.
    """

    images: tuple[str, ...] = ("mnist", "fashion_mnist", "cifar10", "emnist_letters", "svhn", "kmnist")
    seeds: int = 4
    rows: int = 60_000
    test_rows: int = 5000
    corruptions: tuple[str, ...] = ("shot_noise", "impulse_noise", "spatter", "glass_blur")
    colour_corruptions: tuple[str, ...] = ("shot_noise", "impulse_noise", "spatter", "fog", "snow")
    trainings: tuple[str, ...] = ("clean", "left_out")
    left_out: tuple[int, ...] = (1, 4, 8)
    imbalance: float = 0.011
    label_noise: float = 0.45
    seed: int = 0


Run = Callable[
    ..., Outcome
]  # of what a task is told by: data set, training data and seed, and the model if there is one


def tasks_of(config: ImageConfig, run: Run, models: tuple[str, ...] = ()) -> list[Task]:
    """One for every data set, kind of training data and seed, and for every model where they are named."""
    keys = [
        {"images": images, "training": training, "seed": seed}
        for seed in range(config.seed, config.seed + config.seeds)
        for training in config.trainings
        for images in config.images
    ]
    if models:
        keys = [{**key, "model": model} for key in keys for model in models]
    return [Task(key, functools.partial(run, **key)) for key in keys]


def training_images(config: ImageConfig, images: str, training: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images and numbers of their classes to train on: some of the data set, with what is wrong with them."""
    data = load_images(images)
    order = np.random.default_rng(seed).permutation(len(data.y_train))[: config.rows]
    x, labels = data.x_train[order], data.y_train[order].astype(np.int64)
    y = np.searchsorted(classes_of(images), labels)
    if training == "label_noise":
        return x, with_label_noise(y, config.label_noise, seed=seed)
    if training == "left_out":
        kept = rows_without(labels, config.left_out)
    elif training == "imbalance":
        kept = rows_with_imbalance(y, config.imbalance, seed=seed)
    else:
        return x, y
    return x[kept], y[kept]


def classes_of(images: str) -> np.ndarray:
    """All labels of a data set, in order."""
    return np.array(sorted(load_images(images).class_names))


def training_rows(config: Any) -> str:
    """How many training images there are, and which of `config.images` have fewer than `config.rows`."""
    few = []
    for name in config.images:
        try:
            count = len(load_images(name).y_train)
        except DataUnavailableError:  # a report can be written where the data are not
            continue
        if count < config.rows:
            few.append(f"{shown(name, 'clean')} {count}")
    return f"{config.rows} training images" + (f" ({', '.join(few)}: all that are at hand)" if few else "")


class Tests(NamedTuple):
    """Test images of one kind.

    Attributes:
        name: "clean", or a corruption.
        pixels: of the images.
        labels: numbers of their classes, shape (m,).
        is_new: which of them are of classes that training did not have; None where it had them all.
    """

    name: str
    pixels: np.ndarray
    labels: np.ndarray
    is_new: np.ndarray | None

    def row(self, log_probabilities: np.ndarray) -> dict[str, Any]:
        """Scores of a model that says this of them, shape (m, classes)."""
        p = np.exp(log_probabilities)
        binned = metrics.reliability(p, self.labels)
        found = {
            "test": self.name,
            "accuracy": metrics.accuracy(p, self.labels),
            # from logarithms: the probability of a class that was never seen can be too small for a number
            "nll": -float(np.mean(log_probabilities[np.arange(len(self.labels)), self.labels])),
            "brier": metrics.brier(p, self.labels),
            "ece": binned.ece,
            "bin_counts": binned.counts,
            "bin_confidence": np.nan_to_num(binned.confidence),
            "bin_accuracy": np.nan_to_num(binned.accuracy),
        }
        if self.is_new is not None:
            entropy = metrics.predictive_entropy(p)
            found["auroc"] = metrics.auroc(entropy[~self.is_new], entropy[self.is_new])
        return found


def shifted_tests(config: ImageConfig, images: str, training: str, seed: int) -> Iterator[Tests]:
    """Clean test images; with clean training data, corrupted ones too where there are recipes for them."""
    data = load_images(images)
    some = np.random.default_rng(0).permutation(len(data.y_test))[: config.test_rows]  # a file may be sorted by class
    x, y = data.x_test[some], data.y_test[some].astype(np.int64)
    labels = np.searchsorted(classes_of(images), y)
    yield Tests("clean", x, labels, np.isin(y, config.left_out) if training == "left_out" else None)
    if training != "clean":
        return
    if images == "mnist":
        for name in config.corruptions:
            yield Tests(name, corrupt_mnist(x, name, seed=seed), labels, None)
    elif images == "cifar10":
        for name in config.colour_corruptions:
            yield Tests(name, corrupt_cifar10(x, name, CIFAR10_SEVERITY, seed=seed), labels, None)
