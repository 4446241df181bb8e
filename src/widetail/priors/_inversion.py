"""Quantiles of priors that have a distribution function in closed form but not its inverse."""

import jax
import jax.numpy as jnp

from widetail.numerics import increasing_root
from widetail.priors._base import ScalePrior
from widetail.priors._parameters import Values

# Beyond these the exponential is zero or infinite in float64.
LOG_SMALLEST, LOG_LARGEST = -744.0, 709.0


@jax.jit
def log_quantile_by_root(prior: ScalePrior, p: Values) -> Values:
    """Solve cdf = p for the logarithm of the scale, in the smaller of the two tails; differentiable."""
    p = jnp.broadcast_to(p, jnp.broadcast_shapes(p.shape, jnp.shape(prior.log_middle)))
    in_lower_half = p < 0.5

    def value_and_slope(log_scale):
        below, above = prior.tails_of_log(log_scale)
        density = jnp.exp(prior.log_prob_of_log(log_scale))
        value = jnp.where(in_lower_half, jnp.log(below) - jnp.log(p), jnp.log1p(-p) - jnp.log(above))
        return value, density / jnp.where(in_lower_half, below, above)

    frozen = jax.lax.stop_gradient
    lower, upper = jnp.full_like(p, LOG_SMALLEST), jnp.full_like(p, LOG_LARGEST)
    root = jnp.asarray(frozen(increasing_root(lambda t: frozen(value_and_slope(t)), lower, upper)))
    inside = (p > 0) & (p < 1) & (root > LOG_SMALLEST) & (root < LOG_LARGEST)
    # One Newton step from the root changes nothing but carries the derivatives of the implicit function.
    below, above = prior.tails_of_log(root)
    gap = jnp.where(in_lower_half, p - below, above - (1 - p))
    slope = frozen(jnp.exp(prior.log_prob_of_log(root)))
    step = gap / jnp.where(inside & (slope > 0), slope, 1.0)
    polished = root + (step - frozen(step))
    return jnp.where(inside, polished, jnp.where(p < 0.5, -jnp.inf, jnp.inf))
