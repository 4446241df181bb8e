"""The predictive distribution of an increasing function of what was predicted."""

from typing import Any

import equinox as eqx
import numpy as np
import scipy.special
from jaxtyping import Array

from widetail.numerics.special import logsumexp
from widetail.predictive._base import Predictive
from widetail.predictive._warps import Warp
from widetail.priors import Values

# Levels for expectations, at equal steps of a normal quantile: the trapezoidal rule is all but exact there.
STEP = 0.025
NORMAL = np.arange(-8.0, 8.0 + STEP / 2, STEP)
LEVELS = scipy.special.ndtr(NORMAL)
WEIGHTS = STEP * np.exp(-0.5 * NORMAL**2) / np.sqrt(2 * np.pi)
LEVELS_AT_ONCE = 64
MOST_STEPS = 2000  # of a rounded value, on either side of the median
_NODES, _WEIGHTS = (0.5 * np.polynomial.legendre.leggauss(48)[i] + (0.5, 0.0)[i] for i in range(2))


class Transformed(Predictive):
    r"""The distribution of $y$ where $z = $ `warp.forward(y)` has the distribution `base`.

    Quantiles, intervals and probabilities are exact: those of `base`, mapped. Densities have the Jacobian of the map.
    Means, variances and CRPS are integrals over 641 quantiles (to about 1e-4 of the spread). Outside of JAX
    transformations only.

    Args:
        base: the distribution of z.
        warp: the map, a `PositiveWarp` or `BoundedWarp`.

    Example:
        >>> import numpy as np
        >>> from widetail import predictive
        >>> base = predictive.Normal(np.zeros(1), np.ones(1))
        >>> dist = predictive.Transformed(base, predictive.BoundedWarp())
        >>> float(dist.median[0]), bool(dist.quantile(0.999)[0] < 1)
        (0.5, True)
    """

    base: Predictive
    warp: Warp = eqx.field(static=True)

    @property
    def event_shape(self) -> tuple[int, ...]:
        return self.base.event_shape

    def __getitem__(self, index: Any) -> "Transformed":
        return Transformed(self.base[index], self.warp)

    def _quantile(self, p: Values) -> Values:
        return self.warp.inverse(self.base._quantile(p))

    def _median(self) -> Values:
        return self.warp.inverse(self.base._median())

    def _cdf(self, y: Values) -> Values:
        z = self.warp.forward(y)
        inside = np.isfinite(z)
        probability = np.asarray(self.base._cdf(np.where(inside, z, 0.0)))
        return np.where(inside, probability, self._outside(y, z))

    def _above(self, y: Values) -> Values:
        z = self.warp.forward(y)
        inside = np.isfinite(z)
        probability = np.asarray(self.base._above(np.where(inside, z, 0.0)))
        return np.where(inside, probability, 1 - self._outside(y, z))

    def _outside(self, y: Values, z: Values) -> Values:
        """Probability of at most a value that y cannot have: all of it above, none below."""
        return np.where(np.asarray(y) >= self.warp.inverse(np.asarray(0.0)), 1.0, 0.0)

    def _log_prob(self, y: Values) -> Values:
        z = self.warp.forward(y)
        inside = np.isfinite(z)
        density = np.asarray(self.base._log_prob(np.where(inside, z, 0.0))) + self.warp.log_slope(y)
        return np.where(inside, density, -np.inf)

    def _joint_log_prob(self, y: Values) -> Values:
        z = self.warp.forward(y)
        axes = tuple(range(-len(self.event_shape), 0))
        if not np.all(np.isfinite(z)):
            inside = np.all(np.isfinite(z), axis=axes)
            found = self.base._joint_log_prob(np.where(np.isfinite(z), z, 0.0))
            slopes = np.sum(np.where(np.isfinite(z), self.warp.log_slope(y), 0.0), axis=axes)
            return np.where(inside, found + slopes, -np.inf)
        return self.base._joint_log_prob(z) + np.sum(self.warp.log_slope(y), axis=axes)

    def _draw(self, key: Array, shape: tuple[int, ...]) -> Values:
        return self.warp.inverse(np.asarray(self.base._draw(key, shape)))

    def _mean(self) -> Values:
        mean = self._expected(lambda y, level: y)
        return mean if self.warp.is_bounded else np.where(np.isfinite(self.base._mean()), mean, np.nan)

    def _var(self) -> Values:
        mean = self._expected(lambda y, level: y)
        var = self._expected(lambda y, level: (y - mean) ** 2)
        return var if self.warp.is_bounded else np.where(np.isfinite(self.base._var()), var, self.base._var())

    def _crps(self, y: Values) -> Values:
        """Twice the pinball loss, averaged over all levels."""
        y = np.asarray(y)

        def loss(quantile: np.ndarray, level: float) -> np.ndarray:
            return 2 * ((quantile >= y) - level) * (quantile - y)

        found = self._expected(loss)
        return found if self.warp.is_bounded else np.where(np.isfinite(self.base._mean()), found, np.inf)

    def _expected(self, of: Any) -> np.ndarray:
        """The mean over all levels of a function of quantile and level."""
        total: Any = 0.0
        for start in range(0, len(LEVELS), LEVELS_AT_ONCE):
            part = slice(start, start + LEVELS_AT_ONCE)
            quantiles = np.asarray(self._quantile(LEVELS[part]))
            for quantile, level, weight in zip(quantiles, LEVELS[part], WEIGHTS[part], strict=True):
                total = total + weight * of(quantile, level)
        return total


