"""Choosing between processes that differ in more than numbers: depth, activation, relevance of features."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from widetail.checks import check_targets
from widetail.learning._fit import EvidenceFit, fit_evidence
from widetail.numerics import in_parallel
from widetail.process import ScaleMixture
from widetail.progress import Progress, reporter

# Candidates meet on half of the rows first, or on these many, and only the best go on to twice as many: an evaluation
# there costs up to eight times as much. Fewer rows mislead in their numbers, because rows that are nearly equal become
# rare: they say only who need not come, of those that converge there, and who comes begins where it was given.
FIRST_ROWS = (250, 500)
FEWEST_KEPT = 2
ROUNDS = 3
CLOSE = 0.02  # nats per row from the best: all of these go on
# From here on what fewer rows taught is where learning begins: an evaluation takes 50 ms and more.
ROWS_TO_GO_ON = 1000
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

    They are compared on half of the rows first, on 250 to 500 of them; the best two, and all that are within 0.02 nats
    per row of the best, go on to twice as many, and to twice as many again. With fewer than 1,000 rows they begin as
    they were given: what few rows call irrelevant has a length scale in the thousands, from which no gradient leads
    back, and was worth a hundred nats on all rows of a designed experiment. Where the first rows are many more than
    250, a round of 250 before says which candidates need not take part, of those that converge in it.

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
    sizes = _sizes(len(order)) if len(candidates) > 1 else [len(order)]
    has_qualifying = sizes[0] >= 1.5 * FIRST_ROWS[0] and len(sizes) > 1
    sizes = [FIRST_ROWS[0], *sizes] if has_qualifying else sizes
    report, done, total = reporter(progress, "candidates"), 0, len(candidates) * len(sizes)
    fits: dict[str, EvidenceFit] = {}
    scores: dict[str, float] = {}
    compared: dict[str, int] = {}
    alive = list(candidates)
    for number, size in enumerate(sizes):
        if number:
            best = _best({name: scores[name] for name in alive})
            late = [name for name in alive if not fits[name].converged] if has_qualifying and number == 1 else []
            alive = [name for name in alive if name in best or name in late]
        rows = np.sort(order[:size])
        gain = ROUGH_GAIN / size if len(candidates) > 1 else 0.0

        def learned(process: ScaleMixture, rows: np.ndarray = rows, gain: float = gain) -> EvidenceFit:
            return fit_evidence(
                process, x[rows], y[rows], counts=counts[rows], seed=seed, tolerance=max(tolerance, gain), **options
            )

        report(done, total)
        goes_on = number and size >= ROWS_TO_GO_ON
        starts = [fits[name].process if goes_on else candidates[name] for name in alive]
        found = in_parallel(learned, starts, OPERATIONS_PER_PAIR * size**2 * len(alive))
        done += len(alive)
        for name, fit in zip(alive, found, strict=True):
            fits[name], compared[name] = fit, size
            scores[name] = fit.log_evidence / float(np.sum(counts[rows]))
    report(total, total)
    best = max(alive, key=lambda name: scores[name])
    return Choice(best, fits[best], scores, compared)


def _sizes(rows: int) -> list[int]:
    """On how many rows candidates meet, round by round; on all of them in the last."""
    size = min(max(rows // 2, FIRST_ROWS[0]), FIRST_ROWS[1])
    sizes = [size]
    while 1.5 * sizes[-1] <= rows and len(sizes) < ROUNDS:
        sizes.append(2 * sizes[-1])
    return sizes if 1.5 * sizes[-1] <= rows else [*sizes[:-1], rows]


def _best(scores: Mapping[str, float]) -> list[str]:
    """Names of those that go on, the best first."""
    names = sorted(scores, key=lambda name: -scores[name])
    return [name for place, name in enumerate(names) if place < FEWEST_KEPT or scores[name] > scores[names[0]] - CLOSE]
