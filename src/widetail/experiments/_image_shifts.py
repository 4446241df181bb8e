"""Training data and test scores that the experiments on images share."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from widetail import metrics
from widetail.datasets import DataUnavailableError, load_images
from widetail.datasets.shifts import corrupt_mnist, rows_with_imbalance, rows_without, with_label_noise
from widetail.experiments._image_names import shown
from widetail.experiments._runner import Outcome, Task


@dataclasses.dataclass(frozen=True)
class ImageConfig:
    """Data of an experiment that compares classifiers.

    Attributes:
        images: names of data sets with ten classes, grey and 28 x 28.
        seeds: how many; a seed chooses training rows, corruptions, and the models' random numbers.
        rows: training images.
        test_rows: test images.
        corruptions: shifted test sets.
        trainings: "clean", "left_out" (three classes never seen), "imbalance", "label_noise".
        left_out: classes that are never seen in training "left_out".
        imbalance: share that the rarest class keeps.
        label_noise: share of wrong labels.
        seed: of everything, added to the number of each seed.
    """

    images: tuple[str, ...] = ("mnist", "kmnist", "fashion_mnist")
    seeds: int = 4
    rows: int = 10_000
    test_rows: int = 2000
    corruptions: tuple[str, ...] = ("shot_noise", "impulse_noise", "spatter", "glass_blur")
    trainings: tuple[str, ...] = ("clean", "left_out")
    left_out: tuple[int, ...] = (7, 8, 9)
    imbalance: float = 0.05
    label_noise: float = 0.45
    seed: int = 0


Run = Callable[[Any, str, str, str, int], Outcome]  # of configuration, data set, training data, model and seed


def tasks_of(config: ImageConfig, models: tuple[str, ...], run: Run) -> list[Task]:
    """One for every data set, kind of training data, model and seed."""
    return [
        Task(
            {"images": images, "training": training, "model": model, "seed": seed},
            lambda i=images, t=training, m=model, s=seed: run(config, i, t, m, s),
        )
        for seed in range(config.seed, config.seed + config.seeds)
        for images in config.images
        for training in config.trainings
        for model in models
    ]


def training_images(config: ImageConfig, images: str, training: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels to train on: some of the data set, with what is wrong with them."""
    data = load_images(images)
    order = np.random.default_rng(seed).permutation(len(data.y_train))[: config.rows]
    x, y = data.x_train[order], data.y_train[order].astype(np.int64)
    if training == "label_noise":
        return x, with_label_noise(y, config.label_noise, seed=seed)
    if training == "left_out":
        kept = rows_without(y, config.left_out)
    elif training == "imbalance":
        kept = rows_with_imbalance(y, config.imbalance, seed=seed)
    else:
        return x, y
    return x[kept], y[kept]


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


def score(
    config: ImageConfig,
    images: str,
    training: str,
    seed: int,
    log_probabilities: Callable[[np.ndarray], np.ndarray],
    seconds: float,
) -> Outcome:
    """Scores of a model on clean test images; with clean training data, on corrupted ones too.

    Args:
        config, images, training, seed: as in `training_images`.
        log_probabilities: the trained model: from images to (n, classes).
        seconds: what its training took.
    """
    data = load_images(images)
    x, y = data.x_test[: config.test_rows], data.y_test[: config.test_rows].astype(np.int64)
    found = log_probabilities(x)
    rows = [_row("clean", found, y)]
    if training == "clean":
        for name in config.corruptions:
            rows.append(_row(name, log_probabilities(corrupt_mnist(x, name, seed=seed)), y))
    elif training == "left_out":
        entropy = metrics.predictive_entropy(np.exp(found))
        is_new = np.isin(y, config.left_out)
        rows[0]["auroc"] = metrics.auroc(entropy[~is_new], entropy[is_new])
    rows[0]["train_seconds"] = seconds
    return Outcome(rows)


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
