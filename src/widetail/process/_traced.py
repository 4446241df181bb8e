"""Posteriors inside of jax.jit, grad and vmap: the same numbers, by the linear algebra of JAX.

Outside of a transformation the covariance is factored in place by LAPACK, in float64. Inside there are only whole
arrays, in the precision of the user's flag, and no way to look at a value: a covariance that cannot be factored gives a
log evidence of minus infinity instead of an error.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from widetail.mixing import (
    IndependentNoiseLikelihood,
    ScaledNoiseLikelihood,
    ScaleLikelihood,
    ScalePosterior,
    scale_posterior,
)
from widetail.numerics import cholesky_in_jax
from widetail.predictive import NormalMixture, Predictive, from_scale
from widetail.process._base import Posterior
from widetail.process._noise import ScaledNoise


class TracedPosterior(eqx.Module):
    """A process conditioned on data inside of a transformation; predicts like any posterior.

    Attributes:
        process, x, y, noise: what it was conditioned with; the noise variance of each row.
        scale: posterior of the readout variance.
        log_evidence: log density of the targets under the model, in nats.
    """

    process: Any
    x: Any
    y: Any
    noise: Any
    scale: ScalePosterior
    log_evidence: Any

    def __call__(self, x_new: Any) -> Predictive:
        """The predictive distribution of y at the rows of `x_new`."""
        return self._predict(x_new, jnp.asarray(self.process.noise.variance))

    def f(self, x_new: Any) -> Predictive:
        """The predictive distribution of the noise-free function at the rows of `x_new`."""
        return self._predict(x_new, 0.0)

    def _predict(self, x_new: Any, extra: Any) -> Predictive:
        kernel = self.process.kernel
        k_xx = jnp.asarray(kernel.kernel(self.x, get="nngp").nngp)
        k_xt = jnp.asarray(kernel.kernel(self.x, x_new, get="nngp").nngp)
        own = jnp.asarray(kernel.diagonal(x_new, get="nngp").nngp)

        def moments(scale: Any) -> tuple[Any, Any]:
            chol = cholesky_in_jax(scale * k_xx + jnp.diag(self.noise))
            half = _solve(chol, scale * k_xt)
            location = jnp.tensordot(half, _solve(chol, self.y), axes=(0, 0))
            return location, jnp.maximum(scale * own - jnp.sum(half**2, axis=0), 0) + extra

        if isinstance(self.process.noise, ScaledNoise):
            return from_scale(self.scale, *moments(1.0))
        scales, log_weights = self.scale.nodes()
        location, dispersion = jax.lax.map(moments, jnp.asarray(scales))
        return NormalMixture(log_weights, location, dispersion, tail_index=self.scale.tail_index)


Posterior.register(TracedPosterior)  # an equinox module cannot derive from it, and has less


def traced_posterior(process: Any, x: Any, y: Any, noise_weights: Any = None) -> TracedPosterior:
    """Condition on targets of shape (n,) or (n, outputs), at the cost of one factorisation.

    With noise outside of the scale every value of the scale that the quadrature asks for is a factorisation of its
    own, some hundreds of them; eigenvectors, which serve all of them at once, have no derivatives where eigenvalues
    meet.
    """
    x, y = jnp.asarray(x), jnp.asarray(y, float)
    if y.ndim not in (1, 2) or y.shape[0] != x.shape[0]:
        raise ValueError(f"y must have shape (n,) or (n, outputs) with n = {x.shape[0]}, the rows of x; got {y.shape}.")
    per_output = process.scale_sharing == "per_output"
    is_scaled = isinstance(process.noise, ScaledNoise)
    if per_output and not is_scaled:
        raise ValueError(
            "scale_sharing='per_output' with IndependentNoise is not for jit, grad or vmap; use ScaledNoise."
        )
    weights = 1.0 if noise_weights is None else jnp.asarray(noise_weights)
    noise = jnp.broadcast_to(jnp.asarray(process.noise.variance) * weights, y.shape[:1])
    k_xx = jnp.asarray(process.kernel.kernel(x, get="nngp").nngp)
    likelihood: ScaleLikelihood
    if is_scaled:
        chol = cholesky_in_jax(k_xx + jnp.diag(noise))
        squares = jnp.sum(_solve(chol, y) ** 2, axis=0)
        log_det = 2 * jnp.sum(jnp.log(jnp.diagonal(chol)))
        is_factored = jnp.isfinite(log_det)
        outputs = math.prod(y.shape[1:])
        quad = squares if per_output else jnp.sum(squares)
        shared = 1 if per_output else outputs
        likelihood = ScaledNoiseLikelihood(shared * y.shape[0], quad, shared * log_det)
    else:
        likelihood = _FactoredLikelihood(k_xx, noise, y.reshape(len(y), -1))
        is_factored = jnp.all(jnp.isfinite(k_xx))
    scale = scale_posterior(process.prior_scale, likelihood)
    evidence = jnp.sum(jnp.asarray(scale.log_evidence))
    evidence = jnp.where(is_factored & ~jnp.isnan(evidence), evidence, -jnp.inf)
    return TracedPosterior(process, x, y, noise, scale, evidence)


class _FactoredLikelihood(ScaleLikelihood):
    """Noise outside of the scale, by a factorisation at every scale."""

    k_xx: Any
    noise: Any
    y: Any  # (n, outputs)

    def log_prob_of_log(self, log_scale):
        def at(log_scale: Any) -> Any:
            chol = cholesky_in_jax(jnp.exp(log_scale) * self.k_xx + jnp.diag(self.noise))
            log_det = 2 * jnp.sum(jnp.log(jnp.diagonal(chol)))
            quad = jnp.sum(_solve(chol, self.y) ** 2)
            return -0.5 * (quad + self.y.shape[1] * log_det + self.y.size * math.log(2 * math.pi))

        flat = jax.lax.map(at, jnp.ravel(log_scale))
        return jnp.where(jnp.isnan(flat), -jnp.inf, flat).reshape(jnp.shape(log_scale))

    @property
    def log_peak(self):
        return self._like.log_peak

    @property
    def tail_power(self):
        return self._like.tail_power

    @property
    def batch_shape(self):
        return ()

    @property
    def _like(self) -> IndependentNoiseLikelihood:
        """What tells where to look: as if the kernel were diagonal."""
        squares = jnp.sum(self.y**2, axis=1)
        return IndependentNoiseLikelihood(jnp.diagonal(self.k_xx), self.noise, squares, self.y.shape[1])


def _solve(chol: Any, right: Any) -> Any:
    return jax.scipy.linalg.solve_triangular(chol, right, lower=True)
