"""Learning with noise that depends on the input: the bound is raised in the noise, its network, the function's."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import scipy.optimize

from widetail.kernels import Kernel, KernelValues
from widetail.learning._parameters import Parameters
from widetail.learning._row_fit import RowFit, learn_row_law, with_noise
from widetail.priors import PointMass
from widetail.process import (
    FieldLaw,
    InputNoise,
    InputPosterior,
    NoiseStart,
    RowFactors,
    ScaledNoise,
    ScaleMixture,
    as_double,
)

MOST_ROUNDS = 4
ITERATIONS_PER_ROUND = 15
FIELD_ITERATIONS = 6  # of the numbers of the noise's network, in every round
FIELD_STEPS = 8  # of the law of the noise, for each of their values
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
) -> RowFit:
    """Raise the bound of a process with `InputNoise`, turn by turn; arguments and result as of `fit_rows`."""
    model = process.noise
    assert isinstance(model, InputNoise)
    rough = min(ITERATIONS_PER_ROUND, max_iterations)
    found = fit(with_noise(process, ScaledNoise(model.variance)), noise_weights=rows.single, max_iterations=rough)
    model = dataclasses.replace(model, variance=found.process.noise.variance)
    posterior = _condition(found.process, model, x, y, rows)
    evaluations, learned_field = found.evaluations, []
    best, bounds, converged = (found, posterior, learned_field), [posterior.log_evidence], False
    while not converged and len(bounds) <= MOST_ROUNDS and evaluations < 3 * max_iterations:
        start = posterior.scales.start
        if learn_law:
            model, learned_field, start = _learn_model(model, x, posterior, rows)
            posterior = _condition(found.process, model, x, y, rows, start)
        given = with_noise(found.process, ScaledNoise(model.variance))
        found = fit(given, noise_weights=rows.single * posterior.noise_weights, max_iterations=rough)
        evaluations += found.evaluations
        model = dataclasses.replace(model, variance=found.process.noise.variance)
        posterior = _condition(found.process, model, x, y, rows, posterior.scales.start)
        gain = posterior.log_evidence - bounds[-1]
        best = (found, posterior, learned_field) if gain > 0 else best
        bounds.append(best[1].log_evidence)
        converged = gain < max(tolerance, ROUND_GAIN) * rows.observations
    found, posterior, learned_field = best
    learned = [*found.learned, *learned_field]
    done = with_noise(found.process, posterior.model)
    return RowFit(done, bounds[-1], learned, found.fixed, bounds, evaluations, converged)


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
            latest = FieldLaw.of(spread * unit, law.misfit, halves, latest, FIELD_STEPS)
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


def _condition(
    process: ScaleMixture, model: InputNoise, x: Any, y: np.ndarray, rows: RowFactors, start: NoiseStart | None = None
) -> InputPosterior:
    posterior = with_noise(process, model).condition(x, y, rows, start=start)
    assert isinstance(posterior, InputPosterior)
    return posterior
