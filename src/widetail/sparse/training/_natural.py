"""Natural-gradient ascent of the bound on cached features."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.polynomial import Chebyshev

from widetail.sparse._draws import Nodes, draws_of, nodes_of
from widetail.sparse._memory import Memory, times
from widetail.sparse._rows import (
    CachedRows,
    Totals,
    totals,
    value_and_slope,
    values,
    values_at,
    variances,
)
from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Likelihood
from widetail.sparse.scales._base import LARGEST_STEP

MEAN_ITERATIONS = 20
SCALE_ROWS = 16_384  # for likelihoods whose expectations are taken by draws, the scale is learned from this many rows
SCALE_NODES = 8


@dataclasses.dataclass(frozen=True, eq=False)
class Ascent:
    """The rows and settings of one maximisation.

    Attributes:
        rows: cached features and targets.
        memory: sums over rows that were seen before; those that it keeps are among `rows`.
        seed: of the draws of f.
    """

    rows: CachedRows
    memory: Memory
    seed: int = 0

    def nodes(self, q: Variational, likelihood: Likelihood) -> Nodes:
        """For expectations under q."""
        rows = self.rows
        return nodes_of(q.law, likelihood, len(q.mean), self.seed, rows.features.dtype, draws_of(len(rows)))

    def bound(self, q: Variational, likelihood: Likelihood, variance: np.ndarray | None = None) -> float:
        """The evidence lower bound, in nats; with rows that are remembered as Gaussian factors, up to a constant."""
        variance = variances(self.rows, q) if variance is None else variance
        expected = values(self.rows, q.mean, variance, likelihood, self.nodes(q, likelihood))
        return expected - q.divergence + self.memory.value(q, likelihood)

    def totals(self, q: Variational, likelihood: Likelihood, variance: np.ndarray) -> Totals:
        """Sums over all rows at q."""
        return totals(self.rows, q, variance, likelihood, self.nodes(q, likelihood))

    def covariance_step(
        self, q: Variational, likelihood: Likelihood, curvature: np.ndarray, rate: float
    ) -> Variational:
        r"""One natural-gradient step of the covariances; shortened until they are positive definite.

        $S^{-1} \leftarrow (1 - \rho) S^{-1} + \rho\,(I + \sum_x \mathbb E[-\beta \ell''] a_x a_x^\top)$.
        """
        remembered = self.memory.scale_per_noise(q.law, likelihood) * self.memory.gram
        target = np.eye(q.mean.shape[1]) + remembered + curvature
        while True:
            try:
                return q.with_precision((1 - rate) * q.precision + rate * target)
            except np.linalg.LinAlgError:
                # with log densities that are not concave only short steps stay positive definite
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
        per_noise = self.memory.per_noise(q.law, likelihood)
        if not len(self.rows) and self.memory.contrasts is None:
            return q.with_mean(self._mean_by_sums(precision, per_noise))
        shift = per_noise * self.memory.cross
        transposed = np.swapaxes(q.root, 1, 2) / np.sqrt(precision)

        def loss(change: np.ndarray) -> tuple[float, np.ndarray]:
            mean = q.mean + times(transposed, change.reshape(q.mean.shape))
            value, slope = value_and_slope(self.rows, mean, variance, likelihood, nodes)
            pull = precision * mean + per_noise * self.memory.pull(mean)
            value += float(np.sum((shift - 0.5 * pull) * mean))
            slope = slope + shift - pull
            return -value, -times(np.swapaxes(transposed, 1, 2), slope).ravel()

        found: Any = scipy.optimize.minimize(
            loss,
            np.zeros(q.mean.size),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": iterations, "maxfun": 2 * iterations, "ftol": 1e-9, "maxcor": 15},
        )
        mean = q.mean + times(transposed, found.x.reshape(q.mean.shape))
        if likelihood.only_differences and self.memory.only_differences:
            mean = mean - np.mean(mean, axis=0)  # the sum of the outputs depends on the prior alone
        return q.with_mean(mean)

    def _mean_by_sums(self, precision: float, per_noise: float) -> np.ndarray:
        """Where sums stand for all rows the bound is quadratic in the means."""
        inducing = self.memory.cross.shape[1]
        systems = precision * np.eye(inducing) + per_noise * self.memory.gram
        if len(systems) == 1:
            return scipy.linalg.solve(systems[0], per_noise * self.memory.cross.T, assume_a="pos").T
        return np.linalg.solve(systems, per_noise * self.memory.cross[..., None])[..., 0]

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
        table = nodes_of(q.law, likelihood, outputs, self.seed, dtype, draws_of(len(rows))).table
        one = np.swapaxes(table, 0, 1).reshape(1, table.shape[1], -1, outputs) if table.size else table[:1]

        def at(t: np.ndarray) -> np.ndarray:
            expected = values_at(rows, q.mean, variance, likelihood, np.exp(t), one)
            return factor * expected + self.memory.values_at(np.exp(t), q, likelihood)

        # a multiple of one number, so that few shapes are compiled
        count = SCALE_NODES * max(1, math.ceil((2.5 * (high - low) + 3) / SCALE_NODES))
        interpolant = Chebyshev.interpolate(at, count - 1, domain=[low, high])
        # the interpolant is not valid outside of its domain, where distributions have next to no weight
        return lambda t: interpolant(np.clip(t, low, high))

    @property
    def observations(self) -> float:
        """How many rows there are, with those that are remembered."""
        return self.rows.observations + self.memory.observations
