"""Ensembles of finite networks with and without random readout scales, on MNIST and its shifts.

`python -m widetail.experiments.ensembles [--quick] [--out FOLDER]` trains, tests and writes a table.
"""

import argparse
import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np

from widetail.datasets import load_images
from widetail.datasets.shifts import corrupt_mnist, rows_without
from widetail.estimators import WideEnsembleClassifier
from widetail.metrics import accuracy, auroc, ece, nll_from_probabilities, predictive_entropy
from widetail.plots import ResultTable
from widetail.priors import InverseGamma, PointMass, ScalePrior


@dataclasses.dataclass(frozen=True)
class EnsembleConfig:
    """What to train and test.

    Attributes:
        images: name of the data set, one that `corrupt_mnist` understands.
        rows: training images.
        test_rows: test images.
        members, width, max_epochs, patience, batch_size, learning_rate: of the ensembles.
        prior: of the readout variance; the plain ensemble has a readout variance of 1.
        corruptions: shifted test sets.
        left_out: classes that are left out of the training data of the last experiment.
        seed: of everything.
    """

    images: str = "mnist"
    rows: int = 5000
    test_rows: int = 10_000
    members: int = 8
    width: int = 32
    max_epochs: int = 12
    patience: int = 4
    batch_size: int = 64
    learning_rate: float = 0.02
    prior: ScalePrior = InverseGamma(2.0, 2.0)  # noqa: RUF009
    corruptions: tuple[str, ...] = ("shot_noise", "impulse_noise", "spatter", "glass_blur")
    left_out: tuple[int, ...] = (7, 8, 9)
    seed: int = 0

    @classmethod
    def quick(cls) -> "EnsembleConfig":
        """Enough to see that everything runs."""
        return cls(rows=300, test_rows=100, members=2, width=8, max_epochs=2, corruptions=("shot_noise",))


@dataclasses.dataclass(frozen=True, eq=False)
class EnsembleResult:
    """Scores by test set and ensemble.

    Attributes:
        config: what was run.
        scores: by test set, ensemble and score: accuracy, nll (nats per image, not divided by the number of classes),
            ece, and for left-out classes auroc of telling them from the others by the entropy of the probabilities.
        seconds: wall time of each training.
    """

    config: EnsembleConfig
    scores: dict[str, dict[str, dict[str, float]]]
    seconds: dict[str, float]

    def tables(self) -> list[ResultTable]:
        """Accuracy, NLL and calibration error as tables."""
        best: dict[str, Any] = {"accuracy": "highest", "nll": "lowest", "ece": "lowest", "auroc": "highest"}
        titles = {
            "accuracy": "Accuracy",
            "nll": "NLL, nats per image",
            "ece": "Expected calibration error",
            "auroc": "AUROC of left-out classes by entropy",
        }
        tables = []
        for name, title in titles.items():
            rows = [row for row, scores in self.scores.items() if all(name in own for own in scores.values())]
            columns = list(self.scores[rows[0]])
            values = np.array([[self.scores[row][column][name] for column in columns] for row in rows])
            tables.append(ResultTable(rows, columns, values, title=title, corner="test set", best=best[name], digits=4))
        return tables

    def __str__(self) -> str:
        trained = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in self.seconds.items())
        return "\n".join([*(table.to_markdown() for table in self.tables()), f"training: {trained}"])


def run(config: EnsembleConfig | None = None) -> EnsembleResult:
    """Train the plain ensemble and the mixture, with all classes and with some left out, and score them."""
    config = EnsembleConfig() if config is None else config
    data = load_images(config.images)
    x, y = data.x_train[: config.rows], data.y_train[: config.rows].astype(np.int64)
    x_test, y_test = data.x_test[: config.test_rows], data.y_test[: config.test_rows].astype(np.int64)
    tests = {"clean": x_test}
    for name in config.corruptions:
        tests[name] = corrupt_mnist(x_test, name, seed=config.seed)
    known = rows_without(y, config.left_out)
    scores: dict[str, dict[str, dict[str, float]]] = {}
    seconds: dict[str, float] = {}
    for ensemble, prior in {"plain": PointMass(1.0), f"mixture, {config.prior}": config.prior}.items():
        model = _fit(config, prior, x, y, seconds, ensemble)
        for name, images in tests.items():
            p = model.predict_proba(images)
            scores.setdefault(name, {})[ensemble] = {
                "accuracy": accuracy(p, y_test),
                "nll": nll_from_probabilities(p, y_test),
                "ece": ece(p, y_test),
            }
        fewer = _fit(config, prior, x[known], y[known], seconds, f"{ensemble}, classes left out")
        p = fewer.predict_proba(x_test)
        is_new = np.isin(y_test, config.left_out)
        # the left-out classes have no probability of their own: the model's entropy should be high there
        entropy = predictive_entropy(p)
        kept = ~is_new
        columns = np.searchsorted(fewer.classes_, y_test[kept])
        scores.setdefault("classes left out", {})[ensemble] = {
            "accuracy": accuracy(p[kept], columns),
            "nll": nll_from_probabilities(p[kept], columns),
            "ece": ece(p[kept], columns),
            "auroc": auroc(entropy[kept], entropy[is_new]),
        }
    return EnsembleResult(config, scores, seconds)


def _fit(
    config: EnsembleConfig, prior: ScalePrior, x: np.ndarray, y: np.ndarray, seconds: dict[str, float], name: str
) -> WideEnsembleClassifier:
    began = time.monotonic()
    model = WideEnsembleClassifier(
        prior=prior,
        members=config.members,
        width=config.width,
        learning_rate=config.learning_rate,
        batch_size=config.batch_size,
        max_epochs=config.max_epochs,
        patience=config.patience,
        random_state=config.seed,
        verbose=True,
    ).fit(x, y)
    seconds[name] = time.monotonic() - began
    return model


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m widetail.experiments.ensembles", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="enough to see that everything runs")
    parser.add_argument("--out", default="out/ensembles", help="folder of the table")
    options = parser.parse_args(arguments)
    result = run(EnsembleConfig.quick() if options.quick else EnsembleConfig())
    print(result)
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ensembles.md").write_text(f"{result}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
