"""The law of the scales of rows, learned from how far the rows are from the function."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
import scipy.optimize
import scipy.special

from widetail.mixing import ScaledNoiseLikelihood, scale_posterior
from widetail.priors import Contaminated, InverseGamma, PointMass, ScalePrior
from widetail.process import of_inverse_gammas

# Of the parameters of the law of the scales: of Student's t, from the degrees of freedom with which targets still have
# a variance to those from which on it is a normal law.
SHAPES = (1.05, 500.0)
# Of rows that are not ordinary: how many there may be, and how much larger their noise variance is.
SHARES = (1e-3, 0.45)
FAR = (9.0, 1e8)
NUMBERS = 3  # of the law of such rows, each of which has to gain half of the log of the number of rows, in nats
# Of the noise variance, in one step.
FACTORS = (1e-4, 1e4)


def learn_row_law(prior: ScalePrior, misfit: np.ndarray, counts: np.ndarray, outputs: int) -> tuple[ScalePrior, float]:
    """The law of the scales that explains the misfits best, and the factor of the noise variance that goes with it.

    An inverse gamma law is brought to the form IG(a, a), so that the noise variance is the squared scale of a
    Student's t distribution with 2a degrees of freedom. Of `Contaminated` all is learned but the tail. Of other laws
    the positive parameters are learned as they are; laws that JAX cannot trace, and point masses, are left alone.
    """
    if isinstance(prior, Contaminated):
        return _learn_contaminated(prior, misfit, counts, outputs)
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


def _learn_contaminated(
    prior: Contaminated, misfit: np.ndarray, counts: np.ndarray, outputs: int
) -> tuple[Contaminated, float]:
    tail, half = float(prior.tail), 0.5 * outputs

    def loss(vector: np.ndarray) -> float:
        share, (a, far, factor) = scipy.special.expit(vector[0]), np.exp(vector[1:])
        parts = ((np.log1p(-share), a, a), (np.log(share), tail, tail * far))
        density, _ = of_inverse_gammas(parts, misfit / factor, outputs)
        return -float(counts @ (density - half * vector[3])) / counts.sum()

    ends = np.array([scipy.special.logit(SHARES), *(np.log(pair) for pair in (SHAPES, FAR, FACTORS))])
    start = [scipy.special.logit(float(prior.share)), np.log(float(prior.a)), np.log(float(prior.far)), 0.0]
    best = scipy.optimize.minimize(loss, np.clip(start, *ends.T), method="L-BFGS-B", bounds=ends)
    # Normal noise but for one row in a thousand is what stays where the rest does not earn its numbers.
    plain = np.array([ends[0, 0], ends[1, 1], best.x[2]])
    line: Any = scipy.optimize.minimize_scalar(lambda log_factor: loss(np.append(plain, log_factor)), bounds=ends[3])
    is_plain = counts.sum() * (line.fun - best.fun) < 0.5 * NUMBERS * np.log(max(counts.sum(), 2.0))
    vector = np.append(plain, line.x) if is_plain else best.x
    share, (a, far, factor) = float(scipy.special.expit(vector[0])), np.exp(vector[1:]).tolist()
    return Contaminated(share, a, far, tail), factor


def table_of_law(prior: ScalePrior) -> list[tuple[str, float, bool]]:
    """Name, value and whether it sits at a bound, for every number of the law."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(prior)
    table = []
    for path, leaf in leaves:
        name = jax.tree_util.keystr(path)
        low, high = {".share": SHARES, ".far": FAR}.get(name, SHAPES)
        if np.ndim(leaf) == 0 and not (isinstance(prior, Contaminated) and name == ".tail"):
            table.append((f"noise.prior{name}", float(leaf), not low * 1.001 < leaf < high * 0.999))
    return table
