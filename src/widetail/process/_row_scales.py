r"""Scales of single rows: what is believed of them, given how far each row is from the function.

Row i has the noise variance $\beta s^2 u_i w_i$: $u_i$ is given, $w_i \sim H$ is not. With a law
$q(f, \beta) \prod_i q(w_i)$ the function only asks for $\hat w_i = 1 / E[1/w_i]$, and is then that of exact inference
with those weights; the weights only ask for the misfit $e_i = E[|y_i - f_i|^2] / (\beta s^2 u_i)$, and are then exact
in one dimension: $q(w) \propto H(w)\, w^{-D/2} e^{-e/(2w)}$. Turn by turn the bound of the log evidence rises to an
optimum.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.interpolate

from widetail.mixing import ScaledNoiseLikelihood, ScaleLikelihood, log_inverse_gamma_integral, scale_posterior
from widetail.numerics import namespace
from widetail.priors import Contaminated, InverseGamma, ScalePrior
from widetail.process._rows import RowFactors

# Misfits per output between which the weights are interpolated, where a guess will do.
TABLE = np.geomspace(1e-10, 1e14, 961)


@dataclasses.dataclass(frozen=True, eq=False)
class RowLaw:
    """What is believed of the scales of the rows.

    Attributes:
        misfit: what it was made from, shape (n,).
        weights: the factor of the noise variance that the function sees, one over the mean precision, shape (n,).
        bound: what the rows add to the log evidence given `weights`, in nats.
    """

    misfit: np.ndarray
    weights: np.ndarray
    bound: float

    @classmethod
    def of(cls, prior: ScalePrior, misfit: np.ndarray, counts: np.ndarray, outputs: int) -> "RowLaw":
        """The best law for these misfits of rows that were observed so often."""
        log_density, precision = density_and_precision(prior, misfit, outputs)
        bound = log_density + 0.5 * misfit * precision - 0.5 * outputs * np.log(precision)
        return cls(misfit, 1 / precision, float(counts @ bound))


def density_and_precision(prior: ScalePrior, misfit: np.ndarray, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    r"""$\log E[w^{-D/2} e^{-e/(2w)}]$ under the prior, and the mean of 1/w given the misfit e; shapes (n,).

    Asked for hundreds of times while a function is fitted: inverse gamma laws have formulas.
    """
    if isinstance(prior, InverseGamma):
        return of_inverse_gammas([(0.0, prior.a, prior.b)], misfit, outputs)
    if isinstance(prior, Contaminated):
        return of_inverse_gammas([(share, part.a, part.b) for share, part in prior.parts], misfit, outputs)
    own = scale_posterior(prior, ScaledNoiseLikelihood(float(outputs), misfit))
    constant = 0.5 * outputs * math.log(2 * math.pi)
    return np.asarray(own.log_evidence) + constant, np.asarray(own.mean_precision)


def of_inverse_gammas(parts: Sequence[Any], misfit: np.ndarray, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    """The same under a mixture of inverse gamma laws: the log of the probability of each, its a and its b."""
    half = 0.5 * outputs
    densities = [log_share + log_inverse_gamma_integral(a, b, half, 0.5 * misfit) for log_share, a, b in parts]
    precisions = [(a + half) / (b + 0.5 * misfit) for _, a, b in parts]
    total = np.logaddexp.reduce(densities)
    return total, np.sum(np.exp(np.array(densities) - total) * precisions, axis=0)


class WeightTable:
    """Weights as a function of the misfit, interpolated: for guesses that exact laws then follow."""

    def __init__(self, prior: ScalePrior, outputs: int):
        misfits = outputs * TABLE
        weights = RowLaw.of(prior, misfits, np.ones(len(misfits)), outputs).weights
        self._spline = scipy.interpolate.PchipInterpolator(np.log(misfits), np.log(weights))
        self._ends = np.log(misfits[[0, -1]])

    def __call__(self, misfit: np.ndarray) -> np.ndarray:
        logs = np.log(np.maximum(misfit, np.finfo(float).tiny))
        return np.exp(self._spline(np.clip(logs, *self._ends)))


@dataclasses.dataclass(frozen=True)
class Cavities:
    """What all other rows say of each row, per unit of readout variance, and the noise that it is seen with.

    Attributes:
        square: squared residual over the readout variance, summed over the outputs, shape (n,).
        variance: of the function, shape (n,).
        unit: noise variance of the row at a scale of one, shape (n,).
        counts: how often it was observed, shape (n,).
        outputs: D.
    """

    square: np.ndarray
    variance: np.ndarray
    unit: np.ndarray
    counts: np.ndarray
    outputs: int

    @classmethod
    def of(cls, given: Any, factors: RowFactors) -> "Cavities":
        """From a posterior with weights; `factors` are those of the rows without them."""
        noise = given.noise * given.rows.factors
        precision = np.maximum(given.factor.inverse_diagonal(), np.finfo(float).tiny)
        residual = given.weights / precision[:, None]
        square = np.sum(residual**2 * np.broadcast_to(given.scale.mean_precision, residual.shape[1:]), axis=1)
        variance = np.maximum(1 / precision - noise, 0.0)
        return cls(square, variance, given.noise * factors.single, factors.counts, residual.shape[1])

    @classmethod
    def of_one(cls, given: Any, factors: RowFactors) -> "Cavities":
        """The same when one observation of a row is left out, and others of it stay."""
        precision = np.maximum(given.factor.inverse_diagonal(), np.finfo(float).tiny)[:, None]
        residual, total = given.rows.left_out(given.weights, precision, given.noise)
        square = np.sum(residual**2 * np.broadcast_to(given.scale.mean_precision, residual.shape[1:]), axis=1)
        variance = np.maximum(total[:, 0] - given.noise * given.rows.single, 0.0)
        return cls(square, variance, given.noise * factors.single, np.ones(len(square)), residual.shape[1])

    def misfit(self, weights: np.ndarray) -> np.ndarray:
        """Misfit of every row once it is seen with these weights, the other rows being what they are."""
        noise = self.unit * weights / self.counts
        share = noise / (self.variance + noise)
        return (self.square * share**2 + self.outputs * self.variance * share) / self.unit

    def left_out(self) -> np.ndarray:
        """Misfit of every row from the function that has not seen it."""
        return self.square / self.unit


class OwnScaleLikelihood(ScaleLikelihood):
    r"""What one row says of its own scale, the function integrated out: $\rho \mid w \sim N(0, v + s^2 w)$.

    Args:
        square: $|\rho|^2$ over the readout variance, shape (n,).
        variance: v, shape (n,).
        unit: $s^2$, shape (n,).
        outputs: D.
    """

    square: Any
    variance: Any
    unit: Any
    outputs: int

    def log_prob_of_log(self, log_scale):
        xp = namespace(self, log_scale)
        total = self.variance + self.unit * xp.exp(log_scale)
        return -0.5 * (self.outputs * xp.log(2 * math.pi * total) + self.square / total)

    @property
    def log_peak(self):
        xp = namespace(self)
        rest = self.square / self.outputs - self.variance
        return xp.where(rest > 0, xp.log(xp.where(rest > 0, rest, 1.0) / self.unit), xp.nan)

    @property
    def tail_power(self):
        return namespace(self).full(jnp.shape(self.square), 0.5 * self.outputs)

    @property
    def batch_shape(self):
        return jnp.shape(self.square)
