"""From candidates and data to what was learned: the step that every estimator takes before it conditions."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from widetail.learning._choose import Choice, choose
from widetail.learning._fit import EvidenceFit, fit_evidence
from widetail.learning._noise_choice import NoiseChoice, NoiseName, choose_noise, with_noise_of_kind
from widetail.process import ScaleMixture
from widetail.progress import Progress

# With fewer observations the evidence says next to nothing of a dozen parameters.
FEWEST_TO_LEARN_FROM = 10
# Kinds of noise are told apart by a rough fit.
ROUGH_TOLERANCE = 1e-4
# A step that gains less, in nats of all rows together, is not worth an evaluation.
FINE_GAIN = 0.01
# Learning begins on so many rows; where there are more, it goes on from there with all of them, and few steps.
ROWS_TO_BEGIN = 1000


@dataclasses.dataclass(frozen=True)
class Learned:
    """What `learn` found: processes by name, with weights that add up to one.

    Today there is one process, the best. Whoever predicts with all of them, by their weights, needs no change when
    there are more.

    Attributes:
        processes: processes with their learned numbers, by the name of the candidate; the heaviest first.
        weights: one per process, adding up to one.
        choice: how the candidates compared; None where there was one, or too few rows to tell.
        fit: how the best was learned; None where nothing was.
        noise_choice: how the kinds of noise compared; None where none were.
    """

    processes: dict[str, ScaleMixture]
    weights: tuple[float, ...]
    choice: Choice | None = None
    fit: EvidenceFit | None = None
    noise_choice: NoiseChoice | None = None

    @classmethod
    def as_given(cls, candidates: Mapping[str, ScaleMixture]) -> "Learned":
        """The first of the candidates, with its numbers as they are."""
        name, process = next(iter(candidates.items()))
        return cls({name: process}, (1.0,))

    @property
    def name(self) -> str:
        """Name of the process with the largest weight."""
        return next(iter(self.processes))

    @property
    def process(self) -> ScaleMixture:
        """The process with the largest weight."""
        return self.processes[self.name]


def learn(
    candidates: ScaleMixture | Mapping[str, ScaleMixture],
    x: Any,
    y: Any,
    *,
    noise: NoiseName | Literal["auto"] | None = None,
    counts: Any = None,
    choose_rows: int = 1000,
    choose_iterations: int = 25,
    learn_rows: int = 3000,
    max_iterations: int = 60,
    tolerance: float = 1e-6,
    seed: int = 0,
    progress: Progress = False,
) -> Learned:
    """Choose between processes by their evidence, and learn the hyperparameters of the best.

    Candidates are first learned roughly, from few rows; the best of them is then learned in full, from more: from a
    thousand, and from there on from all of them. With fewer than ten observations the first candidate is returned as
    it is.

    Args:
        candidates: a process, or several by name.
        x: inputs, rows first, in standard units.
        y: targets, shape (n,) or (n, outputs), in units that the prior of the scale is meant for.
        noise: kind of noise, in place of that of the candidates, whose variance is where it starts: "constant", "rows",
            "inputs", "both", or "auto" to have `choose_noise` choose. With "rows" and "both" candidates are compared
            with a scale for every row already, so that outliers have no say in it.
        counts: how often each row was observed.
        choose_rows: rows of the random subset on which candidates, and kinds of noise, are compared at most; see
            `choose`.
        choose_iterations: of each candidate's optimisation.
        learn_rows: rows of the random subset from which the best is learned.
        max_iterations: of its optimisation.
        tolerance: of its optimisation, in nats per observation. It ends before where a step gains less than 0.01 nats
            of all rows together.
        seed: of the subsets.
        progress: True for bars on a terminal, or a function of (done, in all).

    Example:
        >>> import numpy as np, widetail as wt
        >>> x = np.linspace(-2.0, 2.0, 40)[:, None]
        >>> candidates = {"smooth": wt.ScaleMixture(wt.kernels.RBF()), "rough": wt.ScaleMixture(wt.kernels.Matern(0.5))}
        >>> learned = wt.learning.learn(candidates, x, np.sin(3.0 * x[:, 0]))
        >>> learned.name
        'smooth'
        >>> posterior = learned.process.posterior(x, np.sin(3.0 * x[:, 0]))
    """
    if isinstance(candidates, ScaleMixture):
        candidates = {"given": candidates}
    if not candidates:
        raise ValueError("candidates must hold at least one process.")
    observations = len(y) if counts is None else float(np.sum(counts))
    if observations < FEWEST_TO_LEARN_FROM:
        kind = "constant" if noise == "auto" else noise
        return Learned.as_given({name: with_noise_of_kind(one, kind, x) for name, one in candidates.items()})
    shared = {"counts": counts, "seed": seed}
    rough = {"max_iterations": min(max_iterations, choose_iterations), "tolerance": max(tolerance, ROUGH_TOLERANCE)}
    several = rough | {"tolerance": tolerance}  # `choose` has a limit of its own

    def compared(kind: NoiseName | None) -> Choice:
        alike = {name: with_noise_of_kind(one, kind, x) for name, one in candidates.items()}
        options = several if len(alike) > 1 else rough
        return choose(alike, x, y, subset=choose_rows, progress=progress, **options, **shared)

    kind, choice, noise_choice = noise, None, None
    if noise == "auto":
        choice = compared("constant")
        noise_choice = choose_noise(choice.fit.process, x, y, subset=choose_rows, learn=("noise",), **rough, **shared)
        kind = noise_choice.name
    rows_differ = kind in ("rows", "both")
    if len(candidates) > 1 and (choice is None or rows_differ):
        choice = compared("rows" if rows_differ else None if kind is None else "constant")
    name, process = next(iter(candidates.items())) if choice is None else (choice.name, choice.fit.process)
    process, most = with_noise_of_kind(process, kind, x), min(learn_rows, len(y))

    def fitted(start: ScaleMixture, rows: int) -> EvidenceFit:
        fine = {"max_iterations": max_iterations, "tolerance": max(tolerance, FINE_GAIN / rows)}
        return fit_evidence(start, x, y, subset=rows, progress=progress, **fine, **shared)

    if most >= 2 * ROWS_TO_BEGIN:
        process = fitted(process, ROWS_TO_BEGIN).process
    fit = fitted(process, most)
    return Learned({name: fit.process}, (1.0,), choice if len(candidates) > 1 else None, fit, noise_choice)
