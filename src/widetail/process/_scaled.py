"""Exact posterior with the noise inside the scale: one Cholesky factorisation."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.linalg
from jaxtyping import Array, PRNGKeyArray

from widetail.checks import like_targets, two_dimensional
from widetail.kernels import Kernel
from widetail.mixing import ScaledNoiseLikelihood, ScalePosterior, scale_posterior
from widetail.numerics import CholeskyFactor
from widetail.predictive import Predictive, from_scale
from widetail.priors import ScalePrior
from widetail.process._adapter import CallableKernel
from widetail.process._base import Diagnostics, LeftOut, Posterior, as_double, check_new, covariance_of
from widetail.process._draw import FunctionDraw
from widetail.process._influence import Influence
from widetail.process._options import Inference
from widetail.process._rows import RowFactors, warn_of_contradictions
from widetail.progress import Progress

# Of a kernel whose values are around one: as good as none.
NEARLY_NO_NOISE = 1e-10

(_dgemm,) = scipy.linalg.get_blas_funcs(("gemm",), dtype=np.float64)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ScaledPosterior(Posterior):
    r"""Posterior of $Y_d \mid \beta \sim N(0, \beta A)$, $A = \bar K + s^2 W$, $\beta \sim$ prior."""

    kernel: Kernel | CallableKernel
    prior: ScalePrior
    noise: float
    inference: Inference
    x: Any
    y: np.ndarray
    rows: RowFactors
    factor: Any  # a CholeskyFactor, or what solves on a cluster in its place
    weights: np.ndarray  # A^{-1} Y, shape (n, outputs)
    likelihood: ScaledNoiseLikelihood
    scale: ScalePosterior
    log_evidence: float

    @classmethod
    def condition(
        cls,
        kernel: Kernel | CallableKernel,
        prior: ScalePrior,
        noise: float,
        inference: Inference,
        x: Any,
        y: np.ndarray,
        rows: RowFactors,
        progress: Progress = False,
    ) -> "ScaledPosterior":
        """Factor the covariance of the targets and condition the scale on them."""
        matrix = covariance_of(kernel, x, progress)
        add_to_diagonal(matrix, noise * rows.factors)
        return cls._from_factor(kernel, prior, noise, inference, x, y, rows, CholeskyFactor.of(matrix, progress))

    @classmethod
    def _from_factor(cls, kernel, prior, noise, inference, x, y, rows, factor) -> "ScaledPosterior":
        if noise <= NEARLY_NO_NOISE or factor.jitter > noise:
            warn_of_contradictions(x, y)
        whitened = factor.solve_lower(two_dimensional(y))
        quad = np.sum(whitened**2, axis=0)
        likelihood = scale_likelihood(quad, factor.log_det(), rows, noise, inference)
        scale = scale_posterior(prior, likelihood, inference.method, **inference.options)
        weights = factor.solve_upper(whitened)
        evidence = float(np.sum(scale.log_evidence))
        return cls(kernel, prior, noise, inference, x, y, rows, factor, weights, likelihood, scale, evidence)

    @property
    def diagnostics(self) -> Diagnostics:
        """Jitter and accuracy."""
        return Diagnostics(self.factor.jitter, self.scale.diagnostics)

    def update(self, x: Any, y: Any, *, noise_weights: Any = None, counts: Any = None) -> "ScaledPosterior":
        """The posterior with m rows more, at a cost of n^2 m instead of (n + m)^3."""
        more = self._more_rows(x, y, noise_weights, counts)
        corner = as_double(self.kernel.kernel(more.new_x, get="nngp").nngp)
        add_to_diagonal(corner, self.noise * more.new_rows.factors)
        factor = self.factor.extend(as_double(self.kernel.kernel(self.x, more.new_x, get="nngp").nngp), corner)
        given = (self.kernel, self.prior, self.noise, self.inference)
        return self._from_factor(*given, more.x, more.y, more.rows, factor)

    def with_prior(self, prior: ScalePrior) -> "ScaledPosterior":
        """The posterior under another prior of the readout variance, at next to no cost: the factor is shared.

        Example:
            >>> import numpy as np, widetail as wt
            >>> x, y = np.linspace(0.0, 1.0, 5)[:, None], np.arange(5.0)
            >>> student = wt.ScaleMixture(wt.kernels.RBF(), wt.InverseGamma(2.0, 2.0)).posterior(x, y)
            >>> gaussian = wt.ScaleMixture(wt.kernels.RBF(), wt.PointMass(1.0)).posterior(x, y)
            >>> bool(np.isclose(student.with_prior(wt.PointMass(1.0)).log_evidence, gaussian.log_evidence))
            True
        """
        scale = scale_posterior(prior, self.likelihood, self.inference.method, **self.inference.options)
        return dataclasses.replace(self, prior=prior, scale=scale, log_evidence=float(np.sum(scale.log_evidence)))

    def draw(self, key: PRNGKeyArray | Array) -> FunctionDraw:
        """One function from the posterior: a callable whose values at any inputs fit together.

        Example:
            >>> import jax, numpy as np, widetail as wt
            >>> process = wt.ScaleMixture(wt.kernels.RBF())
            >>> x = np.linspace(0.0, 1.0, 5)[:, None]
            >>> function = process.posterior(x, np.sin(x[:, 0])).draw(jax.random.key(0))
            >>> first = function(np.array([[0.3], [2.0]]))
            >>> bool(np.allclose(function(np.array([[2.0]])), first[1:], atol=1e-4))
            True
        """
        scale_key, function_key = jax.random.split(key)
        beta = np.asarray(self.scale.sample(scale_key), dtype=np.float64)
        return FunctionDraw(self, np.sqrt(beta), function_key)

    def covariance(self, x1: Any, x2: Any = None) -> np.ndarray:
        """Posterior covariance of f per unit of readout variance, shape (m1, m2)."""
        solved1 = self._solved(x1)
        if x2 is None:
            return as_double(self.kernel.kernel(x1, get="nngp").nngp) - solved1.T @ solved1
        solved2 = self._solved(x2)
        return as_double(self.kernel.kernel(x1, x2, get="nngp").nngp) - solved1.T @ solved2

    def location(self, x_new: Any) -> np.ndarray:
        return like_targets(self._cross(check_new(self.kernel, self.x, x_new))[1], self.y)

    def left_out(self) -> LeftOut:
        residual, variance = self.rows.left_out(self.weights, self._precision, self.noise)
        scale = np.sqrt(np.broadcast_to(variance / self.scale.mean_precision, self.weights.shape))
        return LeftOut(self.y - like_targets(residual, self.y), like_targets(scale, self.y))

    def left_out_dist(self) -> Predictive:
        residual, variance = self.rows.left_out(self.weights, self._precision, self.noise)
        return from_scale(self.scale, self.y - like_targets(residual, self.y), variance[:, 0])

    @functools.cached_property
    def _precision(self) -> np.ndarray:
        """The diagonal of A^{-1}, shape (n, 1)."""
        return self.factor.inverse_diagonal()[:, None]

    def influence(self, x_new: Any) -> Influence:
        x_new = check_new(self.kernel, self.x, x_new)
        scale = np.reshape(1 / self.scale.mean_precision, (1, -1))  # (1, 1 or outputs)
        cross, location = self._cross(x_new)
        reach = self.factor.solve(cross.T)
        own = np.asarray(self.kernel.diagonal(x_new, get="nngp").nngp, dtype=np.float64)
        variance = np.maximum(own - np.einsum("mn,nm->m", cross, reach), 0.0) + self.noise
        precision = self._precision + self.rows.other_precision(self.noise)[:, None]
        return Influence(location, variance[:, None] * scale, self.weights / scale, precision / scale, reach[..., None])

    def pulls(self, x_new: Any) -> np.ndarray:
        """How much the location at new rows moves with each target: A^{-1} k(x, x_new), shape (n, m)."""
        cross = as_double(self.kernel.kernel(check_new(self.kernel, self.x, x_new), self.x, get="nngp").nngp)
        return self.factor.solve(cross.T)

    def pull(self, x_new: Any, weights: np.ndarray) -> np.ndarray:
        """k(x_new, x) times weights of shape (n, outputs), shape (m, outputs)."""
        return as_double(self.kernel.kernel(check_new(self.kernel, self.x, x_new), self.x, get="nngp").nngp) @ weights

    def _cross(self, x_new: Any) -> tuple[np.ndarray, np.ndarray]:
        """k(x_new, x), shape (m, n), and the location at x_new."""
        cross = as_double(self.kernel.kernel(x_new, self.x, get="nngp").nngp)
        # scipy's product, not numpy's: the threads of numpy's BLAS would spin through the solve that may follow
        return cross, _dgemm(1.0, cross.T, self.weights, trans_a=1)

    def _solved(self, x_new: Any) -> np.ndarray:
        """L^{-1} k(x, x_new), shape (n, m)."""
        cross = as_double(self.kernel.kernel(x_new, self.x, get="nngp").nngp)
        return self.factor.solve_lower(cross.T, overwrite=True)

    def _predict(self, x_new: Any, *, with_noise: bool) -> Predictive:
        parts = self.parts(x_new)
        extra = self.noise if with_noise else 0.0

        def matrix() -> np.ndarray:
            covariance = parts.matrix()
            add_to_diagonal(covariance, extra)
            return covariance

        return from_scale(self.scale, parts.location, lambda: parts.dispersion() + extra, matrix)

    def parts(self, x_new: Any) -> "Parts":
        """Location and covariance of f at new rows, per unit of readout variance."""
        x_new = check_new(self.kernel, self.x, x_new)
        cross, location = self._cross(x_new)

        # The solve costs n^2 m, the location n m: whoever wants the location alone does not pay for the rest.
        @functools.cache
        def solved() -> np.ndarray:
            return self.factor.solve_lower(cross.T, overwrite=True)

        def dispersion() -> np.ndarray:
            own = np.asarray(self.kernel.diagonal(x_new, get="nngp").nngp, dtype=np.float64)
            return np.maximum(own - np.einsum("nm,nm->m", solved(), solved()), 0.0)

        def matrix() -> np.ndarray:
            return as_double(self.kernel.kernel(x_new, get="nngp").nngp) - solved().T @ solved()

        return Parts(like_targets(location, self.y), dispersion, matrix)


class Parts(NamedTuple):
    """The function at new rows, per unit of readout variance.

    Attributes:
        location: shape (m,) or (m, outputs).
        dispersion: gives the variances, shape (m,).
        matrix: gives the covariance, shape (m, m), a new one at every call.
    """

    location: np.ndarray
    dispersion: Callable[[], np.ndarray]
    matrix: Callable[[], np.ndarray]


def scale_likelihood(
    quad: np.ndarray, log_det: float, rows: RowFactors, noise: float, inference: Inference
) -> ScaledNoiseLikelihood:
    r"""What the targets say of the scale.

    Args:
        quad: $y_d^\top A^{-1} y_d$ of every output, shape (outputs,).
        log_det: log determinant of A.
        rows: of the targets.
        noise: noise variance.
        inference: whether outputs share the scale.
    """
    n, outputs = rows.observations, len(quad)
    log_det = log_det + rows.repeated_log_det(noise)
    if inference.per_output:
        return ScaledNoiseLikelihood(n, quad, log_det)
    return ScaledNoiseLikelihood(n * outputs, quad.sum(), outputs * log_det)


def add_to_diagonal(matrix: np.ndarray, values: Any) -> None:
    """Add to the diagonal in place."""
    matrix[np.diag_indices_from(matrix)] += values
