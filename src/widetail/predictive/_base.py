"""The interface of predictive distributions."""

import abc
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from widetail.numerics import double_precision, is_traced, namespace
from widetail.priors import Numbers, Values


class Predictive(eqx.Module):
    """Distribution of the values at m points, with one or with D outputs.

    `event_shape` is (m,) for targets that were one-dimensional and (m, D) otherwise, and everything has it:
    arguments `y` may have leading axes in front of it. `mean`, `log_prob`, `cdf`, `quantile`, `crps` and `pit`
    are *marginal*, one number per point and output, and never need the m x m covariance; `joint_log_prob` and
    `sample` are joint over the points and outputs, and do. The outputs of a point are uncorrelated, but they are
    independent only if the distribution is normal or each output has its own scale.

    `dist[index]` are the points of an index, slice, list or mask; a single integer keeps one point.

    Computed in float64 and returned as NumPy, except inside of JAX transformations.
    """

    @property
    @abc.abstractmethod
    def event_shape(self) -> tuple[int, ...]:
        """(m,) or (m, D)."""

    @property
    @double_precision
    def mean(self) -> Values:
        """Expectation; `nan` where it does not exist (the median always does)."""
        return self._mean()

    @property
    @double_precision
    def var(self) -> Values:
        """Variance; `inf` where it is infinite, `nan` where there is not even a mean."""
        return self._var()

    @property
    @double_precision
    def std(self) -> Values:
        """Standard deviation, as far as `var` exists."""
        var = self._var()
        return namespace(var).sqrt(var)

    @property
    @double_precision
    def cov(self) -> Values:
        """Covariances between the points, of shape (m, m), or (m, m, D) with those of every output; `inf` and `nan` as
        in `var`. Needs the m x m matrix.
        """
        return self._cov()

    @property
    @double_precision
    def median(self) -> Values:
        """The value that is exceeded with probability one half."""
        return self._median()

    @double_precision
    def log_prob(self, y: Numbers) -> Values:
        """Log density of each value by itself, per point and output; of the shape of `y`."""
        return self._log_prob(self._values("log_prob", y))

    @double_precision
    def joint_log_prob(self, y: Numbers) -> Values:
        """Log density of all values together; of the leading shape of `y`, a number if it has none."""
        return self._joint_log_prob(self._values("joint_log_prob", y))

    @double_precision
    def cdf(self, y: Numbers) -> Values:
        """Probability of a value at most `y`, per point and output."""
        return self._cdf(self._values("cdf", y))

    @double_precision
    def pit(self, y: Numbers) -> Values:
        """Probability integral transform: `cdf` of what was observed, uniform if the prediction is calibrated."""
        return self._cdf(self._values("pit", y))

    @double_precision
    def quantile(self, p: Numbers) -> Values:
        """The values below which each value lies with probability `p`; of the shape of `p`, then `event_shape`."""
        p = namespace(p).asarray(p, float)
        if not is_traced(p) and not np.all((p >= 0) & (p <= 1)):
            raise ValueError(f"quantile: p must lie in [0, 1], got {p}; pass probabilities, not percentages.")
        return self._quantile(p)

    @double_precision
    def interval(self, coverage: Numbers = 0.9) -> tuple[Values, Values]:
        """Lower and upper ends of the central interval that holds `coverage` of the probability."""
        coverage = namespace(coverage).asarray(coverage, float)
        if not is_traced(coverage) and not np.all((coverage >= 0) & (coverage <= 1)):
            raise ValueError(f"interval: coverage must lie in [0, 1], got {coverage}; pass 0.9 for 90 %.")
        return self._quantile(0.5 - 0.5 * coverage), self._quantile(0.5 + 0.5 * coverage)

    @double_precision
    def sample(self, key: PRNGKeyArray | Array, shape: tuple[int, ...] | int = ()) -> Values:
        """Joint draws, of shape `shape` followed by `event_shape`: one readout variance for each draw."""
        return self._draw(key, (shape,) if isinstance(shape, int) else tuple(shape))

    @double_precision
    def crps(self, y: Numbers) -> Values:
        """Continuous ranked probability score per point and output, in units of y; smaller is better.

        Exact: the integral of (cdf(x) - 1[x >= y])^2 over x. `inf` where the tails are too heavy for it.
        """
        return self._crps(self._values("crps", y))

    def rescale(self, shift: Any, factor: Any) -> "Predictive":
        """The distribution of `shift + factor * y`; each a number or one for each output, `factor` positive."""
        from widetail.predictive._rescaled import Rescaled  # a predictive itself: a cycle at import time

        return Rescaled(self, shift, factor)

    @abc.abstractmethod
    def __getitem__(self, index: Any) -> "Predictive":
        """Some of the points."""

    @abc.abstractmethod
    def _mean(self) -> Values: ...

    @abc.abstractmethod
    def _var(self) -> Values: ...

    def _cov(self) -> Values:
        raise NotImplementedError(
            f"{type(self).__name__} has no covariance between points in closed form; take `var`, which is of each "
            f"point by itself, or covariances of draws: np.cov(dist.sample(key, 1000), rowvar=False)."
        )

    def _median(self) -> Values:
        return self._quantile(np.asarray(0.5))

    @abc.abstractmethod
    def _log_prob(self, y: Values) -> Values: ...

    @abc.abstractmethod
    def _joint_log_prob(self, y: Values) -> Values: ...

    @abc.abstractmethod
    def _cdf(self, y: Values) -> Values: ...

    def _above(self, y: Values) -> Values:
        """Probability of more than `y`; with all its digits where that is small, if the class knows how."""
        return 1 - self._cdf(y)

    @abc.abstractmethod
    def _quantile(self, p: Values) -> Values: ...

    @abc.abstractmethod
    def _draw(self, key: Array, shape: tuple[int, ...]) -> Values: ...

    @abc.abstractmethod
    def _crps(self, y: Values) -> Values: ...

    def _values(self, method: str, y: Any) -> Values:
        values = namespace(y).asarray(y, float)
        event = self.event_shape
        if values.shape[values.ndim - len(event) :] != event or values.ndim < len(event):
            raise ValueError(
                f"{method}: y must have shape {event}, perhaps with leading axes, got {values.shape}; "
                f"the distribution is of {event[0]} points and was made for "
                f"{'one-dimensional targets' if len(event) == 1 else f'{event[1]} outputs'}."
            )
        return values


def points_index(index: Any, size: int) -> np.ndarray:
    """An index of points as integers; one integer is one point."""
    if isinstance(index, tuple):
        raise TypeError(
            f"dist[index] takes points, not outputs, got {index!r}; slice the outputs of what it returns instead."
        )
    return np.atleast_1d(np.arange(size)[index])
