"""Scale mixtures of normal distributions with one location."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from widetail.mixing import ScalePosterior
from widetail.numerics import compiled_if_large, increasing_root, is_traced, namespace
from widetail.numerics.special import erf, ndtr, ndtri
from widetail.predictive._elliptical import Elliptical, checked_location
from widetail.predictive._matrix import LazyMatrix
from widetail.priors import Values

# Tails of a probability of 1e-12 lie where the nodes of the posterior are already sparse.
_REFINE = 4


class NormalScaleMixture(Elliptical):
    r"""$y_d \mid \beta \sim \mathcal N(\mathrm{loc}_d, \beta V)$ for any law of $\beta$.

    Densities, marginal and joint, integrate over the law of $\beta$ anew for each value, so that they are right for
    outliers too; probabilities, quantiles and CRPS use the nodes of that law.

    Args:
        scale: law of $\beta$, shared by the outputs or one for each.
        loc: location and median, of shape (m,) or (m, D).
        dispersion: diagonal of V, of shape (m,), or a function without arguments that returns it, called when first
            needed: means and medians do not.
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
    _dispersion: Any
    matrix: LazyMatrix

    def __init__(self, scale: ScalePosterior, loc: Any, dispersion: Any, matrix: Any = None):
        self.scale = scale
        self.loc, self._dispersion, self.matrix = checked_location("NormalScaleMixture", loc, dispersion, matrix)

    def _at_points(self, loc: Any, dispersion: Any, matrix: LazyMatrix | None) -> "NormalScaleMixture":
        return NormalScaleMixture(self.scale, loc, dispersion, matrix)

    @property
    def _law_shape(self) -> tuple[int, ...]:
        return self.scale.batch_shape

    def _nodes(self) -> tuple[Values, Values]:
        log_scales, log_weights = self.scale.log_nodes(_REFINE)
        return (log_scales, log_weights) if is_traced(log_scales) else (np.asarray(log_scales), np.asarray(log_weights))

    def _standard_mean_exists(self) -> Any:
        return self.scale.tail_index > 0.5

    def _standard_var(self) -> Values:
        mean_scale, _ = self.scale.mean_and_var()
        return namespace(mean_scale).where(self._standard_mean_exists(), mean_scale, np.nan)

    def _standard_cdf(self, z: Values) -> Values:
        return _cdf(z, *self._nodes())

    def _standard_quantile(self, p: Values) -> Values:
        return _quantile(p, *self._nodes())

    def _standard_crps(self, z: Values) -> Values:
        crps = _crps(z, *self._nodes())
        return namespace(crps).where(self.scale.tail_index > 0.25, crps, np.inf)

    def _log_expected_gaussian(self, count: int, quad: Values) -> Values:
        return self.scale.log_expected_gaussian(float(count), quad)

    def _draw_scale(self, key: Array, shape: tuple[int, ...]) -> Values:
        log_scale = self.scale.draw_log(key, shape)
        return namespace(log_scale).exp(log_scale)


def _against_nodes(values: Any, *tables: Any) -> tuple[Any, ...]:
    """Tables of nodes, (nodes, *law), shaped to broadcast with values that end in *law."""
    return tuple(
        table.reshape((table.shape[0],) + (1,) * (values.ndim - table.ndim + 1) + table.shape[1:]) for table in tables
    )


def _terms(values: Any, log_scales: Any, log_weights: Any) -> int:
    return np.size(values) * len(log_scales)


@compiled_if_large(_terms)
def _cdf(z: Any, log_scales: Any, log_weights: Any) -> Any:
    xp = namespace(z)
    log_scales, log_weights = _against_nodes(z, log_scales, log_weights)
    tail = (xp.exp(log_weights) * ndtr(-abs(z) * xp.exp(-0.5 * log_scales))).sum(axis=0)
    return xp.where(z < 0, tail, 1 - tail)


@compiled_if_large(_terms)
def _quantile(p: Any, log_scales: Any, log_weights: Any) -> Any:
    """Solved for the logarithm of the quantile, in the tail that p lies in."""
    xp = namespace(p)
    p = xp.broadcast_to(p, jnp.broadcast_shapes(p.shape, log_scales.shape[1:]))
    tail = xp.minimum(p, 1 - p)
    log_sd, log_weights = _against_nodes(p, 0.5 * log_scales, log_weights)

    def value_and_slope(log_x):
        z = xp.exp(log_x - log_sd)
        upper = (xp.exp(log_weights) * ndtr(-z)).sum(axis=0)
        density = (xp.exp(log_weights - 0.5 * z**2) * z).sum(axis=0) / math.sqrt(2 * math.pi)
        return xp.log(tail) - xp.log(upper), density / upper

    # The quantile lies between those of the narrowest and of the widest node.
    central = xp.log(-ndtri(xp.where(tail < 0.5, tail, 0.25)))
    narrowest, widest = log_sd.min(axis=0) + central - 1e-9, log_sd.max(axis=0) + central + 1e-9
    middle = (xp.exp(log_weights) * log_sd).sum(axis=0) + central
    log_x = increasing_root(value_and_slope, narrowest, widest, middle)
    x = xp.where(tail == 0.5, 0.0, xp.where(tail == 0, xp.inf, xp.exp(log_x)))
    return xp.where(p < 0.5, -x, x)


@compiled_if_large(_terms)
def _crps(z: Any, log_scales: Any, log_weights: Any) -> Any:
    r"""$\mathbb E|X - z| - \frac12 \mathbb E|X - X'|$, in terms that stay finite when neither expectation is.

    With $c = \sqrt{2/\pi}$: $\mathbb E|s Z - z| = c s + [c s (e^{-r^2/2} - 1) + |z|\,\mathrm{erf}(r/\sqrt2)]$,
    $r = |z|/s$, and $s + s' - \sqrt{s^2 + s'^2} = 2 s s' / (s + s' + \sqrt{s^2 + s'^2})$.
    """
    xp = namespace(z)
    c = math.sqrt(2 / math.pi)
    sd, weights = xp.exp(0.5 * log_scales), xp.exp(log_weights)
    pairs = 2 * sd[:, None] * sd / (sd[:, None] + sd + xp.hypot(sd[:, None], sd))
    pairs = xp.where(weights[:, None] * weights > 0, pairs, 0.0)
    constant = 0.5 * c * xp.einsum("i...,j...,ij...->...", weights, weights, pairs)
    sd, weights = _against_nodes(z, sd, weights)
    distance = abs(z)
    r = distance / sd
    excess = c * sd * xp.expm1(-0.5 * r**2) + distance * erf(r / math.sqrt(2))
    return constant + (weights * excess).sum(axis=0)
