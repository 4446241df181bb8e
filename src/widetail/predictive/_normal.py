"""The normal predictive distribution."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from widetail.mixing import gaussian_log_factor
from widetail.numerics import namespace
from widetail.numerics.special import ndtr, ndtri
from widetail.predictive._elliptical import Elliptical, checked_location, double_or_traced
from widetail.predictive._matrix import LazyMatrix
from widetail.priors import Values


class Normal(Elliptical):
    r"""$y_d \sim \mathcal N(\mathrm{loc}_d, \beta V)$, outputs independent.

    Args:
        loc: means, of shape (m,) or (m, D).
        dispersion: diagonal of V, of shape (m,), or a function without arguments that returns it, called when first
            needed: means and medians do not.
        matrix: V itself, or a function without arguments that returns it, called when first needed; only
            `joint_log_prob` and `sample` need it.
        scale: $\beta$, a number or one for each output.

    Example:
        >>> import numpy as np
        >>> from widetail import predictive
        >>> dist = predictive.Normal(np.zeros(3), np.ones(3))
        >>> dist.interval(0.95)[1].round(2).tolist()
        [1.96, 1.96, 1.96]
    """

    loc: Any
    _dispersion: Any
    matrix: LazyMatrix
    scale: Any

    def __init__(self, loc: Any, dispersion: Any, matrix: Any = None, scale: Any = 1.0):
        self.loc, self._dispersion, self.matrix = checked_location("Normal", loc, dispersion, matrix)
        self.scale = double_or_traced(scale)

    def _at_points(self, loc: Any, dispersion: Any, matrix: LazyMatrix | None) -> "Normal":
        return Normal(loc, dispersion, matrix, self.scale)

    @property
    def _law_shape(self) -> tuple[int, ...]:
        return jnp.shape(self.scale)

    def _standard_mean_exists(self) -> Any:
        return np.ones(self._law_shape, bool)

    def _standard_var(self) -> Values:
        return self.scale

    def _standard_cdf(self, z: Values) -> Values:
        return ndtr(z / self.scale**0.5)

    def _standard_quantile(self, p: Values) -> Values:
        return self.scale**0.5 * ndtri(p)

    def _standard_crps(self, z: Values) -> Values:
        x = z / self.scale**0.5
        density = namespace(x).exp(-0.5 * x**2) / math.sqrt(2 * math.pi)
        return self.scale**0.5 * (x * (2 * ndtr(x) - 1) + 2 * density - 1 / math.sqrt(math.pi))

    def _log_expected_gaussian(self, count: int, quad: Values) -> Values:
        return gaussian_log_factor(namespace(self, quad).log(self.scale), count, quad)

    def _draw_scale(self, key: Array, shape: tuple[int, ...]) -> Values:
        return namespace(self).broadcast_to(self.scale, shape + self._law_shape)
