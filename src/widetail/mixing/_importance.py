"""The posterior of the readout variance by importance sampling, with the prior as proposal."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from widetail.mixing._likelihoods import ScaleLikelihood, gaussian_log_factor
from widetail.mixing._pareto import pareto_k
from widetail.mixing._posterior import ScaleDiagnostics, ScalePosterior, where_they_exist
from widetail.numerics import concrete, is_traced, namespace
from widetail.numerics.special import logsumexp
from widetail.priors import ScalePrior, Values

_RELIABLE_PARETO_K = 0.7
_RELIABLE_ESS = 100.0


class ImportanceWarning(UserWarning):
    """Too few draws carry the weight."""


class ImportancePosterior(ScalePosterior):
    """A posterior known through weighted draws of the prior."""

    prior: ScalePrior
    likelihood: ScaleLikelihood
    log_scales: Any
    log_weights: Any
    log_evidence: Any
    diagnostics: ScaleDiagnostics

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return jnp.shape(self.log_scales)[1:]

    @property
    def tail_index(self) -> Values:
        total = self.prior.tail_index + self.likelihood.tail_power
        return namespace(total).broadcast_to(total, self.batch_shape)

    def log_prob_of_log(self, log_scale: Values) -> Values:
        """The exact density over the estimated evidence."""
        xp = namespace(self, log_scale)
        shape = jnp.broadcast_shapes(log_scale.shape, self.batch_shape)
        points = xp.broadcast_to(log_scale, shape).reshape((-1, *self.batch_shape))
        density = self.prior.log_prob_of_log(points) + self.likelihood.log_prob_of_log(points)
        return (density - self.log_evidence).reshape(shape)

    def below_log(self, log_scale: Values) -> Values:
        """A step function."""
        xp = namespace(self, log_scale)
        draws = self.log_scales.reshape((-1,) + (1,) * (log_scale.ndim - len(self.batch_shape)) + self.batch_shape)
        weights = xp.exp(self.log_weights).reshape(draws.shape)
        return xp.sum(xp.where(draws <= log_scale, weights, 0.0), axis=0)

    def log_quantile(self, p: Values) -> Values:
        """Always one of the draws."""
        xp = namespace(self, p)
        order = xp.argsort(self.log_scales, axis=0)
        scales = xp.take_along_axis(self.log_scales, order, axis=0).reshape((len(order), -1))
        below = xp.cumsum(xp.take_along_axis(xp.exp(self.log_weights), order, axis=0), axis=0)
        below = below.reshape(scales.shape)
        shape = jnp.broadcast_shapes(p.shape, self.batch_shape)
        wanted = xp.broadcast_to(p, shape).reshape((-1, scales.shape[1])) * below[-1]
        index = xp.stack([xp.searchsorted(*column) for column in zip(below.T, wanted.T, strict=True)], axis=1)
        return xp.take_along_axis(scales, xp.minimum(index, len(order) - 1), axis=0).reshape(shape)

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Values:
        """Draws with replacement."""
        return self.log_quantile(concrete(jax.random.uniform(key, shape + self.batch_shape, dtype=float)))

    def mean_and_var(self) -> tuple[Values, Values]:
        xp = namespace(self)
        weights, scales = xp.exp(self.log_weights), xp.exp(self.log_scales)
        mean = xp.sum(weights * scales, axis=0)
        var = xp.sum(weights * (scales - mean) ** 2, axis=0)
        return where_they_exist(mean, var, self.tail_index)

    def log_nodes(self, refine: int = 1) -> tuple[Values, Values]:
        return self.log_scales, self.log_weights

    def log_expected_gaussian(self, count: ArrayLike, quad: Values) -> Values:
        column = (-1,) + (1,) * (quad.ndim - len(self.batch_shape)) + self.batch_shape
        scales, weights = self.log_scales.reshape(column), self.log_weights.reshape(column)
        return logsumexp(weights + gaussian_log_factor(scales, count, quad))


def importance_posterior(
    prior: ScalePrior, likelihood: ScaleLikelihood, key: PRNGKeyArray | Array, draws: int
) -> ImportancePosterior:
    """Draw from the prior, weigh by the likelihood."""
    prior_shape = jnp.shape(prior.log_middle)
    shape = jnp.broadcast_shapes(prior_shape, likelihood.batch_shape)
    scales = prior.draw_log(key, (draws,))
    missing = (1,) * (len(shape) - len(prior_shape))
    scales = namespace(scales).broadcast_to(scales.reshape((draws, *missing, *prior_shape)), (draws, *shape))
    log_weights, evidence, ess, k = _weigh(likelihood, scales)
    diagnostics = ScaleDiagnostics("importance", draws, ess=ess, pareto_k=k)
    if not is_traced(log_weights):
        _warn_if_poor(diagnostics)
    return ImportancePosterior(
        prior=prior,
        likelihood=likelihood,
        log_scales=scales,
        log_weights=log_weights,
        log_evidence=evidence,
        diagnostics=diagnostics,
    )


@jax.jit
def _weigh(likelihood: ScaleLikelihood, log_scales: Any) -> tuple[Any, Any, Any, Any]:
    """Normalised log weights, log evidence, effective sample size and Pareto-k."""
    log_likelihood = likelihood.log_prob_of_log(log_scales)
    log_total = jax.nn.logsumexp(log_likelihood, axis=0)
    log_weights = log_likelihood - log_total
    ess = jnp.exp(-jax.nn.logsumexp(2 * log_weights, axis=0))
    return log_weights, log_total - jnp.log(float(len(log_scales))), ess, pareto_k(jnp.asarray(log_weights))


def _warn_if_poor(diagnostics: ScaleDiagnostics) -> None:
    ess, k = np.min(np.asarray(diagnostics.ess)), np.max(np.asarray(diagnostics.pareto_k))
    if ess < _RELIABLE_ESS or k > _RELIABLE_PARETO_K:
        warnings.warn(
            f"importance sampling from the prior is poor: {diagnostics.nodes} draws are worth {ess:.1f}, and "
            f"the Pareto-k of the weights is {k:.2f} (reliable below {_RELIABLE_PARETO_K}). "
            f"Use method='quadrature', which is exact and faster, or more draws.",
            ImportanceWarning,
            stacklevel=4,
        )
