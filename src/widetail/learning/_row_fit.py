"""Learning with a scale for every row: the bound is raised in the scales, in their law, and in the hyperparameters."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
import scipy.optimize

from widetail.mixing import ScaledNoiseLikelihood, scale_posterior
from widetail.priors import InverseGamma, PointMass, ScalePrior
from widetail.process import RowFactors, RowNoise, RowPosterior, ScaledNoise, ScaleMixture

MOST_ROUNDS = 12
ITERATIONS_PER_ROUND = 15
ROUND_GAIN = 2e-4  # of the bound, in nats per observation, below which a round is the last
# Of the parameters of the law of the scales: of Student's t, from the degrees of freedom with which targets still have
# a variance to those from which on it is a normal law.
SHAPES = (1.05, 500.0)


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
) -> RowFit:
    """Raise the bound of a process with `RowNoise`, turn by turn.

    Args:
        process: where to start.
        x, y, rows: checked data.
        fit: learns the numbers of a process with constant noise, given `noise_weights`: `fit_evidence` with the
            arguments that its caller gave.
        learn_law: whether the law of the scales is learned too.
        max_iterations: of the hyperparameters, all rounds together, once the scales are known roughly.
        tolerance: of a round, in nats per observation.
    """
    noise = process.noise
    assert isinstance(noise, RowNoise)
    turn = functools.partial(_turn, x=x, y=y, rows=rows, fit=fit, learn_law=learn_law)
    rough = min(ITERATIONS_PER_ROUND, max_iterations)
    # Two beginnings: the process as it is given, and what it would be with constant noise, which outliers may have
    # spoilt and which is as good as right without them.
    as_given = with_noise(process, ScaledNoise(noise.variance))
    constant = fit(as_given, noise_weights=rows.single, max_iterations=rough)
    first = _Turn.of(constant, noise.prior, x, y, rows)
    unspoilt = _Turn.of(dataclasses.replace(constant, process=as_given), noise.prior, x, y, rows)
    states = [turn(first, iterations=rough), turn(unspoilt, iterations=rough)]
    evaluations = constant.evaluations + sum(state.found.evaluations for state in states)
    best = max([first, *states], key=lambda state: state.posterior.log_evidence)
    bounds, converged = [best.posterior.log_evidence], False
    while not converged and len(bounds) < MOST_ROUNDS and evaluations < 3 * max_iterations:
        after = turn(best, iterations=rough)
        evaluations += after.found.evaluations
        gain = after.posterior.log_evidence - bounds[-1]
        best = after if gain > 0 else best
        bounds.append(best.posterior.log_evidence)
        converged = gain < max(tolerance, ROUND_GAIN) * rows.observations
    law = best.posterior.model.prior
    learned = [*best.found.learned, *(_shapes(law) if learn_law else [])]
    done = with_noise(best.found.process, best.posterior.model)
    return RowFit(done, bounds[-1], learned, best.found.fixed, bounds, evaluations, converged)


@dataclasses.dataclass(frozen=True, eq=False)
class _Turn:
    """Hyperparameters, and the scales of the rows with them."""

    found: Any
    posterior: RowPosterior

    @classmethod
    def of(cls, found: Any, law: ScalePrior, x: Any, y: np.ndarray, rows: RowFactors, misfit: Any = None) -> "_Turn":
        model = RowNoise(law, found.process.noise.variance)
        return cls(found, _condition(found.process, model, x, y, rows, misfit))


def _turn(
    before: _Turn, x: Any, y: np.ndarray, rows: RowFactors, fit: Callable[..., Any], *, learn_law: bool, iterations: int
) -> _Turn:
    """The law of the scales, then the hyperparameters given the scales, then the scales again."""
    posterior, process = before.posterior, before.found.process
    model, misfit = posterior.model, posterior.scales.law.misfit
    if learn_law:
        law, factor = learn_row_law(model.prior, misfit, rows.counts, posterior.cavities.outputs)
        model = RowNoise(law, model.variance * factor)
        posterior = _condition(process, model, x, y, rows, misfit / factor)
        misfit = posterior.scales.law.misfit
    start = with_noise(process, ScaledNoise(model.variance))
    found = fit(start, noise_weights=rows.single * posterior.noise_weights, max_iterations=iterations)
    return _Turn.of(found, model.prior, x, y, rows, misfit)


def _condition(
    process: ScaleMixture, model: RowNoise, x: Any, y: np.ndarray, rows: RowFactors, misfit: Any
) -> RowPosterior:
    whole = with_noise(process, model)
    posterior = whole.condition(x, y, rows) if misfit is None else whole.condition(x, y, rows, misfit=misfit)
    assert isinstance(posterior, RowPosterior)
    return posterior


def learn_row_law(prior: ScalePrior, misfit: np.ndarray, counts: np.ndarray, outputs: int) -> tuple[ScalePrior, float]:
    """The law of the scales that explains the misfits best, and the factor of the noise variance that goes with it.

    An inverse gamma law is brought to the form IG(a, a), so that the noise variance is the squared scale of a
    Student's t distribution with 2a degrees of freedom. Of other laws the positive parameters are learned as they are;
    laws that JAX cannot trace, and point masses, are left alone.
    """
    leaves, structure = jax.tree.flatten(prior)
    free = [i for i, leaf in enumerate(leaves) if eqx.is_inexact_array_like(leaf) and np.ndim(leaf) == 0 and leaf > 0]
    if not free or not prior.traceable or isinstance(prior, PointMass):
        return prior, 1.0
    start = np.log([float(leaves[i]) for i in free])

    def at(vector: Any) -> ScalePrior:
        values = list(leaves)
        for i, value in zip(free, vector, strict=True):
            values[i] = value
        return jax.tree.unflatten(structure, values)

    def loss(logs: np.ndarray) -> tuple[float, np.ndarray]:
        with jax.enable_x64(True):
            value, slopes = _loss(at(np.exp(logs).tolist()), misfit, counts, float(outputs))
        gradient = np.array([float(leaf) for i, leaf in enumerate(jax.tree.leaves(slopes)) if i in free])
        return float(value), gradient * np.exp(logs)

    low, high = np.log(SHAPES)
    bounds = [(min(low, value), max(high, value)) for value in start]
    best = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    learned = at(np.exp(best.x).tolist())
    if not isinstance(learned, InverseGamma):
        return learned, 1.0
    factor = float(learned.b / learned.a)
    return InverseGamma(float(learned.a), float(learned.a)), factor


@jax.jit
def _loss(prior: ScalePrior, misfit: Any, counts: Any, outputs: Any) -> tuple[Any, ScalePrior]:
    def value(prior: ScalePrior) -> Any:
        density = scale_posterior(prior, ScaledNoiseLikelihood(outputs, misfit)).log_evidence
        return -(counts * density).sum() / counts.sum()

    return jax.value_and_grad(value)(prior)


def with_noise(process: ScaleMixture, noise: Any) -> ScaleMixture:
    """The same process with another noise."""
    return ScaleMixture(process.kernel, process.prior_scale, noise, scale_sharing=process.scale_sharing)


def _shapes(prior: ScalePrior) -> list[tuple[str, float, bool]]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(prior)
    low, high = SHAPES
    return [
        (f"noise.prior{jax.tree_util.keystr(path)}", float(leaf), not low * 1.001 < leaf < high * 0.999)
        for path, leaf in leaves
        if np.ndim(leaf) == 0
    ]
