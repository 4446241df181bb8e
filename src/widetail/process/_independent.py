"""Exact posterior with the noise outside of the scale: one eigendecomposition."""

import dataclasses
import functools
import time
import warnings
from typing import Any

import numpy as np
import scipy.linalg

from widetail.checks import like_targets, two_dimensional
from widetail.kernels import Kernel
from widetail.mixing import IndependentNoiseLikelihood, QuadraturePosterior, ScalePosterior, scale_posterior
from widetail.numerics import threads_for
from widetail.predictive import Normal, NormalMixture, Predictive
from widetail.priors import ScalePrior
from widetail.process._adapter import CallableKernel
from widetail.process._base import Diagnostics, LeftOut, Posterior, as_double, check_new, covariance_of
from widetail.process._influence import Influence
from widetail.process._options import Inference
from widetail.process._rows import RowFactors
from widetail.progress import Progress

# Nodes beyond which lies less than this may be as far apart as they like, the others as far as this; with ten times
# the nodes, laws that are heavier still are as good as they can be made.
_RAREST = 1e-14
_WIDEST_GAP = 0.6
_MOST_REFINED = 10

_MANY_ROWS = 5000  # whose eigenvectors take minutes
_FEW_ROWS = 500


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class IndependentPosterior(Posterior):
    r"""Posterior of $Y_d \mid \beta \sim N(0, \beta \bar K + S)$, $S = s^2 W$, $\beta \sim$ prior.

    With $S^{-1/2} \bar K S^{-1/2} = U \Lambda U^\top$ everything is diagonal in U for every $\beta$ at once.
    """

    kernel: Kernel | CallableKernel
    prior: ScalePrior
    noise: float
    inference: Inference
    x: Any
    y: np.ndarray
    rows: RowFactors
    eigenvalues: np.ndarray
    vectors: np.ndarray
    rotated: np.ndarray  # U^T S^{-1/2} Y, shape (n, outputs)
    likelihood: IndependentNoiseLikelihood
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
    ) -> "IndependentPosterior":
        """Diagonalise the kernel and condition the scale on the targets."""
        matrix = covariance_of(kernel, x, progress)
        return cls._from_matrix(kernel, prior, noise, inference, x, y, rows, matrix)

    @classmethod
    def _from_matrix(cls, kernel, prior, noise, inference, x, y, rows, matrix) -> "IndependentPosterior":
        root = np.sqrt(noise * rows.factors)
        matrix /= root[:, None]
        matrix /= root
        if len(matrix) > _MANY_ROWS:
            _warn_of_cost(len(matrix))
        with threads_for(4 * len(matrix) ** 3):
            eigenvalues, vectors = scipy.linalg.eigh(matrix, overwrite_a=True, check_finite=False, driver="evd")
        eigenvalues = _without_rounding(eigenvalues)
        targets = two_dimensional(y)
        rotated = vectors.T @ (targets / root[:, None])
        squares = rotated**2
        log_det = 2 * np.sum(np.log(root)) + rows.repeated_log_det(noise) + rows.repeats * np.log(2 * np.pi)
        if inference.per_output:
            likelihood = IndependentNoiseLikelihood(eigenvalues, 1.0, squares, 1, log_det)
        else:
            outputs = targets.shape[1]
            likelihood = IndependentNoiseLikelihood(eigenvalues, 1.0, squares.sum(1), outputs, outputs * log_det)
        scale = scale_posterior(prior, likelihood, inference.method, **inference.options)
        evidence = float(np.sum(scale.log_evidence))
        return cls(
            kernel, prior, noise, inference, x, y, rows, eigenvalues, vectors, rotated, likelihood, scale, evidence
        )

    @property
    def diagnostics(self) -> Diagnostics:
        """No jitter is ever needed: the noise is positive."""
        return Diagnostics(0.0, self.scale.diagnostics)

    def update(self, x: Any, y: Any, *, noise_weights: Any = None, counts: Any = None) -> "IndependentPosterior":
        """The posterior with more rows. Old kernel values are reused; the eigendecomposition is made anew."""
        more = self._more_rows(x, y, noise_weights, counts)
        corner = as_double(self.kernel.kernel(more.new_x, get="nngp").nngp)
        root = np.sqrt(self.noise * self.rows.factors)
        old = (self.vectors * self.eigenvalues) @ self.vectors.T * root[:, None] * root
        cross = as_double(self.kernel.kernel(self.x, more.new_x, get="nngp").nngp)
        matrix = np.block([[old, cross], [cross.T, corner]])
        given = (self.kernel, self.prior, self.noise, self.inference)
        return self._from_matrix(*given, more.x, more.y, more.rows, matrix)

    def _at_median_scale(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The location depends on the scale a little. With it at its posterior median and A the covariance of y:

        The scale (1 or outputs, 1), eigenvectors (n, n) and eigenvalues (1 or outputs, n) of A^{-1} in units of the
        noise, and A^{-1} y (n, outputs).
        """
        scale = np.reshape(np.asarray(self.scale.quantile(0.5)), (-1, 1))
        vectors = self.vectors / np.sqrt(self.noise * self.rows.factors)[:, None]
        shrunk = 1 / (scale * self.eigenvalues + 1)
        weights = np.einsum("in,dn,nd->id", vectors, np.broadcast_to(shrunk, self.rotated.T.shape), self.rotated)
        return scale, vectors, shrunk, weights

    def location(self, x_new: Any) -> np.ndarray:
        cross = as_double(self.kernel.kernel(check_new(self.kernel, self.x, x_new), self.x, get="nngp").nngp)
        return like_targets(cross @ self._mean_weights, self.y)

    @functools.cached_property
    def _mean_weights(self) -> np.ndarray:
        """What the mean of f at new rows multiplies k(x_new, x) with, averaged over the scale, shape (n, outputs)."""
        scales, log_weights = (np.asarray(part) for part in self.scale.nodes(_refinement(self.scale)))
        scales, shares = (part.reshape(len(scales), -1) for part in (scales, np.exp(log_weights)))
        gain = self._gain(scales)
        mean_gain = np.einsum("jd,jdn->nd", np.broadcast_to(shares, gain.shape[:2]), gain)
        return self.vectors @ (mean_gain * self.rotated) / np.sqrt(self.noise * self.rows.factors)[:, None]

    def _gain(self, scales: np.ndarray) -> np.ndarray:
        """scale / (scale * eigenvalue + 1), without overflow for the largest scales; shape (nodes, 1 or outputs, n)."""
        with np.errstate(over="ignore"):
            return 1 / (self.eigenvalues + 1 / scales[..., None])

    def influence(self, x_new: Any) -> Influence:
        x_new = check_new(self.kernel, self.x, x_new)
        scale, vectors, shrunk, weights = self._at_median_scale()
        cross = as_double(self.kernel.kernel(x_new, self.x, get="nngp").nngp)
        gain = scale * shrunk  # (1 or outputs, n)
        turned = cross @ vectors
        reach = np.einsum("in,dn,mn->imd", vectors, gain, turned, optimize=True)
        own = np.asarray(self.kernel.diagonal(x_new, get="nngp").nngp, dtype=np.float64)
        variance = np.maximum(own[:, None] - np.einsum("mn,dn->md", turned**2, gain), 0.0) * scale.T + self.noise
        precision = np.einsum("in,dn->id", vectors**2, shrunk) + self.rows.other_precision(self.noise)[:, None]
        location = scale.T * (cross @ weights)
        return Influence(location, variance, weights, precision, reach)

    def left_out(self) -> LeftOut:
        _, vectors, shrunk, weights = self._at_median_scale()
        precision = np.einsum("in,dn->id", vectors**2, shrunk)
        residual, variance = self.rows.left_out(weights, precision, self.noise)
        scale = np.sqrt(np.broadcast_to(variance, weights.shape))
        return LeftOut(self.y - like_targets(residual, self.y), like_targets(scale, self.y))

    def _predict(self, x_new: Any, *, with_noise: bool) -> Predictive:
        x_new = check_new(self.kernel, self.x, x_new)
        root = np.sqrt(self.noise * self.rows.factors)
        cross = as_double(self.kernel.kernel(x_new, self.x, get="nngp").nngp) / root
        cross = cross @ self.vectors  # (m, n), in the eigenvectors
        own = np.asarray(self.kernel.diagonal(x_new, get="nngp").nngp, dtype=np.float64)
        extra = self.noise if with_noise else 0.0
        scales, log_weights = (np.asarray(part) for part in self.scale.nodes(_refinement(self.scale)))
        per_scale = scales.reshape(scales.shape[0], -1)  # (nodes, 1) or (nodes, outputs)
        gain = self._gain(per_scale)
        outputs = self.rotated.shape[1]
        weights = np.broadcast_to(gain, (len(scales), outputs, len(self.y))) * self.rotated.T
        location = np.einsum("mn,jdn->jmd", cross, weights, optimize=True)
        reduction = np.einsum("mn,jdn->jmd", cross**2, gain, optimize=True)
        dispersion = np.maximum(own[:, None] - reduction, 0.0) * per_scale[:, None, :] + extra
        if not self.inference.per_output:
            dispersion = dispersion[..., 0]

        def matrix(node: int) -> np.ndarray:
            reduced = np.einsum("mn,dn,kn->dmk", cross, gain[node], cross, optimize=True)
            covariance = as_double(self.kernel.kernel(x_new, get="nngp").nngp) - reduced
            covariance = covariance * per_scale[node][:, None, None] + extra * np.eye(len(own))
            return covariance if self.inference.per_output else covariance[0]

        location = like_targets(location, self.y)
        if len(scales) == 1 and not self.inference.per_output:
            return Normal(location[0], dispersion[0], lambda: matrix(0))
        if self.inference.per_output and self.y.ndim == 1:
            log_weights, dispersion = log_weights.reshape(len(scales)), dispersion[..., 0]
            return NormalMixture(log_weights, location, dispersion, lambda j: matrix(j)[0], self.scale.tail_index)
        return NormalMixture(log_weights, location, dispersion, matrix, self.scale.tail_index)


def _warn_of_cost(n: int) -> None:
    """Say how long the eigenvectors of n rows take, by those of few."""
    few = np.ones((_FEW_ROWS, _FEW_ROWS)) + np.diag(np.arange(float(_FEW_ROWS)))
    seconds = []
    for _ in range(3):  # the fastest: what else the machine does at the moment would count a thousand times
        began = time.perf_counter()
        scipy.linalg.eigh(few, check_finite=False, driver="evd")
        seconds.append(time.perf_counter() - began)
    minutes = min(seconds) * (n / _FEW_ROWS) ** 3 / 60
    warnings.warn(
        f"IndependentNoise needs all eigenvectors of a {n} x {n} matrix: about {minutes:.0f} minutes on this machine. "
        f"With ScaledNoise a factorisation is enough, which is some twenty times faster.",
        stacklevel=2,
    )


def _refinement(scale: ScalePosterior) -> int:
    """How many times more nodes probabilities of 1e-12 need: those far out in a heavy tail lie far apart.

    Given the logarithm of the scale, a probability of y is a step of width one, which wider gaps do not resolve.
    """
    if not isinstance(scale, QuadraturePosterior):
        return 1
    points, log_weights = (np.asarray(part) for part in scale.log_nodes())
    above = np.cumsum(np.exp(log_weights)[::-1], axis=0)[::-1]
    gaps = np.where((above[1:] > _RAREST) & (above[1:] < 0.5), np.diff(points, axis=0), 0.0)
    return int(np.clip(np.ceil(np.max(gaps) / _WIDEST_GAP), 1, _MOST_REFINED))


def _without_rounding(eigenvalues: np.ndarray) -> np.ndarray:
    """Clip what is negative by rounding; refuse what is negative for other reasons."""
    smallest, largest = float(eigenvalues[0]), float(eigenvalues[-1])
    if smallest < -1e-6 * max(largest, np.finfo(float).tiny):
        raise np.linalg.LinAlgError(
            f"The kernel matrix is not positive semi-definite: its smallest eigenvalue is {smallest:.3g}, its largest "
            f"{largest:.3g}. With a kernel of your own, check that it is symmetric and positive semi-definite."
        )
    return np.maximum(eigenvalues, 0.0)
