"""Learning with a scale for every row: the bound is raised in the scales, in their law, and in the hyperparameters."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from widetail.learning._row_law import table_of_law
from widetail.learning._row_starts import beginnings
from widetail.learning._row_turns import MOST_FAR, Table
from widetail.learning._row_worth import may_be_plain, or_plain, plain
from widetail.process import RowFactors, ScaleMixture

ITERATIONS_PER_ROUND = 15
ROUND_GAIN = 2e-4  # of the bound, in nats per observation, below which a round is the last
MANY = 0.1  # of the rows: with so many far ones noise is no matter of heavy tails


@dataclasses.dataclass(frozen=True)
class RowFit:
    """What was learned with a scale for every row.

    Attributes:
        process: with the learned numbers, those of the law of the scales among them.
        log_evidence: its bound of the log evidence, in nats.
        learned: name, value, and whether it sits at a bound.
        fixed: numbers that were left alone.
        bounds: the bound after each round.
        evaluations: of the evidence and its gradient.
        converged: whether the last round gained next to nothing.
    """

    process: ScaleMixture
    log_evidence: float
    learned: list[tuple[str, float, bool]]
    fixed: list[str]
    bounds: list[float]
    evaluations: int
    converged: bool


def fit_rows(
    process: ScaleMixture,
    x: Any,
    y: np.ndarray,
    rows: RowFactors,
    fit: Callable[..., Any],
    *,
    learn_law: bool,
    max_iterations: int,
    tolerance: float,
    seed: int = 0,
) -> RowFit:
    """Raise the bound of a process with `RowNoise`, turn by turn, from several beginnings.

    Args:
        process: where to start.
        x, y, rows: checked data.
        fit: learns the numbers of a process with constant noise, given `x`, `y`, `counts` and `noise_weights`:
            `fit_evidence` with the other arguments that its caller gave.
        learn_law: whether the law of the scales is learned too.
        max_iterations: of the hyperparameters, all rounds together.
        tolerance: of a round, in nats per observation.
        seed: of the rows on which beginnings are compared.
    """
    table = Table(x, y, rows, fit, learn_law)
    some = table.some(seed)
    rough, gain = min(ITERATIONS_PER_ROUND, max_iterations), max(tolerance, ROUND_GAIN)
    # all the way from every beginning: after a turn or two the best ones may still look worst
    climbs, evaluations = [], 0
    for begun in beginnings(process, some, rough).values():
        climbs.append(some.climb(some.believe(begun.process, begun.misfit), rough, max_iterations, gain))
        evaluations += begun.evaluations + climbs[-1][0].evaluations
    # by what a posterior finds that is conditioned with these numbers, and does not know how they were found
    anew = [some.believe(state.process) for state, _, _ in climbs]
    ranks = [(state.far_share <= MOST_FAR, state.bound) for state in anew]
    state, bounds, converged = climbs[ranks.index(max(ranks))]
    can_be_plain, is_plain, used = may_be_plain(learn_law, process), False, 0
    if can_be_plain:
        state, is_plain, used = or_plain(state, process, some, max_iterations, tolerance)
    evaluations += used
    if some is not table and is_plain:
        state = plain(table.constant(state.process, max_iterations=max_iterations, tolerance=tolerance), table)
        evaluations += state.evaluations
    elif some is not table:
        state, bounds, converged = table.climb(table.believe(state.process), rough, max_iterations, gain)
        evaluations, used = evaluations + state.evaluations, 0
        if can_be_plain and state.far_share < MANY:
            state, is_plain, used = or_plain(state, state.process, table, max_iterations, tolerance)
        evaluations += used
    bounds, converged = ([*bounds, state.bound], True) if is_plain else (bounds, converged)
    learned = [*state.learned, *(table_of_law(state.posterior.model.prior) if learn_law else [])]
    return RowFit(
        process=state.process,
        log_evidence=state.bound,
        learned=learned,
        fixed=state.fixed,
        bounds=bounds,
        evaluations=evaluations,
        converged=converged,
    )