class Rounded(Predictive):
    r"""The distribution of a value that is only seen rounded, to whole numbers or other steps.

    The probability of $k$ is that of the interval around it, exactly: $F(k + \tfrac12) - F(k - \tfrac12)$. `log_prob`
    is the logarithm of a probability, `-inf` for what is no step. At `lowest`, where there is one, stands all that is
    below.

    Args:
        base: the distribution of the value before it was rounded.
        step: the distance of what can be seen.
        lowest: the smallest value that can be seen.

    Example:
        >>> import numpy as np
        >>> from widetail import predictive
        >>> dist = predictive.Rounded(predictive.Normal(np.array([5.2]), np.array([0.25])))
        >>> np.exp([dist.log_prob(np.array([k]))[0] for k in (4, 5, 6)]).round(3)
        array([0.08 , 0.645, 0.27 ])
        >>> dist.interval(0.8)[0][0], dist.interval(0.8)[1][0]
        (np.float64(5.0), np.float64(6.0))
    """

    base: Predictive
    step: float = eqx.field(static=True, default=1.0)
    lowest: float | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        if not self.step > 0:
            raise ValueError(f"step must be positive; got {self.step!r}.")

    @property
    def event_shape(self) -> tuple[int, ...]:
        return self.base.event_shape

    def __getitem__(self, index: Any) -> "Rounded":
        return Rounded(self.base[index], self.step, self.lowest)

    def _possible(self, value: Values) -> Values:
        """Never below the smallest value."""
        return value if self.lowest is None else np.maximum(value, self.lowest)

    def _quantile(self, p: Values) -> Values:
        cut = np.asarray(self.base._quantile(p)) / self.step - 0.5
        return self._possible(self.step * np.ceil(cut - 1e-12))

    def _cdf(self, y: Values) -> Values:
        edge = self.step * (np.floor(np.asarray(y) / self.step + 1e-9) + 0.5)
        below = 0.0 if self.lowest is None else np.where(np.asarray(y) < self.lowest - 1e-9 * self.step, 1.0, 0.0)
        return np.where(below == 1.0, 0.0, np.asarray(self.base._cdf(edge)))

    def _log_prob(self, y: Values) -> Values:
        y = np.asarray(y)
        is_seen = np.abs(y / self.step - np.round(y / self.step)) < 1e-9
        edges = y - 0.5 * self.step, y + 0.5 * self.step
        lower, upper = (np.asarray(self.base._cdf(edge)) for edge in edges)
        share, larger = upper - lower, upper
        # seen from the other end above the middle, where what is below is one, and has lost the digits of what is above
        more, less = (np.asarray(self.base._above(edge)) for edge in edges)
        is_high = lower > 0.5
        share, larger = np.where(is_high, more - less, share), np.where(is_high, more, larger)
        is_lost = share <= 1e-6 * larger
        if self.lowest is not None:
            is_lowest = y <= self.lowest + 1e-9 * self.step
            share, is_lost = np.where(is_lowest, upper, share), is_lost & ~(is_lowest & (upper > 0))
            is_seen &= y >= self.lowest - 1e-9 * self.step
        found = np.log(np.maximum(share, 1e-300))
        if np.any(is_lost & is_seen):
            found = np.where(is_lost, self._log_integral(*edges, is_high), found)
        return np.where(is_seen, found, -np.inf)

    def _log_integral(self, low: Values, high: Values, is_high: Any) -> Values:
        """Of the density between two edges, whose probabilities differ by nothing but rounding, or are too small.

        Nodes come closer to each other towards the edge at which there is more.
        """
        away = self.step * _NODES.reshape((-1,) + (1,) * np.ndim(low)) ** 8
        values = np.where(is_high, low + away, high - away)
        log_density = np.asarray(self.base._log_prob(values))
        weights = (8 * self.step * _WEIGHTS * _NODES**7).reshape(away.shape)
        return np.asarray(logsumexp(log_density + np.log(weights)))

    def _above(self, y: Values) -> Values:
        edge = self.step * (np.floor(np.asarray(y) / self.step + 1e-9) + 0.5)
        below = self.lowest is not None and np.asarray(y) < self.lowest - 1e-9 * self.step
        return np.where(below, 1.0, np.asarray(self.base._above(edge)))

    def _mean(self) -> Values:
        start, end = self._range()
        total: Any = start
        for value in np.arange(start, end, self.step):
            total = total + self.step * (1 - np.asarray(self._cdf(np.full(self.event_shape, value))))
        return np.where(np.isfinite(self.base._mean()), total, np.nan)

    def _var(self) -> Values:
        mean = self._mean()
        start, end = self._range()
        total: Any = (start - mean) ** 2
        for value in np.arange(start, end, self.step):
            beyond = 1 - np.asarray(self._cdf(np.full(self.event_shape, value)))
            total = total + ((value + self.step - mean) ** 2 - (value - mean) ** 2) * beyond
        return np.where(np.isfinite(self.base._var()), total, self.base._var())

    def _crps(self, y: Values) -> Values:
        y = np.asarray(y)
        start, end = self._range()
        start, end = min(start, float(np.min(y))), max(end, float(np.max(y)))
        total: Any = 0.0
        for value in np.arange(start, end, self.step):
            total = total + self.step * (np.asarray(self._cdf(np.full(self.event_shape, value))) - (value >= y)) ** 2
        return np.where(np.isfinite(self.base._mean()), total, np.inf)

    def _range(self) -> tuple[float, float]:
        """Steps between which nearly all of the probability of all points lies, not absurdly many of them."""
        low, middle, high = np.asarray(self._quantile(np.array([1e-6, 0.5, 1 - 1e-6])))
        far = MOST_STEPS * self.step
        return max(float(np.min(low)), float(np.min(middle)) - far), min(
            float(np.max(high)), float(np.max(middle)) + far
        )

    def _draw(self, key: Array, shape: tuple[int, ...]) -> Values:
        return self._possible(self.step * np.round(np.asarray(self.base._draw(key, shape)) / self.step))

    def _joint_log_prob(self, y: Values) -> Values:
        raise NotImplementedError("Rounded has no joint probability in closed form; take log_prob, of each by itself.")
