"""A predictive distribution with a width and tails that were measured."""

from typing import Any

import numpy as np
import scipy.special
from jaxtyping import Array

from widetail.numerics import increasing_root, namespace
from widetail.predictive._base import Predictive
from widetail.predictive._elliptical import double_or_traced
from widetail.predictive._student_t import StudentT
from widetail.priors import Values

ONE_SIGMA = float(scipy.special.ndtr(1.0))


class Recalibrated(Predictive):
    r"""Student-t marginals around the medians of `base`, tied together as the values of `base` are.

    With the median $m$ and half the width $h$ of the central 68.3 % interval of a value under `base`, the value has
    location $m$, scale $c h$ and $\nu$ degrees of freedom here, where $c$ is `factor` and $\nu$ is `degrees`. Joint
    draws are those of `base`, each value moved to the same quantile of its new marginal (its copula is kept); `cov` has
    the correlations of `base`, which are nearly those of the draws. Inside of JAX transformations the marginal methods
    alone are available.

    Args:
        base: the distribution whose marginals are replaced.
        degrees: degrees of freedom: a number, or one for each output.
        factor: what widths are multiplied by: a number, or one for each output.

    Example:
        >>> import numpy as np
        >>> from widetail import predictive
        >>> dist = predictive.Recalibrated(predictive.Normal(np.zeros(1), np.ones(1)), degrees=4.0, factor=0.8)
        >>> lower, upper = dist.interval(0.99)
        >>> round(float(upper[0]), 3)  # 0.8 times the quantile of Student's t
        3.683
    """

    base: Predictive
    degrees: Any
    factor: Any
    _middle: Any
    _unit: Any
    _law: StudentT

    def __init__(self, base: Predictive, degrees: Any, factor: Any):
        self.base = base
        self.degrees, self.factor = double_or_traced(degrees), double_or_traced(factor)
        for name, value in (("degrees", self.degrees), ("factor", self.factor)):
            if np.shape(value) not in ((), base.event_shape[1:]) or not np.all(np.asarray(value) > 0):
                raise ValueError(
                    f"Recalibrated: {name} must be positive, a number or one for each output, of shape "
                    f"{base.event_shape[1:]}; got {value}."
                )
        low, middle, high = np.asarray(base.quantile(np.array([1 - ONE_SIGMA, 0.5, ONE_SIGMA])))
        self._middle, self._unit = middle, self.factor * 0.5 * (high - low)
        self._law = StudentT(self.degrees, np.zeros(base.event_shape), np.ones(base.event_shape[:1]))

    @property
    def event_shape(self) -> tuple[int, ...]:
        return self.base.event_shape

    def __getitem__(self, index: Any) -> "Recalibrated":
        return Recalibrated(self.base[index], self.degrees, self.factor)

    def _standard(self, y: Values) -> Values:
        return (y - self._middle) / self._unit

    def _mean(self) -> Values:
        return self._middle + self._law._mean()

    def _var(self) -> Values:
        return self._unit**2 * self._law._var()

    def _cov(self) -> Values:
        """Correlations are those of `base`, of which the new marginals keep the order; variances are the new ones."""
        matrix = self.base._cov()
        points = range(self.event_shape[0])
        width = namespace(self, matrix).sqrt(self._var() / matrix[points, points])
        return width[:, None] * width[None] * matrix

    def _log_prob(self, y: Values) -> Values:
        return self._law._log_prob(self._standard(y)) - namespace(self, y).log(self._unit)

    def _cdf(self, y: Values) -> Values:
        return self._law._cdf(self._standard(y))

    def _above(self, y: Values) -> Values:
        return self._law._above(self._standard(y))

    def _quantile(self, p: Values) -> Values:
        return self._middle + self._unit * self._law._quantile(p)

    def _crps(self, y: Values) -> Values:
        return self._unit * self._law._crps(self._standard(y))

    def _draw(self, key: Array, shape: tuple[int, ...]) -> Values:
        level = np.clip(np.asarray(self.base._cdf(np.asarray(self.base._draw(key, shape)))), 1e-300, 1 - 1e-16)
        return self._middle + self._unit * scipy.special.stdtrit(self.degrees, level)

    def _joint_log_prob(self, y: Values) -> Values:
        value = self._value_of_base(np.clip(np.asarray(self._cdf(y)), 1e-300, 1 - 1e-16))
        log_slope = self._log_prob(y) - self.base._log_prob(value)
        axes = tuple(range(-len(self.event_shape), 0))
        return self.base._joint_log_prob(value) + np.sum(log_slope, axis=axes)

    def _value_of_base(self, level: np.ndarray) -> np.ndarray:
        """The quantiles of `base`, of a level for each value by itself."""
        unit = self._unit / self.factor

        def log_odds(w):
            below = np.asarray(self.base._cdf(self._middle + unit * w))
            density = unit * np.exp(np.asarray(self.base._log_prob(self._middle + unit * w)))
            gap = np.log(below) - np.log1p(-below) - np.log(level) + np.log1p(-level)
            return gap, density / (below * (1 - below))

        reach = np.full(level.shape, 1e8)
        guess = scipy.special.ndtri(level)
        return self._middle + unit * np.asarray(increasing_root(log_odds, -reach, reach, guess))
