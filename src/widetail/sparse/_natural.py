"""Natural-gradient ascent of the bound on cached features."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
from numpy.polynomial import Chebyshev

from widetail.sparse._draws import Nodes, nodes_of
from widetail.sparse._rows import (
    Rows,
    Totals,
    spills,
    totals,
    value_and_slope,
    values,
    values_at,
    variances,
)
from widetail.sparse._scale import LARGEST_STEP
from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Likelihood

MEAN_ITERATIONS = 20
SCALE_ROWS = 16_384  # for likelihoods whose expectations are taken by draws, the scale is learned from this many rows
SCALE_NODES = 8


class Sites(NamedTuple):
    """What is remembered of rows that are no longer there: a Gaussian factor per output.

    Attributes:
        precision: of the whitened inducing variables, whatever the scale, shape (outputs, inducing, inducing).
        shift: precision times mean, shape (outputs, inducing).
        spill: how fast the expected log likelihood falls with the scale beyond the inducing variables.
        observations: how many rows.
    """

    precision: Any
    shift: Any
    spill: float
    observations: float

    @classmethod
    def none(cls, outputs: int, inducing: int) -> "Sites":
        """Nothing was seen."""
        return cls(np.zeros((outputs, inducing, inducing)), np.zeros((outputs, inducing)), 0.0, 0.0)


@dataclasses.dataclass(frozen=True, eq=False)
class Ascent:
    """What stays the same while a bound is maximised.

    Attributes:
        rows: cached features and targets.
        sites: of rows that were seen before.
        seed: of the draws of f.
    """

    rows: Rows
    sites: Sites
    seed: int = 0

    def nodes(self, q: Variational, likelihood: Likelihood) -> Nodes:
        """For expectations under q."""
        return nodes_of(q.law, likelihood, len(q.mean), self.seed, self.rows.features.dtype)

    def bound(self, q: Variational, likelihood: Likelihood, variance: np.ndarray | None = None) -> float:
        """The evidence lower bound, in nats; with sites, up to a constant."""
        variance = variances(self.rows, q) if variance is None else variance
        expected = values(self.rows, q.mean, variance, likelihood, self.nodes(q, likelihood))
        return expected - q.divergence + self._remembered(q)

    def _remembered(self, q: Variational) -> float:
        """Expected log of the sites."""
        if not self.sites.observations:
            return 0.0
        by_mean = np.sum((self.sites.shift - 0.5 * _times(self.sites.precision, q.mean)) * q.mean)
        return float(by_mean) - 0.5 * self._spread_of_sites(q) / q.law.mean_precision

    def totals(self, q: Variational, likelihood: Likelihood, variance: np.ndarray) -> Totals:
        """Sums over all rows at q."""
        return totals(self.rows, q, variance, likelihood, self.nodes(q, likelihood))

    def step(self, q: Variational, found: Totals, rate: float) -> Variational:
        r"""One natural-gradient step of means and covariances together.

        $S^{-1} \leftarrow (1 - \rho) S^{-1} + \rho\,(I + \sum_x \mathbb E[-\beta \ell''] a_x a_x^\top)$, and
        $m \leftarrow m + \rho\, S\, \nabla_m / \mathbb E[1/\beta]$ with the new S. With $\rho = 1$ it ends at the
        optimum when the likelihood is Gaussian.
        """
        better = self.covariance_step(q, found.curvature, rate)
        precision = q.law.mean_precision
        gradient = found.slope + self.sites.shift - precision * q.mean - _times(self.sites.precision, q.mean)
        natural = _times(np.swapaxes(better.root, 1, 2), _times(better.root, gradient)) / precision
        return better.with_mean(q.mean + rate * natural)

    def covariance_step(self, q: Variational, curvature: np.ndarray, rate: float) -> Variational:
        """The step of the covariances alone; shortened until they are positive definite."""
        target = np.eye(q.mean.shape[1]) + self.sites.precision / q.law.mean_precision + curvature
        while True:
            try:
                return q.with_precision((1 - rate) * q.precision + rate * target)
            except np.linalg.LinAlgError:
                # log densities that are not concave may pull too far, but not by a short step
                rate *= 0.5
                if rate < 1e-6:
                    raise

    def mean_optimum(
        self, q: Variational, likelihood: Likelihood, variance: np.ndarray, iterations: int = MEAN_ITERATIONS
    ) -> Variational:
        """The best means for the covariances and the law of q: L-BFGS in coordinates in which S is the identity.

        Its first direction is the natural gradient; the memory of the next ones corrects for what a covariance per
        output leaves out, the curvature between outputs.
        """
        nodes, precision = self.nodes(q, likelihood), q.law.mean_precision
        transposed = np.swapaxes(q.root, 1, 2) / np.sqrt(precision)

        def loss(change: np.ndarray) -> tuple[float, np.ndarray]:
            mean = q.mean + _times(transposed, change.reshape(q.mean.shape))
            value, slope = value_and_slope(self.rows, mean, variance, likelihood, nodes)
            pull = precision * mean + _times(self.sites.precision, mean)
            value += float(np.sum((self.sites.shift - 0.5 * pull) * mean))
            slope = slope + self.sites.shift - pull
            return -value, -_times(np.swapaxes(transposed, 1, 2), slope).ravel()

        found: Any = scipy.optimize.minimize(
            loss,
            np.zeros(q.mean.size),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": iterations, "maxfun": 2 * iterations, "ftol": 1e-9, "maxcor": 15},
        )
        return q.with_mean(q.mean + _times(transposed, found.x.reshape(q.mean.shape)))

    def law_optimum(self, q: Variational, likelihood: Likelihood, variance: np.ndarray) -> Variational:
        """The best law of the scale for the means and covariances of q."""
        return q.with_law(q.law.improved(self.fit_of_scale(q, likelihood, variance), q.quad))

    def fit_of_scale(
        self, q: Variational, likelihood: Likelihood, variance: np.ndarray
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Expected log likelihood as a function of the log of the scale, near the current law.

        A Chebyshev interpolant: the function is analytic, and a dozen of its values give all digits that matter.
        """
        low, high = (q.law.log_range[0] - 1.05 * LARGEST_STEP, q.law.log_range[1] + 1.05 * LARGEST_STEP)
        rows, factor = self.rows, 1.0
        if likelihood.couples_outputs and len(rows) > SCALE_ROWS:
            rows = rows.first(SCALE_ROWS)
            factor = self.rows.observations / rows.observations
        variance = variance[: len(rows)]
        outputs, dtype = len(q.mean), rows.features.dtype
        table = nodes_of(q.law, likelihood, outputs, self.seed, dtype).table
        one = np.swapaxes(table, 0, 1).reshape(1, table.shape[1], -1, outputs) if table.size else table[:1]

        def at(t: np.ndarray) -> np.ndarray:
            expected = values_at(rows, q.mean, variance, likelihood, np.exp(t), one)
            return factor * expected - 0.5 * self._spread_of_sites(q) * np.exp(t)

        # a multiple of one number, so that few shapes are compiled
        count = SCALE_NODES * max(1, math.ceil((2.5 * (high - low) + 3) / SCALE_NODES))
        interpolant = Chebyshev.interpolate(at, count - 1, domain=[low, high])
        # a polynomial is nothing outside of its domain; laws that reach beyond it have next to no weight there
        return lambda t: interpolant(np.clip(t, low, high))

    def _spread_of_sites(self, q: Variational) -> float:
        if not self.sites.observations:
            return 0.0
        return float(np.sum(self.sites.precision * q.covariance) + self.sites.spill)

    def remember(self, q: Variational, likelihood: Likelihood, variance: np.ndarray | None = None) -> Sites:
        """The sites of all rows, these and those before, for a later ascent without them."""
        variance = variances(self.rows, q) if variance is None else variance
        spill = spills(self.rows, q.mean, variance, likelihood, self.nodes(q, likelihood))
        observations = self.sites.observations + self.rows.observations
        return sites_of(q, self.sites.spill + q.law.mean_precision * spill, observations)


def sites_of(q: Variational, spill: float, observations: float) -> Sites:
    """What q says beyond the prior, as Gaussian factors."""
    per_scale = q.law.mean_precision
    precision = per_scale * (q.precision - np.eye(q.mean.shape[1]))
    return Sites(precision, per_scale * _times(q.precision, q.mean), spill, observations)


def _times(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return np.einsum("cmk,ck->cm", matrices, vectors, optimize=True)
