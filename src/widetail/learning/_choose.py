"""Choosing between processes that differ in more than numbers: depth, activation, relevance of features."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from widetail.checks import check_targets
from widetail.learning._fit import EvidenceFit, fit_evidence
from widetail.numerics import in_parallel
from widetail.process import ScaleMixture
from widetail.progress import Progress, reporter

# Candidates meet on half of the rows first, or on these many, and only the best go on to twice as many: an evaluation
# there costs up to eight times as much. Fewer rows than that mislead: rows that are nearly equal become rare.
FIRST_ROWS = (250, 500)
MOST_KEPT = 2
ROUNDS = 3
# A step that gains less, in nats of all rows together, is not worth an evaluation before candidates are compared.
ROUGH_GAIN = 0.03
# Multiplications per evaluation and row squared, about: what decides whether candidates are learned side by side.
OPERATIONS_PER_PAIR = 1000.0


@dataclasses.dataclass(frozen=True)
class Choice:
    """What `choose` found.

    Attributes:
        name: the best candidate.
        fit: its learned process and how it was learned.
        scores: log evidence of every candidate, per observation, in nats; higher is better. Of a candidate that was
            dropped it is that of the last rows on which it was compared.
        rows: how many rows those were.
    """

    name: str
    fit: EvidenceFit
    scores: dict[str, float]
    rows: dict[str, int] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        width = max(map(len, self.scores))
        most = max(self.rows.values(), default=0)
        lines = ["evidence per row"]
        for name, score in sorted(self.scores.items(), key=lambda item: (-self.rows.get(item[0], 0), -item[1])):
            rows = self.rows.get(name, most)
            lines.append(f"  {name.ljust(width)}  {score:.4f}{f'  (of {rows} rows)' if rows < most else ''}")
        return "\n".join(lines)


def choose(
    candidates: Mapping[str, ScaleMixture],
    x: Any,
    y: Any,
    *,
    subset: int | None = None,
    seed: int = 0,
    counts: Any = None,
    progress: Progress = False,
    tolerance: float = 1e-6,
    **options: Any,
) -> Choice:
    """Learn every candidate by evidence and take the one that explains the data best.

    They are compared on half of the rows first, on 250 to 500 of them; the best two go on to twice as many, and to
    twice as many again. There they begin as they were given: what few rows call irrelevant has a length scale in the
    thousands, from which no gradient leads back, and was worth a hundred nats on all rows of a designed experiment.

    Args:
        candidates: processes to choose from, by name.
        x: inputs, rows first.
        y: targets, shape (n,) or (n, outputs).
        subset: compare on a random subset of this many rows at most.
        seed: of the subset.
        counts: how often each row was observed.
        progress: True for a bar on a terminal, or a function of (fits done, in all).
        tolerance: as in `fit_evidence`, for a single candidate; several are told apart by fits that end where a step
            gains less than 0.03 nats of all rows together.
        **options: further arguments of `fit_evidence`.
    """
    if not candidates:
        raise ValueError("candidates must hold at least one process.")
    x = x if hasattr(x, "dtype") else np.asarray(x)
    y = check_targets(x, y)
    counts = np.ones(len(y)) if counts is None else np.asarray(counts, dtype=np.float64)
    order = np.random.default_rng(seed).permutation(len(y))[:subset]
    rounds = list(_rounds(len(candidates), len(order)))
    report, done, total = reporter(progress, "candidates"), 0, sum(kept for kept, _ in rounds)
    fits: dict[str, EvidenceFit] = {}
    scores: dict[str, float] = {}
    compared: dict[str, int] = {}
    alive = list(candidates)
    for kept, size in rounds:
        alive = sorted(alive, key=lambda name: -scores.get(name, 0.0))[:kept]
        rows = np.sort(order[:size])
        gain = ROUGH_GAIN / size if len(candidates) > 1 else 0.0

        def learned(process: ScaleMixture, rows: np.ndarray = rows, gain: float = gain) -> EvidenceFit:
            return fit_evidence(
                process, x[rows], y[rows], counts=counts[rows], seed=seed, tolerance=max(tolerance, gain), **options
            )

        report(done, total)
        found = in_parallel(learned, [candidates[name] for name in alive], OPERATIONS_PER_PAIR * size**2 * len(alive))
        done += len(alive)
        for name, fit in zip(alive, found, strict=True):
            fits[name], compared[name] = fit, size
            scores[name] = fit.log_evidence / float(np.sum(counts[rows]))
    report(total, total)
    best = max(alive, key=lambda name: scores[name])
    return Choice(best, fits[best], scores, compared)


def _rounds(candidates: int, rows: int) -> Iterator[tuple[int, int]]:
    """How many candidates meet on how many rows, round by round."""
    size = min(max(rows // 2, FIRST_ROWS[0]), FIRST_ROWS[1])
    for most in (candidates, *[MOST_KEPT] * (ROUNDS - 1)):
        candidates = min(most, candidates)
        size = rows if candidates == 1 or rows < 1.5 * size else size
        yield candidates, size
        if size == rows:
            return
        size *= 2
