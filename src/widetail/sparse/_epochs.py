"""Passes over minibatches: their order, progress, early stopping and checkpoints."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from widetail._progress import Progress, annotate, reporter
from widetail.finite._checkpoint import read_checkpoint, write_checkpoint
from widetail.finite._descent import DivergenceError

# (state, row numbers, steps before) to the next state and an estimate of the bound, in nats
Step = Callable[[Any, np.ndarray, int], tuple[Any, Any]]


class Course(NamedTuple):
    """How far training has come.

    Attributes:
        state: a pytree of arrays.
        best: the state with the best score; the last one where there are no scores.
        bounds: means of the estimates of every epoch, in nats.
        scores: log score of held-out rows after every epoch; empty without them.
    """

    state: Any
    best: Any
    bounds: list[float]
    scores: list[float]


@dataclasses.dataclass(frozen=True, eq=False)
class Epochs:
    """What stays the same from epoch to epoch.

    Attributes:
        label: of the progress bar.
        rows: how many there are.
        batch_size: rows of a minibatch; all of them have as many.
        epochs: passes through the rows, at most.
        seed: of the order of the rows.
        patience: epochs without a better score after which training ends.
        observations: how many rows count, for bounds per row.
        progress: True for a bar on a terminal, or a function of (steps done, steps in all).
        checkpoint: a file that is written after every epoch and resumed from.
        identity: tells runs apart that must not resume one another.
    """

    label: str
    rows: int
    batch_size: int
    epochs: int
    seed: int
    patience: int
    observations: float
    progress: Progress
    checkpoint: str | Path | None
    identity: str

    def run(
        self,
        state: Any,
        step: Step,
        *,
        advice: str,
        end_of_epoch: Callable[[Any], Any] = lambda state: state,
        score: Callable[[Any], float] | None = None,
    ) -> Course:
        """Go through all epochs.

        Args:
            state: where to start.
            step: one minibatch.
            advice: what to do if the bound is no longer a number.
            end_of_epoch: what changes once per epoch.
            score: mean log score of held-out rows.

        Raises:
            DivergenceError: the bound is NaN or infinite.
        """
        path = None if self.checkpoint is None else Path(self.checkpoint)
        course = Course(state, state, [], [])
        if path is not None and path.exists():
            states, lists = read_checkpoint(path, self.identity, (state, state))
            course = Course(*states, **lists)
        per_epoch = math.ceil(self.rows / self.batch_size)
        report = reporter(self.progress, self.label)
        while len(course.bounds) < self.epochs and not self._is_over(course):
            epoch, state, found = len(course.bounds), course.state, []
            # whole minibatches only: rows that fill up the last one are from the start of the order
            order = np.resize(
                np.random.default_rng([self.seed, epoch]).permutation(self.rows), per_epoch * self.batch_size
            )
            for number, rows in enumerate(order.reshape(per_epoch, self.batch_size), start=epoch * per_epoch):
                report(number, self.epochs * per_epoch)
                state, bound = step(state, rows, number)
                found.append(bound)
            bound = float(np.mean([float(one) for one in found]))
            if not math.isfinite(bound):
                raise DivergenceError(f"The bound is not finite in epoch {epoch + 1}; {advice}.")
            # copies, since the next step may use the memory of this state
            state = jax.tree.map(lambda leaf: np.array(leaf), end_of_epoch(state))
            scores = course.scores if score is None else [*course.scores, score(state)]
            is_best = score is None or scores[-1] >= max(scores)
            course = Course(state, state if is_best else course.best, [*course.bounds, bound], scores)
            annotate(report, note_of(bound / self.observations, scores))
            if path is not None:
                write_checkpoint(
                    path, self.identity, (course.state, course.best), {"bounds": course.bounds, "scores": scores}
                )
        report(self.epochs * per_epoch, self.epochs * per_epoch)
        return course

    def _is_over(self, course: Course) -> bool:
        scores = course.scores
        return bool(scores) and len(scores) - int(np.argmax(scores)) > self.patience


def note_of(bound: float, scores: list[float]) -> str:
    """What a bar says of the last iteration, in nats per row."""
    return f"; bound {bound:.4f}" + (f", validation {scores[-1]:.4f}" if scores else "")
