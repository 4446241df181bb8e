"""Choosing between processes that differ in more than numbers: depth, activation, relevance of features."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from widetail.learning._fit import EvidenceFit, fit_evidence
from widetail.process import ScaleMixture
from widetail.process._targets import check_targets
from widetail.progress import Progress, reporter

Criterion = Literal["evidence", "validation"]


@dataclasses.dataclass(frozen=True)
class Choice:
    """What `choose` found.

    Attributes:
        name: the best candidate.
        fit: its learned process and how it was learned.
        scores: score of every candidate, per row, in nats; higher is better.
        criterion: what the scores are.
    """

    name: str
    fit: EvidenceFit
    scores: dict[str, float]
    criterion: Criterion

    def __str__(self) -> str:
        width = max(map(len, self.scores))
        rows = sorted(self.scores.items(), key=lambda item: -item[1])
        return "\n".join(
            [f"{self.criterion} per row", *(f"  {name.ljust(width)}  {score:.4f}" for name, score in rows)]
        )


def choose(
    candidates: Mapping[str, ScaleMixture],
    x: Any,
    y: Any,
    *,
    criterion: Criterion = "evidence",
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
        criterion: "evidence" (log evidence of the rows that it was learned from) or "validation" (mean log
            predictive density of a fifth of the rows, which learning does not see).
        subset: learn from a random subset of this many rows.
        seed: of the subset and the split.
        counts: how often each row was observed.
        progress: True for a bar on a terminal, or a function of (candidates done, in all).
        **options: further arguments of `fit_evidence`.
    """
    if not candidates:
        raise ValueError("candidates must hold at least one process.")
    if criterion not in ("evidence", "validation"):
        raise ValueError(f"criterion must be 'evidence' or 'validation'; got {criterion!r}.")
    x = x if hasattr(x, "dtype") else np.asarray(x)
    y = check_targets(x, y)
    counts = np.ones(len(y)) if counts is None else np.asarray(counts, dtype=np.float64)
    shuffled = np.random.default_rng(seed).permutation(len(y))[:subset]
    held_out = shuffled[: len(shuffled) // 5 if criterion == "validation" else 0]
    rows = np.sort(shuffled[len(held_out) :])
    report = reporter(progress, "candidates")
    fits: dict[str, EvidenceFit] = {}
    scores: dict[str, float] = {}
    for done, (name, process) in enumerate(candidates.items()):
        report(done, len(candidates))
        fits[name] = fit_evidence(process, x[rows], y[rows], counts=counts[rows], seed=seed, **options)
        if criterion == "evidence":
            scores[name] = fits[name].log_evidence / float(np.sum(counts[rows]))
        else:
            posterior = fits[name].process.posterior(x[rows], y[rows], counts=counts[rows])
            scores[name] = float(np.average(posterior(x[held_out]).log_prob(y[held_out])))
    report(len(candidates), len(candidates))
    best = max(scores, key=lambda name: scores[name])
    return Choice(best, fits[best], scores, criterion)
