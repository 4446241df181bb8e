"""Kernel and scale of a table of classes, by rows that a likelihood of classes has not seen.

The Gaussian evidence of one-hot targets prefers functions that bend where classes meet, of which a likelihood of
classes needs none: its logits may be straight lines. So it is not left to choose alone. And with few rows prior and
bound hold the scale small, which makes probabilities too cautious where classes are far apart.
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax

from widetail import sparse
from widetail.estimators._probabilities import best_temperature
from widetail.kernels import Kernel
from widetail.priors import PointMass
from widetail.process import ScaleMixture
from widetail.sparse import TrainingOptions
from widetail.sparse.likelihoods import Likelihood

FOLDS = 4
MOST_ROWS = 400  # that are compared by
FEWEST_ROWS = 20  # with fewer the comparison would be chance
ROUGH = TrainingOptions(residual_share=1.0, tolerance=1e-4, max_iterations=25, scale="given")
# Candidates meet at the first scale; with the best of them others are tried, up and then down, by this factor. So it is
# with the best of those that were learned.
FIRST_SCALE, FACTOR = 16.0, 4.0
MOST_STEPS = 4
CLEARLY = 2.0  # standard errors of a difference
ONE_HOT = "regression on one-hot targets"


@dataclasses.dataclass(frozen=True)
class ClassChoice:
    """What was chosen.

    Attributes:
        name: of the best candidate.
        scale: with which it is best.
        scores: mean log probability of the labels of left-out rows, in nats, of every candidate at its best scale that
            was tried, and of exact regression on one-hot targets.
        prefers_one_hot: whether that is clearly better than what was chosen.
    """

    name: str
    scale: float
    scores: dict[str, float]
    prefers_one_hot: bool


def choose_for_classes(
    candidates: Mapping[str, Kernel],
    likelihood: Likelihood,
    x: np.ndarray,
    y: np.ndarray,
    labels: np.ndarray,
    counts: np.ndarray,
    seed: int,
    learned: Collection[str] = (),
    *,
    gaussian: ScaleMixture,
) -> ClassChoice:
    """The candidate and the scale that give left-out rows the best probabilities.

    Every fold has its share of every class; all rows that it is trained on are inducing inputs. Candidates whose
    numbers were learned from these rows have seen those that are left out: they must be better by two standard errors.

    Args:
        candidates: by name.
        likelihood: of classes.
        x: rows in random order, shape (n, d), of which the first few hundred are used.
        y: targets of the likelihood.
        labels: class numbers, shape (n,).
        counts: how often each row was observed.
        seed: of training.
        learned: names of candidates whose numbers were learned from these rows.
        gaussian: of one-hot targets, learned from these rows.
    """
    used = min(len(x), MOST_ROWS) // FOLDS * FOLDS  # folds of one size are compiled once
    fold = np.empty(used, int)
    fold[np.argsort(labels[:used], kind="stable")] = np.arange(used) % FOLDS
    weights = counts[:used] / np.sum(counts[:used])

    def log_probabilities(kernel: Kernel, scale: float) -> np.ndarray:
        """Of the labels of all rows, each from the folds without it."""
        log_p = np.empty(used)
        for number in range(FOLDS):
            seen, left = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            model = sparse.fit(
                kernel,
                PointMass(scale),
                likelihood,
                x[seen],
                y[seen],
                inducing=x[seen],
                counts=counts[seen],
                options=ROUGH,
                is_shuffled=True,
                seed=seed,
            )
            p = model.class_probabilities(x[left], seed=seed).probabilities
            log_p[left] = np.log(np.maximum(p[np.arange(len(left)), labels[left]], np.finfo(np.float64).tiny))
        return log_p

    found = {name: _Best(log_probabilities(kernel, FIRST_SCALE), FIRST_SCALE) for name, kernel in candidates.items()}

    def mean(name: str) -> float:
        return float(weights @ found[name].log_p)

    def climb(name: str) -> None:
        """Try larger scales as long as they are better, or smaller ones."""
        for factor in (FACTOR, 1 / FACTOR):
            for step in range(1, MOST_STEPS + 1):
                scale = FIRST_SCALE * factor**step
                log_p = log_probabilities(candidates[name], scale)
                if weights @ log_p <= mean(name):
                    break
                found[name] = _Best(log_p, scale)
            if found[name].scale > FIRST_SCALE:
                return

    def is_clearly_better(log_p: np.ndarray, name: str) -> bool:
        gain = log_p - found[name].log_p
        average = float(weights @ gain)
        return bool(average > CLEARLY * np.sqrt(weights @ (gain - average) ** 2 / used))

    plain = [name for name in candidates if name not in learned]
    for group in filter(None, (plain, list(learned))):
        climb(max(group, key=mean))
    chosen = max(plain, key=mean)
    for name in sorted(learned, key=mean):
        if is_clearly_better(found[name].log_p, chosen):
            chosen = name
    one_hot = _by_regression(gaussian, x[:used], labels[:used], counts[:used], fold)
    scores = {name: mean(name) for name in found} | {ONE_HOT: float(weights @ one_hot)}
    return ClassChoice(chosen, found[chosen].scale, scores, is_clearly_better(one_hot, chosen))


def _by_regression(
    process: ScaleMixture, x: np.ndarray, labels: np.ndarray, counts: np.ndarray, fold: np.ndarray
) -> np.ndarray:
    """Log probabilities of the labels by exact regression on one-hot targets, with one temperature for all folds."""
    classes = int(np.max(labels)) + 1
    targets = np.eye(classes)[labels] - 1 / classes
    locations = np.empty_like(targets)
    for number in range(FOLDS):
        seen, left = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        posterior = process.posterior(x[seen], targets[seen], counts=counts[seen])
        locations[left] = posterior.location(x[left])
    log_p = log_softmax(best_temperature(locations, labels, counts) * locations, axis=1)
    return log_p[np.arange(len(labels)), labels]


class _Best(NamedTuple):
    """Log probabilities of the labels of all rows, and the scale."""

    log_p: np.ndarray
    scale: float
