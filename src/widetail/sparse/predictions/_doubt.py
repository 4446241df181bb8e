"""Doubt: the probability that an input is of a class of which training had no rows.

A softmax over classes assumes that every class occurs in the training rows. A class without rows
gets its probability only where all the others are ruled out, which next to no input achieves. Three things tell an
input of a new class: the class probabilities are undecided, it is farther from the rows of every single class than
these are from each other, and the inducing inputs explain less of its variance. How much each of them says is
learned by hiding one class of the training rows after the other.
"""

import dataclasses
import functools
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
from scipy.special import expit, xlogy

from widetail.files import savable
from widetail.progress import Progress, reporter
from widetail.sparse._model import SparseModel
from widetail.sparse._rows import CachedRows, variances
from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Categorical
from widetail.sparse.likelihoods._base import SMALLEST_VARIANCE
from widetail.sparse.predictions._probabilities import ClassProbabilities, class_probabilities
from widetail.sparse.predictions._remote import FEWEST_OF_CLASS, Known, directions
from widetail.sparse.training._train import train

ROWS_TO_TRAIN, ROWS_TO_SCORE = 4096, 2048  # of the models with a class hidden
FEWEST_ROWS = 300
FEWEST_CLASSES = 3  # with rows: one is hidden, and two are left to tell apart
MOST_HIDDEN = 10  # classes that are hidden in turn
SCORES = 3
PRICE = 0.005  # nats per row of a known class that doubt may cost on average
SMALLEST_ENTROPY = 1e-3  # nats
SMALLEST_SHARE = 1e-9
RIDGE = 1e-3
ROUGH = 1e-3  # nats per row: tolerance of the training with a class hidden


@savable("sparse.Doubt")
@dataclasses.dataclass(frozen=True, eq=False)
class Doubt:
    """Learned from hidden classes; `fit_doubt` makes one.

    Attributes:
        near: directions of training rows in the space of the kernel, float32, shape (rows, inducing + 1).
        labels: their classes, shape (rows,).
        centre, spread: mean and standard deviation of the three scores over other training rows, shape (3,).
        weights: of the standardised scores in the logit of doubt, shape (3,).
        intercept: of that logit.
        is_unseen: which classes have had no rows, shape (classes,).
        price: what the doubt cost held-out rows of known classes, nats per row.
        auroc: of telling hidden classes from known ones, over all that were hidden.
    """

    near: np.ndarray
    labels: np.ndarray
    centre: np.ndarray
    spread: np.ndarray
    weights: np.ndarray
    intercept: float
    is_unseen: np.ndarray
    price: float
    auroc: float

    def __post_init__(self) -> None:
        if not self.centre.shape == self.spread.shape == self.weights.shape == (SCORES,) or not np.all(self.spread > 0):
            raise ValueError("a doubt needs a centre, a positive spread and a weight for each of its three scores.")
        if self.near.ndim != 2 or self.labels.shape != self.near.shape[:1]:
            raise ValueError("a doubt needs directions of rows and a label for each of them.")

    @functools.cached_property
    def known(self) -> Known:
        """Rows of the classes that have some."""
        return Known(self.near, self.labels)

    def predict(self, model: SparseModel, x: Any, *, seed: int = 0) -> tuple[ClassProbabilities, np.ndarray]:
        """Class probabilities without doubt, and the probability of a class without rows, shape (m,).

        Args:
            model: for which the doubt was learned.
            x: inputs, rows first.
            seed: as in `class_probabilities`.
        """
        return self.of_features(model, *model.whitening.features(x), seed=seed)

    def of_features(
        self, model: SparseModel, features: np.ndarray, residual: np.ndarray, *, seed: int = 0
    ) -> tuple[ClassProbabilities, np.ndarray]:
        """As `predict`, from features and residuals by `model.whitening.features`."""
        features, residual = features.astype(np.float64), residual.astype(np.float64)
        found = class_probabilities(*_latent(model, features, residual * model.residual_share), seed=seed)
        scores = _scores(self.known, features, residual, found.probabilities)
        return found, expit(self.intercept + (scores - self.centre) / self.spread @ self.weights)

    def applied(self, probabilities: np.ndarray, doubt: np.ndarray) -> np.ndarray:
        """Class probabilities with the share `doubt` for the classes without rows, all alike.

        Where every class has had rows there is nowhere for it to go, and the probabilities stay as they are.
        """
        if not np.any(self.is_unseen):
            return probabilities
        elsewhere = self.is_unseen / np.sum(self.is_unseen)
        return (1 - doubt)[:, None] * probabilities + doubt[:, None] * elsewhere

    def after(self, numbers: np.ndarray) -> "Doubt":
        """The same after rows of these classes have been seen."""
        return dataclasses.replace(self, is_unseen=self.is_unseen & ~np.isin(np.arange(len(self.is_unseen)), numbers))


