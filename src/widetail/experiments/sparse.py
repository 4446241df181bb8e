"""Sparse variational classification, SVGP against SVTP, on images and their shifts."""

import dataclasses
import functools
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from widetail import metrics, nn
from widetail.estimators import SparseMixtureClassifier
from widetail.experiments.images._names import shown
from widetail.experiments.images._report import CORNER, Comparison
from widetail.experiments.images._shifts import (
    CIFAR10_SEVERITY,
    ImageConfig,
    classes_of,
    shifted_tests,
    tasks_of,
    training_images,
    training_rows,
)
from widetail.experiments.reporting._aggregate import paired_differences, summarise
from widetail.experiments.reporting._paper import SPARSE
from widetail.experiments.reporting._parts import Prose, Section, Table
from widetail.experiments.reporting._tables import ours, side_by_side
from widetail.experiments.running._registry import Experiment, Findings, Results, config_of
from widetail.experiments.running._runner import Outcome, Task
from widetail.priors import HalfCauchy, InverseGamma, LogNormal, PointMass, ScalePrior
from widetail.sparse import (
    CachedRows,
    InverseGammaScale,
    SparseFit,
    SparseModel,
    Variational,
    class_probabilities,
    fit_doubt,
    law_for,
    train,
    variances,
)

PLAIN, MIXTURE, DOUBT = "SVGP", "SVTP", "SVGP with doubt"
DRAWS = 64  # for the mutual information, which is not looked at


@dataclasses.dataclass(frozen=True)
class SparseConfig(ImageConfig):
    """What to train and test; of the data, what `ImageConfig` says.

    The full size is the paper's, as far as the images are at hand.

    Attributes:
        inducing: inducing images.
        prior: of the readout variance of the SVTP; that of the SVGP is learned.
        other_priors: of further models, for the first of `images` with classes that were left out.
        depth: convolutions of the network, 3 x 3, each followed by a relu.
    """

    inducing: int = 400
    prior: ScalePrior = InverseGamma(2.0, 2.0)  # noqa: RUF009
    other_priors: tuple[ScalePrior, ...] = (
        InverseGamma(0.5, 0.5),
        InverseGamma(20.0, 20.0),
        HalfCauchy(1.0),
        LogNormal(0.0, 2.0),
    )
    depth: int = 4

    @classmethod
    def quick(cls) -> "SparseConfig":
        """One data set, two seeds, few images."""
        return cls(
            images=("mnist",),
            seeds=2,
            rows=1000,
            test_rows=500,
            inducing=60,
            depth=2,
            corruptions=("shot_noise", "glass_blur"),
            other_priors=(InverseGamma(0.5, 0.5),),
        )


def tasks(config: SparseConfig) -> list[Task]:
    """One for every data set, training data and seed: its models share kernel, inducing images and features."""
    return tasks_of(config, functools.partial(_run, config))


def _run(config: SparseConfig, images: str, training: str, seed: int) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="widetail-sparse-") as folder:
        return compare(config, images, training, seed, Path(folder))


def compare(config: SparseConfig, images: str, training: str, seed: int, folder: Path) -> Outcome:
    """All models of one task; `folder` keeps features, for a run that goes on after an interruption."""
    plain = plain_model(config, images, training, seed, folder)
    model, share = plain.model, plain.model.residual_share
    priors = {MIXTURE: config.prior}
    if training == "left_out" and images == config.images[0]:
        priors |= {str(prior): prior for prior in config.other_priors}
    posteriors, seconds = {PLAIN: model.q}, {PLAIN: plain.seconds}
    for name, prior in priors.items():
        began = time.process_time()
        posteriors[name] = trained_on(plain, prior, seed).q
        seconds[name] = time.process_time() - began
    began = time.process_time()
    doubt = fit_doubt(model, plain.rows, plain.labels, seed=seed) if training == "left_out" else None
    if doubt is not None:
        seconds[DOUBT] = time.process_time() - began
    found = []
    for tests in shifted_tests(config, images, training, seed):
        features, residual = (part.astype(np.float64) for part in plain.features(tests.pixels))
        for name, q in posteriors.items():
            mean, variance = latent(features, residual * share, q)
            p = class_probabilities(mean, variance, q.law, draws=DRAWS).probabilities
            about = {"model": name, "scale": 1 / q.law.mean_precision, "open_share": share}
            found.append(tests.row(logs_of(p)) | about)
        if doubt is not None:
            own, doubts = doubt.of_features(model, features, residual, seed=seed)
            row = tests.row(logs_of(doubt.applied(own.probabilities, doubts)))
            found.append(row | {"model": DOUBT, "auroc_of_doubt": _auroc(doubts, tests.is_new)})
    first = {name: next(row for row in found if row["model"] == name) for name in seconds}
    for name, row in first.items():
        row["train_seconds"] = seconds[name]
    return Outcome(found)


