"""Choosing between processes that differ in more than numbers: depth, activation, relevance of features."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from widetail.checks import check_targets
from widetail.learning._fit import EvidenceFit, fit_evidence
from widetail.process import ScaleMixture
from widetail.progress import Progress, reporter


@dataclasses.dataclass(frozen=True)
class Choice:
    """What `choose` found.

    Attributes:
        name: the best candidate.
        fit: its learned process and how it was learned.
        scores: log evidence of every candidate, per observation, in nats; higher is better.
    """

    name: str
    fit: EvidenceFit
    scores: dict[str, float]

    def __str__(self) -> str:
        width = max(map(len, self.scores))
        rows = sorted(self.scores.items(), key=lambda item: -item[1])
        return "\n".join(["evidence per row", *(f"  {name.ljust(width)}  {score:.4f}" for name, score in rows)])


def choose(
    candidates: Mapping[str, ScaleMixture],
    x: Any,
    y: Any,
    *,
    subset: int | None = None,
    seed: int = 0,
    counts: Any = None,
    progress: Progress = False,
    **options: Any,
) -> Choice:
    """Learn every candidate by evidence and take the one that explains the data best.

    Args:
        candidates: processes to choose from, by name.
        x: inputs, rows first.
        y: targets, shape (n,) or (n, outputs).
        subset: learn from a random subset of this many rows.
        seed: of the subset.
        counts: how often each row was observed.
        progress: True for a bar on a terminal, or a function of (candidates done, in all).
        **options: further arguments of `fit_evidence`.
    """
    if not candidates:
        raise ValueError("candidates must hold at least one process.")
    x = x if hasattr(x, "dtype") else np.asarray(x)
    y = check_targets(x, y)
    counts = np.ones(len(y)) if counts is None else np.asarray(counts, dtype=np.float64)
    rows = np.sort(np.random.default_rng(seed).permutation(len(y))[:subset])
    report = reporter(progress, "candidates")
    fits: dict[str, EvidenceFit] = {}
    scores: dict[str, float] = {}
    for done, (name, process) in enumerate(candidates.items()):
        report(done, len(candidates))
        fits[name] = fit_evidence(process, x[rows], y[rows], counts=counts[rows], seed=seed, **options)
        scores[name] = fits[name].log_evidence / float(np.sum(counts[rows]))
    report(len(candidates), len(candidates))
    best = max(scores, key=lambda name: scores[name])
    return Choice(best, fits[best], scores)