def fit_doubt(model: SparseModel, x: Any, y: Any, *, seed: int = 0, progress: Progress = False) -> Doubt | None:
    """Hide one class after the other, and learn to recognise its rows.

    For each of at most ten classes a model is trained on up to 4,096 rows, without the rows and the inducing inputs of
    that class, and scores 2,048 others. A logistic regression on the scores of all of them has the best log score of
    known and hidden rows together; its intercept is then lowered until doubt costs rows of known classes no more than
    0.005 nats on average.

    Args:
        model: of a `Categorical` likelihood.
        x: training inputs in random order, rows first, or their `CachedRows`; the first 6,144 are used.
        y: class numbers, shape (n,).
        seed: of the draws of f.
        progress: True for a bar on a terminal, or a function of (classes hidden, in all).

    Returns:
        None where there are fewer than 300 rows, or three classes with ten rows.
    """
    if not isinstance(model.likelihood, Categorical):
        raise TypeError(f"doubt is about several classes; the model has the likelihood {model.likelihood!r}.")
    is_unseen = ~np.isin(np.arange(model.likelihood.classes), y)
    y = np.asarray(y)[: ROWS_TO_TRAIN + ROWS_TO_SCORE]
    count = _rows_to_train(len(y))
    labels, counts = np.unique(y[:count], return_counts=True)
    seen = labels[counts >= FEWEST_OF_CLASS]
    if len(y) < FEWEST_ROWS or len(seen) < FEWEST_CLASSES:
        return None
    if isinstance(x, CachedRows):
        features, residual = x.features[: len(y)], x.residual[: len(y)]
    else:
        features, residual = model.whitening.features(np.asarray(x)[: len(y)])
    features, residual = features.astype(np.float64), residual.astype(np.float64)
    groups = np.argmax(np.asarray(model.latent(model.whitening.inducing)[0])[:, seen], axis=1)
    groups = seen[groups]
    hidden = seen[np.linspace(0, len(seen) - 1, min(MOST_HIDDEN, len(seen))).round().astype(int)]
    report = reporter(progress, "doubt")
    parts, new = [], []
    for number, label in enumerate(hidden.tolist()):
        report(number, len(hidden))
        is_kept = groups != label
        if np.all(is_kept) or len(np.unique(groups[is_kept])) < FEWEST_CLASSES - 1:
            continue
        scores, is_hidden = _without(model, features, residual, y, groups, label, seed)
        if np.any(is_hidden) and not np.all(is_hidden):
            parts.append((scores - scores[~is_hidden].mean(axis=0)) / (scores[~is_hidden].std(axis=0) + 1e-12))
            new.append(is_hidden)
    report(len(hidden), len(hidden))
    if not parts:
        return None
    scores, is_hidden = np.concatenate(parts), np.concatenate(new)
    weights, intercept = _regression(scores, is_hidden)
    intercept, price = _affordable(scores[~is_hidden] @ weights, intercept)
    others = features[count:], residual[count:]
    own = class_probabilities(*_latent(model, others[0], others[1] * model.residual_share), draws=64)
    known = Known(directions(features[:count], residual[:count]), y[:count])
    at_rows = _scores(known, *others, own.probabilities)
    return Doubt(
        near=known.directions,
        labels=known.labels,
        centre=at_rows.mean(axis=0),
        spread=at_rows.std(axis=0) + 1e-12,
        weights=weights,
        intercept=intercept,
        is_unseen=is_unseen,
        price=price,
        auroc=_auroc(scores @ weights, is_hidden),
    )


