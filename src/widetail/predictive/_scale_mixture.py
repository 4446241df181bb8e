"""Scale mixtures of normal distributions with one location."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import erf, ndtr, ndtri
from jaxtyping import Array

from widetail._roots import increasing_root
from widetail.mixing import ScalePosterior
from widetail.predictive._elliptical import Elliptical, checked_location
from widetail.predictive._matrix import LazyMatrix

# Tails of a probability of 1e-12 lie where the nodes of the posterior are already sparse.
_REFINE = 4


class NormalScaleMixture(Elliptical):
    r"""$y_d \mid \beta \sim \mathcal N(\mathrm{loc}_d, \beta V)$ for any law of $\beta$.

    Densities, marginal and joint, integrate over the law of $\beta$ anew for each value, so that they are right for
    outliers too; probabilities, quantiles and CRPS use the nodes of that law.

    Args:
        scale: law of $\beta$, shared by the outputs or one for each.
        loc: location and median, of shape (m,) or (m, D).
        dispersion: diagonal of V, of shape (m,).
        matrix: V itself, or a function without arguments that returns it, called when first needed; only
            `joint_log_prob` and `sample` need it.

    Example:
        >>> import numpy as np
        >>> from widetail import mixing, predictive, priors
        >>> scale = mixing.scale_posterior(priors.HalfCauchy(1.0))
        >>> predictive.NormalScaleMixture(scale, np.zeros(1), np.ones(1)).var.tolist()
        [inf]
    """

    scale: ScalePosterior
    loc: Any
    dispersion: Any
    matrix: LazyMatrix

    def __init__(self, scale: ScalePosterior, loc: Any, dispersion: Any, matrix: Any = None):
        self.scale = scale
        self.loc, self.dispersion, self.matrix = checked_location("NormalScaleMixture", loc, dispersion, matrix)

    def _at_points(self, loc: Any, dispersion: Any, matrix: LazyMatrix) -> "NormalScaleMixture":
        return NormalScaleMixture(self.scale, loc, dispersion, matrix)

    @property
    def _law_shape(self) -> tuple[int, ...]:
        return self.scale.batch_shape

    def _standard_mean_exists(self) -> Array:
        return self.scale.tail_index > 0.5

    def _standard_var(self) -> Array:
        mean_scale, _ = self.scale.mean_and_var()
        return jnp.where(self._standard_mean_exists(), mean_scale, jnp.nan)

    def _standard_cdf(self, z: Array) -> Array:
        return _cdf(z, *self.scale.log_nodes(_REFINE))

    def _standard_quantile(self, p: Array) -> Array:
        return _quantile(p, *self.scale.log_nodes(_REFINE))

    def _standard_crps(self, z: Array) -> Array:
        return jnp.where(self.scale.tail_index > 0.25, _crps(z, *self.scale.log_nodes(_REFINE)), jnp.inf)

    def _log_expected_gaussian(self, count: int, quad: Array) -> Array:
        return self.scale.log_expected_gaussian(float(count), quad)

    def _draw_scale(self, key: Array, shape: tuple[int, ...]) -> Array:
        return jnp.exp(self.scale.draw_log(key, shape))


def _against_nodes(values: Array, *tables: Array) -> tuple[Array, ...]:
    """Tables of nodes, (nodes, *law), shaped to broadcast with values that end in *law."""
    return tuple(
        table.reshape((table.shape[0],) + (1,) * (values.ndim - table.ndim + 1) + table.shape[1:]) for table in tables
    )


@jax.jit
def _cdf(z: Array, log_scales: Array, log_weights: Array) -> Array:
    log_scales, log_weights = _against_nodes(z, log_scales, log_weights)
    tail = jnp.sum(jnp.exp(log_weights) * ndtr(-jnp.abs(z) * jnp.exp(-0.5 * log_scales)), axis=0)
    return jnp.where(z < 0, tail, 1 - tail)


@jax.jit
def _quantile(p: Array, log_scales: Array, log_weights: Array) -> Array:
    """Solved for the logarithm of the quantile, in the tail that p lies in."""
    p = jnp.broadcast_to(p, jnp.broadcast_shapes(p.shape, log_scales.shape[1:]))
    tail = jnp.where(p < 0.5, p, 1 - p)
    log_sd, log_weights = _against_nodes(p, 0.5 * log_scales, log_weights)

    def value_and_slope(log_x: Array) -> tuple[Array, Array]:
        z = jnp.exp(log_x - log_sd)
        upper = jnp.sum(jnp.exp(log_weights) * ndtr(-z), axis=0)
        density = jnp.sum(jnp.exp(log_weights - 0.5 * z**2) * z, axis=0) / math.sqrt(2 * math.pi)
        return jnp.log(tail) - jnp.log(upper), density / upper

    # The quantile lies between those of the narrowest and of the widest node.
    central = jnp.log(-ndtri(jnp.where(tail < 0.5, tail, 0.25)))
    narrowest, widest = (end(log_sd, axis=0) + central for end in (jnp.min, jnp.max))
    middle = jnp.sum(jnp.exp(log_weights) * log_sd, axis=0) + central
    log_x = increasing_root(value_and_slope, narrowest - 1e-9, widest + 1e-9, middle)
    x = jnp.where(tail == 0.5, 0.0, jnp.where(tail == 0, jnp.inf, jnp.exp(log_x)))
    return jnp.where(p < 0.5, -x, x)


@jax.jit
def _crps(z: Array, log_scales: Array, log_weights: Array) -> Array:
    r"""$\mathbb E|X - z| - \frac12 \mathbb E|X - X'|$, in terms that stay finite when neither expectation is.

    With $c = \sqrt{2/\pi}$: $\mathbb E|s Z - z| = c s + [c s (e^{-r^2/2} - 1) + |z|\,\mathrm{erf}(r/\sqrt2)]$,
    $r = |z|/s$, and $s + s' - \sqrt{s^2 + s'^2} = 2 s s' / (s + s' + \sqrt{s^2 + s'^2})$.
    """
    c = math.sqrt(2 / math.pi)
    sd, weights = jnp.exp(0.5 * log_scales), jnp.exp(log_weights)
    pairs = 2 * sd[:, None] * sd / (sd[:, None] + sd + jnp.hypot(sd[:, None], sd))
    pairs = jnp.where(weights[:, None] * weights > 0, pairs, 0.0)
    constant = 0.5 * c * jnp.einsum("i...,j...,ij...->...", weights, weights, pairs)
    sd, weights = _against_nodes(z, sd, weights)
    distance = jnp.abs(z)
    r = distance / sd
    excess = c * sd * jnp.expm1(-0.5 * r**2) + distance * erf(r / math.sqrt(2))
    return constant + jnp.sum(weights * excess, axis=0)
