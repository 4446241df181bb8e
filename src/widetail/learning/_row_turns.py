"""The bound with a scale for every row, raised turn by turn: scales, their law, hyperparameters."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from widetail.learning._row_law import learn_row_law
from widetail.process import RowFactors, RowNoise, RowPosterior, ScaledNoise, ScaleMixture

MOST_ROUNDS = 12
# Rows that are not ordinary are a minority. Where targets are whole numbers, a function without noise may meet a few
# values exactly, all other rows far from it, and the bound has no end there.
MOST_FAR = 0.4
FAR = 3.0  # standard deviations of an ordinary row's noise, of a row that the function hardly sees
GAIN = 1e-5  # of the scales of the rows, given the hyperparameters, in nats per observation
# Learning begins on so many rows of tables of at least so many times as many.
ROWS_TO_BEGIN, LEAST_TIMES = 300, 1.5


def with_noise(process: ScaleMixture, noise: Any) -> ScaleMixture:
    """The same process with another noise."""
    return ScaleMixture(process.kernel, process.prior_scale, noise, scale_sharing=process.scale_sharing)


@dataclasses.dataclass(frozen=True, eq=False)
class State:
    """Hyperparameters, and the scales of the rows with them.

    Attributes:
        posterior: of the rows; its `model` is the noise.
        process: with this noise.
        learned, fixed: as in `EvidenceFit`.
        evaluations: of the evidence, to get here.
    """

    posterior: RowPosterior
    process: ScaleMixture
    learned: list[tuple[str, float, bool]]
    fixed: list[str]
    evaluations: int

    @property
    def bound(self) -> float:
        """What is raised, in nats."""
        return self.posterior.log_evidence

    @property
    def far_share(self) -> float:
        """The share of the observations that the function hardly sees."""
        counts = self.posterior.rows.counts
        return float(counts[self.posterior.outliers(FAR)].sum() / counts.sum())


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """Rows, and how hyperparameters are learned from them.

    Attributes:
        x, y, rows: checked data.
        fit: learns a process with constant noise, given `x`, `y`, `counts` and `noise_weights`.
        learn_law: whether the law of the scales is learned too.
    """

    x: Any
    y: np.ndarray
    rows: RowFactors
    fit: Callable[..., Any]
    learn_law: bool

    def some(self, seed: int) -> "Table":
        """Rows to begin with, where there are many."""
        if len(self.y) < LEAST_TIMES * ROWS_TO_BEGIN:
            return self
        return self.part(np.sort(np.random.default_rng(seed).permutation(len(self.y))[:ROWS_TO_BEGIN]))

    def part(self, index: np.ndarray) -> "Table":
        """Some of the rows."""
        return Table(self.x[index], self.y[index], self.rows[index], self.fit, self.learn_law)

    def constant(self, process: ScaleMixture, weights: np.ndarray | float = 1.0, **options: Any) -> Any:
        """A fit with constant noise, that of each row times its weight."""
        start = with_noise(process, ScaledNoise(process.noise.variance))
        noise_weights = self.rows.single * weights
        return self.fit(start, x=self.x, y=self.y, counts=self.rows.counts, noise_weights=noise_weights, **options)

    def believe(self, process: ScaleMixture, misfit: np.ndarray | None = None) -> State:
        """The scales of the rows, from several starts or from one."""
        return State(self._condition(process, misfit), process, [], [], 0)

    def turn(self, before: State, iterations: int, tolerance: float) -> State:
        """The law of the scales, then the hyperparameters given the scales, then the scales again."""
        posterior, process = before.posterior, before.process
        model, misfit = posterior.model, posterior.scales.law.misfit
        if self.learn_law:
            law, factor = learn_row_law(model.prior, misfit, self.rows.counts, posterior.cavities.outputs)
            model = RowNoise(law, model.variance * factor)
            process = with_noise(process, model)
            posterior = self._condition(process, misfit / factor)
            misfit = posterior.scales.law.misfit
        found = self.constant(process, posterior.noise_weights, max_iterations=iterations, tolerance=tolerance)
        process = with_noise(found.process, RowNoise(model.prior, found.process.noise.variance))
        evaluations = before.evaluations + found.evaluations
        return State(self._condition(process, misfit), process, found.learned, found.fixed, evaluations)

    def climb(self, state: State, iterations: int, most: int, gain: float) -> tuple[State, list[float], bool]:
        """Turns until one gains less than `gain`, in nats per observation, or after `most` evaluations.

        Returns:
            The best state, the bounds after each turn, and whether it ended by itself.
        """
        bounds, converged, last = [state.bound], False, state.evaluations + most
        while not converged and len(bounds) <= MOST_ROUNDS and state.evaluations < last:
            after = self.turn(state, iterations, gain)
            runs_off = after.far_share > MOST_FAR >= state.far_share
            converged = runs_off or after.bound - state.bound < gain * self.rows.observations
            is_first = not state.learned  # nothing was learned on these rows yet, and a caller asks for what was
            if is_first or (after.bound > state.bound and not runs_off):
                state = after
            else:
                state = dataclasses.replace(state, evaluations=after.evaluations)
            bounds.append(state.bound)
        return state, bounds, converged

    def _condition(self, process: ScaleMixture, misfit: np.ndarray | None) -> RowPosterior:
        condition = functools.partial(process.condition, self.x, self.y, self.rows, gain=GAIN)
        posterior = condition() if misfit is None else condition(misfit=misfit)
        assert isinstance(posterior, RowPosterior)
        return posterior
