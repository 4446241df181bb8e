"""Passes over minibatches: their order, progress, early stopping and checkpoints."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from widetail.files.checkpoints import read_checkpoint, write_checkpoint
from widetail.numerics import DivergenceError
from widetail.progress import Progress, annotate, reporter

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
    """The settings of all epochs.

    Attributes:
        label: of the progress bar.
        rows: how many there are.
        are_shuffled: whether rows are in random order already; minibatches are then contiguous, fast to read.
        batch_size: rows of a minibatch; all of them have as many.
        epochs: passes through the rows, at most.
        seed: of the order of the rows.
        patience: epochs without a better score after which training ends.
        observations: how many rows count, for bounds per row.
        progress: True for a bar on a terminal, or a function of (steps done, steps in all).
        checkpoint: a file that is written after every epoch and resumed from.
        identity: tells runs apart that must not resume one another; a run may be resumed for more epochs.
    """

    label: str
    rows: int
    are_shuffled: bool
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
        start_of_epoch: Callable[[Any], Any] = lambda state: state,
        end_of_epoch: Callable[[Any], Any] = lambda state: state,
        score: Callable[[Any], float] | None = None,
    ) -> Course:
        """Go through all epochs.

        Args:
            state: where to start.
            step: one minibatch.
            advice: what to do if the bound is no longer a number.
            start_of_epoch, end_of_epoch: what changes once per epoch.
            score: mean log score of held-out rows.

        Raises:
            DivergenceError: the bound or a score is NaN or infinite, or a covariance is not positive definite.
        """
        path = None if self.checkpoint is None else Path(self.checkpoint)
        state = _copied(state)
        course = Course(state, state, [], [])
        if path is not None and path.exists():
            states, lists = read_checkpoint(path, self.identity, (state, state))
            course = Course(*states, **lists)
            if len(course.bounds) > self.epochs:
                raise ValueError(
                    f"epochs must be at least {len(course.bounds)}, which checkpoint {str(path)!r} has seen already; "
                    f"got {self.epochs}."
                )
        per_epoch = math.ceil(self.rows / self.batch_size)
        report = reporter(self.progress, self.label)
        while len(course.bounds) < self.epochs and not self._is_over(course):
            epoch, state, found = len(course.bounds), start_of_epoch(course.state), []
            for number, rows in enumerate(self._minibatches(epoch), start=epoch * per_epoch):
                report(number, self.epochs * per_epoch)
                state, bound = step(state, rows, number)
                found.append(bound)
            bound = float(np.mean([float(one) for one in found]))
            if not math.isfinite(bound):
                raise DivergenceError(f"The bound is not finite in epoch {epoch + 1}; {advice}.")
            try:
                state = _copied(end_of_epoch(state))
                scores = course.scores if score is None else [*course.scores, score(state)]
            except np.linalg.LinAlgError:
                raise DivergenceError(
                    f"A covariance is not positive definite after epoch {epoch + 1}; {advice}."
                ) from None
            if scores and not math.isfinite(scores[-1]):
                raise DivergenceError(f"The log score of held-out rows is {scores[-1]} in epoch {epoch + 1}; {advice}.")
            is_best = score is None or scores[-1] >= max(scores)
            course = Course(state, state if is_best else course.best, [*course.bounds, bound], scores)
            annotate(report, note_of(bound / self.observations, scores))
            if path is not None:
                write_checkpoint(
                    path, self.identity, (course.state, course.best), {"bounds": course.bounds, "scores": scores}
                )
        report(self.epochs * per_epoch, self.epochs * per_epoch)
        return course

    def _minibatches(self, epoch: int) -> np.ndarray:
        """Row numbers, (minibatches, batch_size); rows that fill up the last one are from the start of the order."""
        rng = np.random.default_rng([self.seed, epoch])
        count = math.ceil(self.rows / self.batch_size)
        if not self.are_shuffled:
            return np.resize(rng.permutation(self.rows), (count, self.batch_size))
        order = (rng.integers(self.rows) + np.arange(count * self.batch_size)) % self.rows
        return rng.permutation(order.reshape(count, self.batch_size))

    def _is_over(self, course: Course) -> bool:
        scores = course.scores
        return bool(scores) and len(scores) - int(np.argmax(scores)) > self.patience


def _copied(state: Any) -> Any:
    """As NumPy arrays of their own: the next step may use the memory of this state."""
    return jax.tree.map(lambda leaf: np.array(leaf), state)


def note_of(bound: float, scores: list[float]) -> str:
    """The note of a progress bar on the last iteration, in nats per row."""
    return f"; bound {bound:.4f}" + (f", validation {scores[-1]:.4f}" if scores else "")