class Plain(NamedTuple):
    """An SVGP and what others are trained on from there.

    Attributes:
        classifier: the estimator.
        rows: features of its training images in its order, with all of the residual variance.
        labels: their classes, shape (n,).
        seconds: processor seconds that the fit took.
    """

    classifier: SparseMixtureClassifier
    rows: CachedRows
    labels: np.ndarray
    seconds: float

    @property
    def model(self) -> SparseModel:
        """What the estimator has fitted."""
        return self.classifier.model_

    def features(self, pixels: np.ndarray, path: Path | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Features and residuals of images."""
        return self.model.whitening.features(self.classifier._new_inputs(pixels), path=path)


def plain_model(config: SparseConfig, images: str, training: str, seed: int, folder: Path) -> Plain:
    """The SVGP, whose kernel and features the others take over: hyperparameters are learned before a prior matters."""
    x, y = training_images(config, images, training, seed)
    began = time.process_time()
    base = folder / (f"{images}-{seed}" if training == "left_out" else f"{images}-{training}-{seed}")
    classifier = SparseMixtureClassifier(
        network(config.depth), PointMass(1.0), config.inducing, seed, doubt=False,
        cache=f"{base}.features", checkpoint=f"{base}.checkpoint",
    )  # fmt: skip
    # all classes have an output, also those that are left out
    classifier.fit(x, y, classes=np.arange(len(classes_of(images))))
    seconds = time.process_time() - began
    order = np.random.default_rng(seed).permutation(len(x))  # in which the model has its rows, and their features
    inputs = classifier._new_inputs(x[order])
    features = classifier.model_.whitening.features(inputs, path=f"{base}.features")
    return Plain(classifier, CachedRows.of(*features, y[order]), y[order], seconds)


def trained_on(plain: Plain, prior: ScalePrior, seed: int) -> SparseFit:
    """A model with another prior of the scale, from where the SVGP is: its law is about as narrow as it will be."""
    q = plain.model.q
    law, scale = law_for(prior), 1 / q.law.mean_precision
    if isinstance(law, InverseGammaScale):
        shape = law.a + 0.5 * q.mean.size
        law = dataclasses.replace(law, a=shape, b=shape * scale)
    else:
        law = dataclasses.replace(law.held_at(scale), is_held=False)  # type: ignore[type-var]
    rows = plain.rows.with_residual_share(plain.model.residual_share)
    return train(rows, plain.model.likelihood, q.with_law(law), seed=seed, from_few=False)


def latent(features: np.ndarray, residual: np.ndarray, q: Variational) -> tuple[np.ndarray, np.ndarray]:
    """Mean of the latent values, and their variance given a unit scale, shape (m, classes)."""
    rows = CachedRows.of(features, residual, np.zeros(len(features)))
    return features @ q.mean.T, np.asarray(variances(rows, q), np.float64)


def logs_of(p: np.ndarray) -> np.ndarray:
    """Logarithms of probabilities, finite ones."""
    return np.log(np.maximum(p, np.finfo(np.float64).tiny))


def _auroc(doubts: np.ndarray, is_new: np.ndarray | None) -> float:
    assert is_new is not None
    return metrics.auroc(doubts[~is_new], doubts[is_new])


def network(depth: int) -> nn.Layer:
    """Convolutions with 3 x 3 filters and no pooling."""
    layers: list[nn.Layer] = []
    for _ in range(depth):
        layers += [nn.Conv(3, weight_var=2.0, bias_var=0.001), nn.Relu()]
    return nn.Sequential(*layers, nn.Flatten())


def _protocol(config: SparseConfig) -> list[str]:
    return [
        f"Here: the kernel of {config.depth} convolutions with relus, {config.inducing} inducing images, "
        f"{training_rows(config)}, {config.test_rows} test images at most, {config.seeds} seeds unless the title says "
        "that tasks are missing. The paper: 400 inducing images and all training images.",
        f"The scale of the SVTP has the prior {config.prior}; that of the SVGP is learned by maximising the bound. The "
        "kernel's hyperparameters are learned once for both, by the Gaussian evidence of a subset, and the SVTP is "
        "trained on from the SVGP: the time of SVGP includes all that both need.",
        "Whether the variance that inducing images do not explain belongs to the model is chosen by the log score of a "
        "tenth of the training images, held out for that.",
        "The paper's posterior of the inducing variables is diagonal and not whitened, its sampler of the multivariate "
        "t colours independent t variables, and it draws a scale for every class while its divergence counts one for "
        "all. Here covariances are full, and one scale is shared by all points and classes of a draw.",
        "The NLL is of the probabilities integrated over latent functions and scale, in nats per image; the paper's "
        "numbers are times 100 and are converted.",
        "Corruptions follow the recipes of MNIST-C at its published severities, and of CIFAR-10-C at severity "
        f"{CIFAR10_SEVERITY} (the paper names none). Left out: classes {', '.join(map(str, config.left_out))}.",
    ]


COMPARISON = Comparison(
    plain=PLAIN,
    mixture=MIXTURE,
    model="one model",
    paper=SPARSE,
    to_nats=lambda case: 1 / 100,
    unit_note="The paper's numbers were divided by 100. ",
    figure="sparse-reliability",
    protocol=_protocol,
)


def findings(results: Results) -> Findings:
    """SVGP beside SVTP, and what doubt and other priors change where classes were left out."""
    both = [row for row in results.rows if row["model"] in COMPARISON.models]
    found = COMPARISON.findings(dataclasses.replace(results, rows=both))
    rows = [row for row in results.rows if row["training"] == "left_out"]
    return Findings(found.sentences, [*found.sections, _left_out(rows)]) if rows else found


def _left_out(rows: Sequence[Mapping[str, Any]]) -> Section:
    """NLL with classes left out, for every model, and its difference from the SVGP on the same seed."""
    cases = {row["images"]: shown(row["images"], "left_out") for row in rows}
    models = list(dict.fromkeys(row["model"] for row in rows))
    nll, entropy, doubt = (summarise(rows, ("images", "model"), name) for name in ("nll", "auroc", "auroc_of_doubt"))
    gaps = {
        name: paired_differences(rows, ("images",), "model", name, PLAIN, ("seed",), "nll")
        for name in models
        if name != PLAIN
    }
    tables = [
        side_by_side(
            "NLL in nats per image with classes left out, mean ± standard error over seeds",
            CORNER,
            cases,
            {name: ours(nll, name) for name in models},
            digits=4,
        ),
        side_by_side(
            "The same minus that of the SVGP on the same seed",
            CORNER,
            cases,
            {name: ours(gap) for name, gap in gaps.items()},
            best=None,
            digits=4,
        ),
        side_by_side(
            "AUROC of telling unseen classes",
            CORNER,
            cases,
            {f"{name}, entropy": ours(entropy, name) for name in models} | {"doubt": ours(doubt, DOUBT)},
            best="highest",
            digits=4,
        ),
    ]
    prose = Prose(
        "All models see the same images, inducing images and kernel. Thousands of images leave the posterior of one "
        "shared scale a standard deviation of a few per cent of its mean, whatever the prior was. Doubt is a "
        "probability of the classes without rows, learned by hiding other classes."
    )
    return Section("Doubt and other priors", [prose, *(Table(table) for table in tables)])


EXPERIMENT = Experiment(
    title="Sparse variational classification",
    question=(
        "Does a heavy-tailed prior of the readout variance (SVTP) have a lower NLL than a Gaussian process (SVGP) with "
        "the same inducing images, under corruption and with classes that were never seen?"
    ),
    config=config_of(SparseConfig),
    tasks=tasks,
    findings=findings,
)
