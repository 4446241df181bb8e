"""Posteriors that are a known distribution."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from widetail.mixing._likelihoods import ScaledNoiseLikelihood, ScaleLikelihood, gaussian_log_factor
from widetail.mixing._posterior import ScaleDiagnostics, ScalePosterior, where_they_exist
from widetail.mixing._quadrature import posterior_integral
from widetail.numerics import namespace
from widetail.numerics.special import betaln, gammaln
from widetail.priors import InverseGamma, PointMass, ScalePrior, Values

_NODES = 128


class ClosedPosterior(ScalePosterior):
    """A posterior that is an inverse gamma distribution or a point mass, `law`."""

    law: InverseGamma | PointMass
    log_evidence: Any
    diagnostics: ScaleDiagnostics

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return jnp.broadcast_shapes(*(jnp.shape(leaf) for leaf in jax.tree.leaves(self.law)))

    @property
    def tail_index(self) -> Values:
        tail_index = self.law.tail_index
        return namespace(tail_index).broadcast_to(tail_index, self.batch_shape)

    def log_prob_of_log(self, log_scale: Values) -> Values:
        return self.law.log_prob_of_log(log_scale)

    def below_log(self, log_scale: Values) -> Values:
        return self.law.tails_of_log(log_scale)[0]

    def log_quantile(self, p: Values) -> Values:
        return self.law.log_quantile(p)

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Values:
        return self.law.draw_log(key, shape)

    def mean_and_var(self) -> tuple[Values, Values]:
        xp = namespace(self)
        mean = xp.broadcast_to(self.law.expectation(), self.batch_shape)
        if isinstance(self.law, PointMass):
            return mean[()], xp.zeros(self.batch_shape)[()]
        # Where there is no variance the formula is replaced; the detour keeps its gradient finite.
        safe_mean = xp.where(self.law.a > 1, mean, 0.0)
        var = safe_mean**2 / (xp.where(self.law.a > 2, self.law.a, 3.0) - 2)
        return where_they_exist(mean, var, self.tail_index)

    def expected_precision(self) -> Values:
        precision = 1 / self.law.v if isinstance(self.law, PointMass) else self.law.a / self.law.b
        return namespace(self).broadcast_to(precision, self.batch_shape)[()]

    def log_nodes(self, refine: int = 1) -> tuple[Values, Values]:
        if isinstance(self.law, PointMass):
            log_scale = namespace(self).log(self.law.v)[None]
            return log_scale, 0.0 * log_scale
        no_data = ScaledNoiseLikelihood(0.0, np.zeros(self.batch_shape))
        integral = posterior_integral(self.law, no_data, nodes=_NODES * refine)
        return integral.points, integral.log_terms - integral.log_value

    def log_expected_gaussian(self, count: ArrayLike, quad: Values) -> Values:
        if isinstance(self.law, PointMass):
            return gaussian_log_factor(namespace(self, quad).log(self.law.v), count, quad)
        return log_inverse_gamma_integral(self.law.a, self.law.b, 0.5 * count, 0.5 * quad)


def closed_posterior(prior: ScalePrior, likelihood: ScaleLikelihood) -> ClosedPosterior | None:
    """The posterior in closed form, or None where there is no such form."""
    diagnostics = ScaleDiagnostics("closed", 0)
    if isinstance(prior, PointMass):
        xp = namespace(prior, likelihood)
        v = xp.broadcast_to(prior.v, jnp.broadcast_shapes(jnp.shape(prior.v), likelihood.batch_shape))
        evidence = likelihood.log_prob_of_log(xp.log(v)[None])[0]
        return ClosedPosterior(law=PointMass(v), log_evidence=evidence, diagnostics=diagnostics)
    if isinstance(prior, InverseGamma) and isinstance(likelihood, ScaledNoiseLikelihood):
        half_count, half_quad = 0.5 * likelihood.count, 0.5 * likelihood.quad
        constant = half_count * math.log(2 * math.pi) + 0.5 * likelihood.log_det
        evidence = log_inverse_gamma_integral(prior.a, prior.b, half_count, half_quad) - constant
        law = InverseGamma(prior.a + half_count, prior.b + half_quad)
        return ClosedPosterior(law=law, log_evidence=evidence, diagnostics=diagnostics)
    return None


def log_inverse_gamma_integral(a: Any, b: Any, half_count: Any, half_quad: Any) -> Any:
    """Log of the expectation of scale**-half_count * exp(-half_quad / scale) for InverseGamma(a, b)."""
    xp = namespace(a, b, half_count, half_quad)
    # betaln and log1p keep the digits of a small difference beside a large a or b.
    counted = half_count > 0
    h = xp.where(counted, half_count, 1.0)
    log_gamma_ratio = xp.where(counted, gammaln(h) - betaln(a, h), 0.0)
    return log_gamma_ratio - half_count * xp.log(b) - (a + half_count) * xp.log1p(half_quad / b)
