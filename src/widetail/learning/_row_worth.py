"""Whether scales of single rows are worth it, or one noise variance predicts left-out rows as well."""

from typing import Any

import numpy as np

from widetail.checks import two_dimensional
from widetail.learning._row_turns import State, Table, with_noise
from widetail.priors import Contaminated
from widetail.process import RowNoise, ScaledNoise, ScaleMixture

# Ordinary noise, and room for a row in a thousand.
PLAIN = Contaminated(1e-3, a=500.0, far=100.0)
# Scales of rows predict left-out targets better by this share, or raise the evidence by so many nats per observation.
# Tails that are a little heavy often belong to a function which is steep in places, and are no wrong targets.
BETTER, RAISED = 0.05, 0.15
FAR_OFF = 3.0  # residuals are as bad as any beyond so many of their standard deviations
MIDDLE = 1.4826  # standard deviation of a normal law over its median distance from the middle


def may_be_plain(learn_law: bool, process: ScaleMixture) -> bool:
    """Whether the law can become that of ordinary noise: others are as somebody wants them."""
    noise = process.noise
    return learn_law and isinstance(noise, RowNoise) and isinstance(noise.prior, Contaminated)


def or_plain(state: State, process: ScaleMixture, table: Table, most: int, gain: float) -> tuple[State, bool, int]:
    """The state, or that of one noise variance where scales of the rows are not worth it.

    Args:
        state: what was learned from the table.
        process: where learning of one noise variance starts.
        table: rows.
        most, gain: iterations, and nats per observation below which a step is the last.

    Returns:
        The one of them, whether it is the latter, and evaluations of the evidence to find out.
    """
    found = table.constant(process, max_iterations=most, tolerance=gain)
    raised = (state.bound - found.log_evidence) / table.rows.observations
    if raised > RAISED or _cost(state, found, table) < 1 - BETTER:
        return state, False, found.evaluations
    return plain(found, table), True, found.evaluations


def plain(found: Any, table: Table) -> State:
    """One noise variance, a fit of the table, as scales of rows that are ordinary."""
    process = with_noise(found.process, RowNoise(PLAIN, found.process.noise.variance))
    return State(table.believe(process).posterior, process, found.learned, found.fixed, found.evaluations)


def _cost(state: State, found: Any, table: Table) -> float:
    """Squared residuals of left-out rows over those of one noise variance, far ones all alike."""
    noise = ScaledNoise(found.process.noise.variance)
    constant = with_noise(found.process, noise).condition(table.x, table.y, table.rows)
    y = two_dimensional(table.y)
    own, others = (np.abs(y - two_dimensional(one.left_out().location)) for one in (state.posterior, constant))
    unit = np.maximum(MIDDLE * np.median(others, axis=0), np.finfo(float).tiny)
    with np.errstate(over="ignore"):
        sums = [
            table.rows.counts @ np.minimum(np.sum((each / unit) ** 2, axis=1), FAR_OFF**2 * y.shape[1])
            for each in (own, others)
        ]
    return float(sums[0] / sums[1]) if sums[1] > 0 else np.inf
