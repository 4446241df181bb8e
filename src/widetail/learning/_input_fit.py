"""Learning with noise that depends on the input: the bound is raised in the noise, its network, the function's."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import scipy.optimize

from widetail.kernels import Kernel, KernelValues
from widetail.learning._parameters import Parameters
from widetail.learning._row_fit import RowFit, fit_rows
from widetail.learning._row_law import learn_row_law
from widetail.learning._row_turns import Table, with_noise
from widetail.priors import PointMass
from widetail.process import (
    FieldLaw,
    InputNoise,
    InputPosterior,
    NoiseStart,
    RowFactors,
    RowNoise,
    ScaledNoise,
    ScaleMixture,
    as_double,
)

MOST_ROUNDS = 4
ITERATIONS_PER_ROUND = 15
GAIN = 1e-4  # of the noise, given the hyperparameters, in nats per observation
FIELD_ITERATIONS = 6  # of the numbers of the noise's network, in every round
FIELD_STEPS = 8  # of the law of the noise, for each of their values
FIELD_GAIN = 1e-5  # of such a step, in nats per row, below which it is the last
ROUND_GAIN = 1e-3  # of the bound, in nats per observation, below which a round is the last
LARGE = 1e10


def fit_inputs(
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
    """Raise the bound of a process with `InputNoise`, turn by turn; arguments and result as of `fit_rows`."""
    table, begun = Table(x, y, rows, fit, learn_law), 0
    some = table.some(seed)
    rough, gain = min(ITERATIONS_PER_ROUND, max_iterations), max(tolerance, ROUND_GAIN)
    process, begun = _beginning(process, some, rough, max_iterations, tolerance)
    state = _State.of(process, some)
    state, bounds, converged = _climb(state, some, rough, max_iterations, gain)
    if some is not table:
        begun += state.evaluations
        state, bounds, converged = _climb(_State.of(state.process, table), table, rough, max_iterations, gain)
    learned = [*state.learned, *state.learned_noise]
    return RowFit(state.process, state.bound, learned, state.fixed, bounds, begun + state.evaluations, converged)


def _beginning(
    process: ScaleMixture, table: Table, iterations: int, most: int, tolerance: float
) -> tuple[ScaleMixture, int]:
    """What is learned with the same noise at all inputs, and evaluations of the evidence."""
    model = process.noise
    assert isinstance(model, InputNoise)
    if model.rows is None:
        found = table.constant(process, max_iterations=iterations, tolerance=ROUND_GAIN)
        model = dataclasses.replace(model, variance=found.process.noise.variance)
        return with_noise(found.process, model), found.evaluations
    start = with_noise(process, RowNoise(model.rows, model.variance))
    options = {"learn_law": table.learn_law, "max_iterations": most, "tolerance": tolerance}
    found = fit_rows(start, table.x, table.y, table.rows, table.fit, **options)
    own = found.process.noise
    assert isinstance(own, RowNoise)
    model = dataclasses.replace(model, rows=own.prior, variance=own.variance)
    return with_noise(found.process, model), found.evaluations


@dataclasses.dataclass(frozen=True, eq=False)
class _State:
    """Hyperparameters, and the noise of the rows with them; as `State` of a scale for every row."""

    posterior: InputPosterior
    process: ScaleMixture
    learned: list[tuple[str, float, bool]]
    learned_noise: list[tuple[str, float, bool]]
    fixed: list[str]
    evaluations: int

    @classmethod
    def of(cls, process: ScaleMixture, table: Table) -> "_State":
        return cls(_condition(process, table), process, [], [], [], 0)

    @property
    def bound(self) -> float:
        return self.posterior.log_evidence


def _climb(state: _State, table: Table, iterations: int, most: int, gain: float) -> tuple[_State, list[float], bool]:
    bounds, converged = [state.bound], False
    while not converged and len(bounds) <= MOST_ROUNDS and state.evaluations < most:
        after = _turn(state, table, iterations, gain)
        converged = after.bound - state.bound < gain * table.rows.observations
        spent = after.evaluations
        is_first = not state.learned
        state = after if after.bound > state.bound or is_first else dataclasses.replace(state, evaluations=spent)
        bounds.append(state.bound)
    return state, bounds, converged


def _turn(before: _State, table: Table, iterations: int, tolerance: float) -> _State:
    """The noise of the inputs and its network, then the hyperparameters given it, then the noise again."""
    posterior, process, learned_noise = before.posterior, before.process, before.learned_noise
    if table.learn_law:
        model, learned_noise, start = _learn_model(posterior.model, table.x, posterior, table.rows)
        process = with_noise(process, model)
        posterior = _condition(process, table, start)
    found = table.constant(process, posterior.noise_weights, max_iterations=iterations, tolerance=tolerance)
    model = dataclasses.replace(posterior.model, variance=found.process.noise.variance)
    process = with_noise(found.process, model)
    after = _condition(process, table, posterior.scales.start)
    evaluations = before.evaluations + found.evaluations
    return _State(after, process, found.learned, learned_noise, found.fixed, evaluations)


def learn_noise_field(
    model: InputNoise, x: Any, law: FieldLaw, counts: np.ndarray, outputs: int, iterations: int = FIELD_ITERATIONS
) -> tuple[InputNoise, list[tuple[str, float, bool]], FieldLaw]:
    r"""The numbers of the network of the noise, and its spread, that explain the misfits best.

    With the best law for every kernel K the gradient of the objective in K is $\frac12 (\alpha\alpha^\top - (K +
    \Lambda^{-1})^{-1})$, $\alpha = K^{-1} m$: the law itself may stay where it is.

    Returns:
        The noise with its learned numbers; name, value, and whether it sits at a bound; the law at the rows.
    """
    # the spread takes the place of a noise variance, which is one positive number too
    parameters = Parameters(ScaleMixture(model.net, PointMass(1.0), ScaledNoise(model.spread)), ("kernel", "noise"))
    halves, latest = 0.5 * counts * outputs, law
    observations = float(np.sum(counts))

    def loss(vector: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal latest
        process = parameters.process(vector)
        spread = float(process.noise.variance)
        unit = as_double(process.kernel.kernel(x, get="nngp").nngp)
        try:
            latest = FieldLaw.of(spread * unit, law.misfit, halves, latest, FIELD_STEPS, FIELD_GAIN)
        except np.linalg.LinAlgError:
            return LARGE, np.zeros_like(vector)
        root = np.sqrt(latest.precision)
        cotangent = -0.5 * latest.factor.inverse() * root[:, None] * root
        cotangent += 0.5 * np.outer(latest.pull, latest.pull)
        kernel = process.kernel
        assert isinstance(kernel, Kernel)
        slopes = kernel.pull_back(KernelValues(nngp=spread * cotangent), x)
        leaves = [*jax.tree.leaves(slopes), 0.0, float(np.sum(cotangent * unit))]
        gradient = parameters.gradient(vector, dict(enumerate(leaves)))
        return -latest.objective / observations, -gradient / observations

    best = scipy.optimize.minimize(
        loss,
        parameters.start(),
        jac=True,
        method="L-BFGS-B",
        bounds=parameters.bounds(),
        options={"maxiter": iterations, "ftol": 1e-4},
    )
    learned = parameters.process(best.x)
    spread = float(learned.noise.variance)
    matrix = spread * as_double(learned.kernel.kernel(x, get="nngp").nngp)
    table = [(name.replace("kernel", "noise.net", 1), value, end) for name, value, end in parameters.table(best.x)]
    table = [("noise.spread" if name == "noise.variance" else name, value, end) for name, value, end in table]
    law = FieldLaw.of(matrix, law.misfit, halves, latest)
    return dataclasses.replace(model, net=learned.kernel, spread=spread), table, law


def _learn_model(
    model: InputNoise, x: Any, posterior: InputPosterior, rows: RowFactors
) -> tuple[InputNoise, list[tuple[str, float, bool]], NoiseStart]:
    """The network of the noise, then the law of the scales of single rows, each given the other."""
    outputs, own = posterior.cavities.outputs, posterior.scales.own
    model, learned, field = learn_noise_field(model, x, posterior.scales.field, rows.counts, outputs)
    if own is None or model.rows is None:
        return model, learned, NoiseStart(field, None)
    law, factor = learn_row_law(model.rows, own.misfit, rows.counts, outputs)
    model = dataclasses.replace(model, rows=law, variance=float(model.variance) * factor)
    return model, learned, NoiseStart(field, type(own).of(law, own.misfit / factor, rows.counts, outputs))


def _condition(process: ScaleMixture, table: Table, start: NoiseStart | None = None) -> InputPosterior:
    posterior = process.condition(table.x, table.y, table.rows, start=start, gain=GAIN)
    assert isinstance(posterior, InputPosterior)
    return posterior
