"""Posteriors that are a known distribution."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from widetail._special import log_gamma_ratio
from widetail.mixing._likelihoods import ScaledNoiseLikelihood, ScaleLikelihood, gaussian_log_factor
from widetail.mixing._posterior import ScaleDiagnostics, ScalePosterior, exists
from widetail.mixing._quadrature import posterior_integral
from widetail.priors import InverseGamma, PointMass, ScalePrior

_NODES = 128


class ClosedPosterior(ScalePosterior):
    """A posterior that is an inverse gamma distribution or a point mass, `law`."""

    law: InverseGamma | PointMass
    log_evidence: Any
    diagnostics: ScaleDiagnostics

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """See `ScalePosterior`."""
        return jnp.broadcast_shapes(*(jnp.shape(leaf) for leaf in jax.tree.leaves(self.law)))

    @property
    def tail_index(self) -> Float[Array, "*batch"]:
        """See `ScalePosterior`."""
        return jnp.broadcast_to(jnp.asarray(self.law.tail_index, float), self.batch_shape)

    def log_prob_of_log(self, log_scale: Float[Array, "..."]) -> Float[Array, "..."]:
        """See `ScalePosterior`."""
        return self.law.log_prob_of_log(log_scale)

    def below_log(self, log_scale: Float[Array, "..."]) -> Float[Array, "..."]:
        """See `ScalePosterior`."""
        return self.law.tails_of_log(log_scale)[0]

    def log_quantile(self, p: Float[Array, "..."]) -> Float[Array, "..."]:
        """See `ScalePosterior`."""
        return jnp.log(jnp.asarray(self.law.quantile(p), float))

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Float[Array, "..."]:
        """See `ScalePosterior`."""
        return self.law.draw_log(key, shape)

    def mean_and_var(self) -> tuple[Float[Array, "*batch"], Float[Array, "*batch"]]:
        """See `ScalePosterior`."""
        mean = jnp.broadcast_to(jnp.asarray(self.law.expectation(), float), self.batch_shape)
        if isinstance(self.law, PointMass):
            return mean, jnp.zeros_like(mean)
        has_mean, has_var = exists(1.0, self.tail_index), exists(2.0, self.tail_index)
        var = jnp.where(has_mean, mean, 0.0) ** 2 / (jnp.where(has_var, self.law.a, 3.0) - 2)
        return mean, jnp.where(has_var, var, jnp.where(has_mean, jnp.inf, jnp.nan))

    def log_nodes(self, refine: int = 1) -> tuple[Array, Array]:
        """See `ScalePosterior`."""
        if isinstance(self.law, PointMass):
            log_scale = jnp.log(jnp.asarray(self.law.v, float))[None]
            return log_scale, jnp.zeros_like(log_scale)
        no_data = ScaledNoiseLikelihood(0.0, jnp.zeros(self.batch_shape))
        integral = posterior_integral(self.law, no_data, nodes=_NODES * refine)
        return integral.points, integral.log_terms - integral.log_value

    def log_expected_gaussian(self, count: ArrayLike, quad: Float[Array, "..."]) -> Float[Array, "..."]:
        """See `ScalePosterior`."""
        if isinstance(self.law, PointMass):
            return gaussian_log_factor(jnp.log(self.law.v), count, quad)
        return log_inverse_gamma_integral(self.law.a, self.law.b, 0.5 * jnp.asarray(count, float), 0.5 * quad)


def closed_posterior(prior: ScalePrior, likelihood: ScaleLikelihood) -> ClosedPosterior | None:
    """The posterior in closed form, or None where there is no such form."""
    diagnostics = ScaleDiagnostics("closed", 0)
    if isinstance(prior, PointMass):
        v = jnp.broadcast_to(prior.v, jnp.broadcast_shapes(jnp.shape(prior.v), likelihood.batch_shape))
        evidence = likelihood.log_prob_of_log(jnp.log(v)[None])[0]
        return ClosedPosterior(law=PointMass(v), log_evidence=evidence, diagnostics=diagnostics)
    if isinstance(prior, InverseGamma) and isinstance(likelihood, ScaledNoiseLikelihood):
        half_count, half_quad = 0.5 * likelihood.count, 0.5 * likelihood.quad
        constant = half_count * math.log(2 * math.pi) + 0.5 * likelihood.log_det
        evidence = log_inverse_gamma_integral(prior.a, prior.b, half_count, half_quad) - constant
        law = InverseGamma(prior.a + half_count, prior.b + half_quad)
        return ClosedPosterior(law=law, log_evidence=evidence, diagnostics=diagnostics)
    return None


@jax.jit
def log_inverse_gamma_integral(a: Any, b: Any, half_count: Any, half_quad: Any) -> Array:
    """Log of the expectation of scale**-half_count * exp(-half_quad / scale) for InverseGamma(a, b)."""
    # log1p keeps the digits of a small quotient beside a large b
    return log_gamma_ratio(a, half_count) - half_count * jnp.log(b) - (a + half_count) * jnp.log1p(half_quad / b)
