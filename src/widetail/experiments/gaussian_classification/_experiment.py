"""Classification as regression on one-hot targets, with exact inference, on images and their shifts."""

import dataclasses
import time
from typing import Any

import numpy as np
from scipy.special import softmax

from widetail import metrics
from widetail.datasets import load_images
from widetail.datasets.shifts import corrupt_mnist
from widetail.estimators import ScaleMixtureClassifier
from widetail.experiments.gaussian_classification._priors import best_prior
from widetail.experiments.gaussian_classification._report import findings
from widetail.experiments.running._registry import Experiment, config_of
from widetail.experiments.running._runner import Outcome, Task
from widetail.priors import BurrXII, InverseGamma, PointMass, ScalePrior
from widetail.process import ScaledPosterior


@dataclasses.dataclass(frozen=True)
class GaussianClassificationConfig:
    """What to fit.

    Attributes:
        images: names of data sets.
        corrupted: those of them, grey and 28 x 28, that are also tested with corruptions.
        corruptions: names of corruptions.
        seeds: how many; a seed chooses training rows, test rows and corruptions.
        rows: training images.
        test_rows: test images.
        choose_rows, learn_rows: as in `ScaleMixtureClassifier`.
        seed: of everything, added to the number of each seed.
    """

    images: tuple[str, ...] = ("mnist", "emnist_letters", "fashion_mnist", "kmnist", "svhn")
    corrupted: tuple[str, ...] = ("mnist",)
    corruptions: tuple[str, ...] = ("shot_noise", "impulse_noise", "spatter", "glass_blur", "zigzag")
    seeds: int = 4
    rows: int = 5000
    test_rows: int = 1000
    choose_rows: int = 800
    learn_rows: int = 2000
    seed: int = 0

    @classmethod
    def quick(cls) -> "GaussianClassificationConfig":
        """Two data sets, two seeds, fewer images."""
        return cls(images=("mnist", "fashion_mnist"), seeds=2, rows=800, test_rows=500, choose_rows=300, learn_rows=500)


def tasks(config: GaussianClassificationConfig) -> list[Task]:
    """One for every data set and seed."""
    return [
        Task({"images": images, "seed": seed}, lambda i=images, s=seed: _run(config, i, s))
        for seed in range(config.seed, config.seed + config.seeds)
        for images in config.images
    ]


def _run(config: GaussianClassificationConfig, images: str, seed: int) -> Outcome:
    data = load_images(images)
    rng = np.random.default_rng(seed)
    train = rng.permutation(len(data.y_train))[: config.rows]
    test = rng.permutation(len(data.y_test))[: config.test_rows]
    x, y = data.x_train[train], data.y_train[train]
    x_test, y_test = data.x_test[test], data.y_test[test]
    began = time.monotonic()
    # One shift and one factor for all pixels, of the training images, for every image: dividing by the spread of each
    # pixel would blow up noise in pixels that are always dark.
    shift, factor = x.mean(), x.std()

    def inputs(pixels: np.ndarray) -> np.ndarray:
        return (pixels.reshape(len(pixels), -1) - shift) / factor

    rows: dict[str, Any] = {"choose_rows": config.choose_rows, "learn_rows": config.learn_rows}
    model = ScaleMixtureClassifier(standardise=False, random_state=seed, **rows).fit(inputs(x), y)
    posterior = model.posterior
    assert isinstance(posterior, ScaledPosterior)
    priors = {
        "NNGP, variance 1": PointMass(1.0),
        "NNGP": best_prior(posterior, None),
        "Inverse gamma": best_prior(posterior, InverseGamma),
        "Burr XII": best_prior(posterior, BurrXII),
    }
    seconds = time.monotonic() - began
    tests = {"clean": x_test}
    if images in config.corrupted:
        tests |= {name: corrupt_mnist(x_test, name, seed=seed) for name in config.corruptions}
    labels = np.searchsorted(model.classes_, y_test)
    about = {"architecture": model.architecture_, "seconds": seconds}
    return Outcome(
        [
            {"test": test, **about, **_scores(model, posterior, inputs(pixels), labels, priors)}
            for test, pixels in tests.items()
        ]
    )


def _scores(
    model: ScaleMixtureClassifier,
    posterior: ScaledPosterior,
    x: np.ndarray,
    labels: np.ndarray,
    priors: dict[str, ScalePrior],
) -> dict[str, Any]:
    classes = len(model.classes_)
    targets = np.eye(classes)[labels] - 1 / classes
    found: dict[str, Any] = {}
    location = np.zeros_like(targets)
    for name, prior in priors.items():
        conditioned = posterior.with_prior(prior)
        dist = conditioned(x)
        variance = 1 / float(conditioned.scale.mean_precision)
        found[name] = {"nll": metrics.nll(dist, targets), "prior": str(prior), "variance": variance}
        location = np.asarray(dist.median)  # that of every prior
    probabilities = softmax(model.temperature_ * location, axis=1)
    binned = metrics.reliability(probabilities, labels)
    return {
        "targets": found,
        "accuracy": metrics.accuracy(probabilities, labels),
        "class_nll": metrics.nll_from_probabilities(probabilities, labels),
        "ece": binned.ece,
        "bin_counts": binned.counts,
        "bin_confidence": np.nan_to_num(binned.confidence),
        "bin_accuracy": np.nan_to_num(binned.accuracy),
    }


EXPERIMENT = Experiment(
    title="Classification with Gaussian likelihood",
    question=(
        "Images are classified by exact regression on one-hot targets. Does a heavy-tailed prior of the readout "
        "variance improve the predictive density of the targets, on clean and on corrupted images?"
    ),
    config=config_of(GaussianClassificationConfig),
    tasks=tasks,
    findings=findings,
)
