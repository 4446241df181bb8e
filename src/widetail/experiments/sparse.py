"""SVGP and SVTP on images: all classes, and three classes left out of the training data.

`python -m widetail.experiments.sparse [--quick] [--images NAME]` trains, tests and prints a table.
"""

import argparse
import dataclasses
import resource
import time
from typing import Any

import numpy as np

from widetail import nn
from widetail.datasets import load_images
from widetail.datasets.shifts import rows_without
from widetail.estimators import SparseMixtureClassifier
from widetail.metrics import accuracy, auroc, ece, nll_from_probabilities
from widetail.priors import InverseGamma, PointMass, ScalePrior

PRIORS: dict[str, ScalePrior] = {"SVGP": PointMass(1.0), "SVTP": InverseGamma(2.0, 2.0)}


@dataclasses.dataclass(frozen=True)
class SparseConfig:
    """What to train and test.

    Attributes:
        images: name of a data set of images.
        rows: training images; None for all.
        test_rows: test images; None for all.
        inducing, selection: of inducing inputs.
        priors: of the readout variance, by name.
        learn_scale: whether the value of a `PointMass` is learned.
        left_out: classes to leave out of the training data; they stay among the classes of the model, and of the test.
        bias_var: of every layer, where learning starts.
        learn: whether to learn the kernel's hyperparameters.
        seeds: one fit of every prior for each.
        verbose: whether to show progress bars.
    """

    images: str = "mnist"
    rows: int | None = None
    test_rows: int | None = None
    inducing: int = 400
    selection: str = "greedy"
    priors: dict[str, ScalePrior] = dataclasses.field(default_factory=lambda: dict(PRIORS))
    learn_scale: bool = True
    left_out: tuple[int, ...] = ()
    bias_var: float = 0.001
    learn: bool = True
    seeds: tuple[int, ...] = (0,)
    verbose: bool = False

    @classmethod
    def quick(cls) -> "SparseConfig":
        """Enough to see that everything runs; its images come with scikit-learn."""
        return cls(images="digits", rows=200, test_rows=100, inducing=30, learn=False)


def network(bias_var: float) -> nn.Layer:
    """Four convolutions with 3 x 3 filters, and no pooling."""
    layers: list[nn.Layer] = []
    for _ in range(4):
        layers += [nn.Conv(3, weight_var=2.0, bias_var=bias_var), nn.Relu()]
    return nn.Sequential(*layers, nn.Flatten())


def run(config: SparseConfig | None = None) -> list[dict[str, Any]]:
    """One row for every seed and prior.

    Scores are of all test images: accuracy, nll (nats per image), ece; with classes left out also the nll of the images
    of the other classes, and the auroc of telling the left-out classes by entropy and by mutual information.
    """
    config = SparseConfig() if config is None else config
    data = load_images(config.images)
    x, y = data.x_train[: config.rows], data.y_train[: config.rows].astype(np.int64)
    x_test, y_test = data.x_test[: config.test_rows], data.y_test[: config.test_rows].astype(np.int64)
    classes = np.unique(y)
    kept = rows_without(y, config.left_out) if config.left_out else np.arange(len(y))
    rows = []
    for seed in config.seeds:
        for name, prior in config.priors.items():
            began, used = time.monotonic(), _cpu_seconds()
            model = SparseMixtureClassifier(
                network(config.bias_var),
                prior,
                config.inducing,
                random_state=seed,
                selection=config.selection,
                learn=config.learn,
                learn_scale=config.learn_scale,
                verbose=config.verbose,
            ).partial_fit(x[kept], y[kept], classes=classes)
            row = {
                "images": config.images,
                "rows": len(kept),
                "inducing": config.inducing,
                "prior": name,
                "seed": seed,
                "fit seconds": time.monotonic() - began,
                "fit cpu seconds": _cpu_seconds() - used,
                "bound": model.fit_.bound if model.fit_ else float("nan"),
                "scale": 1 / model.model_.q.law.mean_precision,
            }
            rows.append(row | _scores(model, x_test, y_test, config.left_out))
    return rows


def _scores(
    model: SparseMixtureClassifier, x: np.ndarray, y: np.ndarray, left_out: tuple[int, ...]
) -> dict[str, float]:
    found = model.class_probabilities(x)
    p, columns = found.probabilities, np.searchsorted(model.classes_, y)
    scores = {"accuracy": accuracy(p, columns), "nll": nll_from_probabilities(p, columns), "ece": ece(p, columns)}
    if left_out:
        is_new = np.isin(y, left_out)
        scores["nll of known"] = nll_from_probabilities(p[~is_new], columns[~is_new])
        scores["nll of left out"] = nll_from_probabilities(p[is_new], columns[is_new])
        scores["auroc by entropy"] = auroc(found.entropy[~is_new], found.entropy[is_new])
        information = found.mutual_information
        scores["auroc by information"] = auroc(information[~is_new], information[is_new])
    return scores


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m widetail.experiments.sparse", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="enough to see that everything runs")
    parser.add_argument("--images", default="mnist", help="name of the data set")
    parser.add_argument("--inducing", type=int, default=400, help="number of inducing inputs")
    parser.add_argument("--left-out", type=int, nargs="*", default=[], help="classes to leave out of training")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    options = parser.parse_args(arguments)
    config = SparseConfig.quick() if options.quick else SparseConfig(
        images=options.images, inducing=options.inducing, left_out=tuple(options.left_out),
        seeds=tuple(range(options.seeds)), verbose=True,
    )  # fmt: skip
    for row in run(config):
        print(
            ", ".join(
                f"{name} {value:.5g}" if isinstance(value, float) else f"{name} {value}" for name, value in row.items()
            )
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
