"""Kernel and scale of a table of classes, by rows that a likelihood of classes has not seen.

The Gaussian evidence of one-hot targets prefers functions that bend where classes meet, of which a likelihood of
classes needs none: its logits may be straight lines. So it is not left to choose alone. And with few rows prior and
bound hold the scale small, which makes probabilities too cautious where classes are far apart.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from widetail import sparse
from widetail.kernels import Kernel
from widetail.priors import PointMass
from widetail.sparse import TrainingOptions
from widetail.sparse.likelihoods import Likelihood

FOLDS = 4
MOST_ROWS = 400  # that are compared by
FEWEST_ROWS = 20  # with fewer the comparison would be chance
ROUGH = TrainingOptions(residual_share=1.0, tolerance=1e-4, max_iterations=25, scale="given")
# Candidates meet at the first scale; with the best of them others are tried, up and then down, by this factor.
FIRST_SCALE, FACTOR = 16.0, 4.0
MOST_STEPS = 4
KEPT = 2


@dataclasses.dataclass(frozen=True)
class ClassChoice:
    """What was chosen.

    Attributes:
        name: of the best candidate.
        scale: with which it is best.
        scores: mean log probability of the labels of left-out rows, in nats, of every candidate at its best scale that
            was tried.
    """

    name: str
    scale: float
    scores: dict[str, float]


def choose_for_classes(
    candidates: Mapping[str, Kernel],
    likelihood: Likelihood,
    x: np.ndarray,
    y: np.ndarray,
    labels: np.ndarray,
    counts: np.ndarray,
    seed: int,
) -> ClassChoice:
    """The candidate and the scale that give left-out rows the best probabilities.

    Every fold has its share of every class; all rows that it is trained on are inducing inputs.

    Args:
        candidates: by name.
        likelihood: of classes.
        x: rows in random order, shape (n, d), of which the first few hundred are used.
        y: targets of the likelihood.
        labels: class numbers, shape (n,).
        counts: how often each row was observed.
        seed: of training.
    """
    used = min(len(x), MOST_ROWS) // FOLDS * FOLDS  # folds of one size are compiled once
    fold = np.empty(used, int)
    fold[np.argsort(labels[:used], kind="stable")] = np.arange(used) % FOLDS

    def score(kernel: Kernel, scale: float) -> float:
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
        return float(np.average(log_p, weights=counts[:used]))

    best = {name: (score(kernel, FIRST_SCALE), FIRST_SCALE) for name, kernel in candidates.items()}
    for name in sorted(best, key=lambda name: -best[name][0])[:KEPT]:
        for factor in (FACTOR, 1 / FACTOR):
            for step in range(1, MOST_STEPS + 1):
                scale = FIRST_SCALE * factor**step
                found = score(candidates[name], scale)
                if found <= best[name][0]:
                    break
                best[name] = found, scale
            if best[name][1] > FIRST_SCALE:
                break  # what is below is worse
    chosen = max(best, key=lambda name: best[name][0])
    return ClassChoice(chosen, best[chosen][1], {name: score for name, (score, _) in best.items()})