def _latent(model: SparseModel, features: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
    rows = CachedRows.of(features, residual, np.zeros(len(features)))
    variance = np.maximum(np.asarray(variances(rows, model.q), np.float64), SMALLEST_VARIANCE)
    return features @ model.q.mean.T, variance, model.q.law


def _without(
    model: SparseModel,
    features: np.ndarray,
    residual: np.ndarray,
    y: np.ndarray,
    groups: np.ndarray,
    label: int,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of rows under a model that has never seen the class `label`, and which rows are of that class."""
    is_kept = groups != label
    factor = model.whitening.factor
    matrix, cross = factor @ factor.T, features @ factor.T
    variance = np.sum(features**2, axis=1) + residual
    own_factor = np.linalg.cholesky(matrix[np.ix_(is_kept, is_kept)])
    own = scipy.linalg.solve_triangular(own_factor, cross[:, is_kept].T, lower=True).T
    own_residual = np.maximum(variance - np.sum(own**2, axis=1), 0.0)
    count = _rows_to_train(len(y))
    chosen = np.flatnonzero(y[:count] != label)
    dtype = model.whitening.dtype
    rows = CachedRows.of(own.astype(dtype), own_residual * model.residual_share, y)
    some = CachedRows.of(own[chosen].astype(dtype), own_residual[chosen] * model.residual_share, y[chosen])
    start = Variational.at_prior(len(model.q.mean), int(np.sum(is_kept)), model.q.law)
    found = train(some, model.likelihood, start, tolerance=ROUGH, seed=seed)
    held_out = rows.after(count)
    mean, variance = own[count:] @ found.q.mean.T, np.asarray(variances(held_out, found.q), np.float64)
    probabilities = class_probabilities(
        mean, np.maximum(variance, SMALLEST_VARIANCE), found.q.law, draws=64
    ).probabilities
    known = Known(directions(own[chosen], own_residual[chosen]), y[chosen])
    return _scores(known, own[count:], own_residual[count:], probabilities), y[count:] == label


def _rows_to_train(rows: int) -> int:
    return min(ROWS_TO_TRAIN, 2 * rows // 3)


def _scores(known: Known, features: np.ndarray, residual: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Logarithm of the entropy, remoteness, and logarithm of the share of residual variance, shape (m, 3)."""
    entropy = -np.sum(xlogy(probabilities, probabilities), axis=1)
    share = residual / np.maximum(np.sum(features**2, axis=1) + residual, np.finfo(np.float64).tiny)
    return np.column_stack(
        [
            np.log(entropy + SMALLEST_ENTROPY),
            known.remoteness(directions(features, residual)),
            np.log(np.maximum(share, SMALLEST_SHARE)),
        ]
    )


def _regression(scores: np.ndarray, is_hidden: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights and intercept with the best log score, and a little ridge; more of a score is never less doubt."""
    design, sign = np.column_stack([scores, np.ones(len(scores))]), np.where(is_hidden, 1.0, -1.0)

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        logits = sign * (design @ w)
        slope = -(sign * expit(-logits)) @ design / len(sign) + RIDGE * w
        return float(np.mean(np.logaddexp(0.0, -logits)) + 0.5 * RIDGE * w @ w), slope

    limits = [(0.0, None)] * scores.shape[1] + [(None, None)]
    found: Any = scipy.optimize.minimize(loss, np.zeros(design.shape[1]), jac=True, method="L-BFGS-B", bounds=limits)
    return found.x[:-1], float(found.x[-1])


def _affordable(logits: np.ndarray, intercept: float) -> tuple[float, float]:
    """The intercept, lowered until doubt costs no more than its price, and what it costs."""

    def cost(b: float) -> float:
        return float(np.mean(np.logaddexp(0.0, logits + b)))

    if cost(intercept) <= PRICE:
        return intercept, cost(intercept)
    found: Any = scipy.optimize.brentq(lambda b: cost(b) - PRICE, intercept - 60.0, intercept, xtol=1e-6)
    return float(found), cost(float(found))


def _auroc(scores: np.ndarray, is_hidden: np.ndarray) -> float:
    """The share of pairs in which the hidden row has the higher score."""
    known, new = np.sort(scores[~is_hidden]), scores[is_hidden]
    below, up_to = np.searchsorted(known, new, "left"), np.searchsorted(known, new, "right")
    return float(np.mean(below + up_to) / (2 * len(known)))
