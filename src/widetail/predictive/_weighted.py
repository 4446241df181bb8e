"""Mixtures of any predictive distributions: what several models say together."""

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from widetail.numerics import increasing_root, is_traced, namespace
from widetail.numerics.special import logsumexp
from widetail.predictive._base import Predictive
from widetail.predictive._elliptical import double_or_traced
from widetail.predictive._normal import Normal
from widetail.predictive._scale_mixture import NormalScaleMixture
from widetail.predictive._student_mixture import student_mixture_root
from widetail.predictive._student_t import StudentT
from widetail.priors import Values

# The score is integrated between quantiles of the parts, where the mixture is smooth on the scale of the piece.
LEVELS = np.array([1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 0.01, 0.05, 0.15, 0.3, 0.5])
NEGLIGIBLE = 34.0  # nats below the heaviest node: 1e-15 of its weight
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


class Weighted(Predictive):
    r"""With probability $w_j$, the values are those of part j: all of them, so that draws are of one part each.

    What hyperparameters that are integrated out, or architectures that are averaged, lead to. Quantiles are exact: a
    root of the mixture's own distribution function between those of its parts.

    Args:
        parts: predictive distributions of the same points.
        weights: their probabilities, zero or more, of shape (J,); they are made to add up to one.

    Example:
        >>> import numpy as np
        >>> from widetail import predictive
        >>> low, high = (predictive.Normal(np.array([m]), np.ones(1)) for m in (-1.0, 1.0))
        >>> dist = predictive.Weighted([low, high], [0.5, 0.5])
        >>> dist.mean.tolist(), dist.var.tolist()
        ([0.0], [2.0])
    """

    parts: tuple[Predictive, ...]
    log_weights: Any

    def __init__(self, parts: Sequence[Predictive], weights: Any):
        weights = double_or_traced(weights)
        shapes = {part.event_shape for part in parts}
        if len(shapes) != 1 or weights.shape != (len(parts),):
            raise ValueError(
                f"Weighted: parts must be of the same points, with one weight each; got event shapes {sorted(shapes)} "
                f"and weights of shape {weights.shape} for {len(parts)} parts."
            )
        if not is_traced(weights) and not (np.all(weights >= 0) and 0 < np.sum(weights) < np.inf):
            raise ValueError(f"Weighted: weights must be zero or more, and not all zero; got {weights}.")
        xp = namespace(weights)
        self.parts = tuple(parts)
        with np.errstate(divide="ignore"):
            self.log_weights = xp.log(weights) - xp.log(xp.sum(weights))

    @property
    def event_shape(self) -> tuple[int, ...]:
        return self.parts[0].event_shape

    def __getitem__(self, index: Any) -> "Weighted":
        return Weighted([part[index] for part in self.parts], namespace(self.log_weights).exp(self.log_weights))

    def _table(self, values: list[Any]) -> tuple[Any, Any]:
        """What the parts say, (J, ...), and log weights that broadcast with it."""
        xp = namespace(values, self.log_weights)
        table = xp.stack([xp.asarray(value) for value in values])
        return table, self.log_weights.reshape((-1,) + (1,) * (table.ndim - 1))

    def _average(self, values: list[Any]) -> Any:
        table, log_weights = self._table(values)
        xp = namespace(table)
        weights = xp.exp(log_weights)
        # a part of no weight may have no moments
        return xp.where(weights > 0, weights * xp.where(weights > 0, table, 0.0), 0.0).sum(axis=0)

    def _mean(self) -> Values:
        return self._average([part._mean() for part in self.parts])

    def _var(self) -> Values:
        mean = self._mean()
        return self._average([part._var() + (part._mean() - mean) ** 2 for part in self.parts])

    def _cov(self) -> Values:
        mean = self._mean()
        shifts = [part._mean() - mean for part in self.parts]
        pairs = zip(self.parts, shifts, strict=True)
        return self._average([part._cov() + shift[:, None] * shift[None] for part, shift in pairs])

    def _log_prob(self, y: Values) -> Values:
        table, log_weights = self._table([part._log_prob(y) for part in self.parts])
        return logsumexp(table + log_weights)

    def _joint_log_prob(self, y: Values) -> Values:
        table, log_weights = self._table([part._joint_log_prob(y) for part in self.parts])
        return logsumexp(table + log_weights)

    def _cdf(self, y: Values) -> Values:
        return self._average([part._cdf(y) for part in self.parts])

    def _above(self, y: Values) -> Values:
        return self._average([part._above(y) for part in self.parts])

    def _quantile(self, p: Values) -> Values:
        xp = namespace(p, self.log_weights)
        parts, log_weights = self._table([part._quantile(p) for part in self.parts])
        parts = xp.where(log_weights > -xp.inf, parts, self._heaviest(parts))
        inside = xp.broadcast_to(p.reshape(p.shape + (1,) * len(self.event_shape)), parts.shape[1:])
        lower, upper = parts.min(axis=0), parts.max(axis=0)
        level = xp.where((inside > 0) & (inside < 1), inside, 0.5)
        width = xp.maximum(self._heaviest(self._spreads()), 1e-300)

        is_low = level < 0.5
        side, log_tail = xp.where(is_low, 1.0, -1.0), xp.log(xp.where(is_low, level, 1 - level))

        def value_and_slope(y: Any) -> tuple[Any, Any]:
            """Of the logarithm of what is below, or above, where that is less and has more digits."""
            with np.errstate(divide="ignore"):
                log_part = xp.log(xp.where(is_low, self._cdf(y), self._above(y)))
            return side * (log_part - log_tail), xp.exp(self._log_prob(y) - log_part)

        finite = xp.isfinite(lower) & xp.isfinite(upper)
        low, high = xp.where(finite, lower, 0.0), xp.where(finite, upper, 0.0)
        law = self._student_law() if xp is np else None
        if law is not None:
            guess = np.sum(np.exp(log_weights) * np.where(finite, parts, 0.0), axis=0)
            root = student_mixture_root(*law, level, low, high, guess)
        else:
            root = increasing_root(value_and_slope, low, high, unit=width)
        return xp.where(finite, root, lower)

    def _student_law(self) -> tuple[Any, Any, Any, Any] | None:
        """Degrees (K, 1), locations and scales (K, m), weights (K, 1), where all parts are mixtures of Student-t and
        normal distributions of one output: of any law of the scale there is one for every node.
        """
        found = [_student_law_of(part) for part in self.parts] if len(self.event_shape) == 1 else [None]
        laws = [law for law in found if law is not None]
        if len(laws) < len(found):
            return None
        pairs = zip(laws, np.exp(self.log_weights), strict=True)
        rows = [(np.broadcast_to(d, s.shape), s, w * weight, np.full(len(s), i)) for i, ((d, s, w), weight) in
                enumerate(pairs)]  # fmt: skip
        degrees, scales, weights, number = (np.concatenate(column) for column in zip(*rows, strict=True))
        parts: Any = self.parts
        locations = np.stack([np.asarray(part.loc) for part in parts])
        widths = np.sqrt(np.stack([np.asarray(part.dispersion) for part in parts]))
        return degrees[:, None], locations[number], scales[:, None] * widths[number], weights[:, None]

    def _heaviest(self, table: Any) -> Any:
        return table[namespace(self.log_weights).argmax(self.log_weights)]

    def _spreads(self) -> Any:
        """Widths of the central halves of the parts, (J, m[, D])."""
        xp = namespace(self.log_weights)
        quartiles = np.array([0.25, 0.75])
        return xp.stack([part._quantile(quartiles)[1] - part._quantile(quartiles)[0] for part in self.parts])

    def _crps(self, y: Values) -> Values:
        """The integral of (cdf - 1[x >= y])^2, between quantiles of the mixture, with a break at y."""
        levels = np.concatenate([LEVELS, 1 - LEVELS[-2::-1]])
        table = np.asarray(self._quantile(levels))
        ends = np.broadcast_to(
            table.reshape(table.shape[:1] + (1,) * (y.ndim - len(self.event_shape)) + self.event_shape),
            (len(levels), *y.shape),
        )
        total = np.zeros(y.shape)
        # below the first and above the last quantile the integrand is 1 on the way to y, and nothing beyond
        total += np.maximum(ends[0] - y, 0.0) + np.maximum(y - ends[-1], 0.0)
        for left, right in itertools.pairwise(ends):
            middle = np.clip(y, left, right)
            total += self._squares(left, middle, below=True) + self._squares(middle, right, below=False)
        return total

    def _squares(self, left: Any, right: Any, *, below: bool) -> Any:
        half = 0.5 * (right - left)
        points = 0.5 * (left + right) + half * _NODES.reshape((-1,) + (1,) * half.ndim)
        cdf = np.asarray(self._cdf(points))
        values = cdf**2 if below else (1 - cdf) ** 2
        return half * np.tensordot(_WEIGHTS, values, axes=1)

    def _draw(self, key: Array, shape: tuple[int, ...]) -> Values:
        which, *keys = jax.random.split(key, len(self.parts) + 1)
        chosen = jax.random.categorical(which, self.log_weights, shape=shape)
        if is_traced(chosen):
            xp, needed = namespace(chosen), range(len(self.parts))
        else:
            chosen = np.asarray(chosen)
            xp, needed = np, np.unique(chosen)
        chosen = chosen.reshape(shape + (1,) * len(self.event_shape))
        draws = xp.zeros(shape + self.event_shape)
        for j in needed:
            draws = xp.where(chosen == j, xp.asarray(self.parts[j]._draw(keys[j], shape)), draws)
        return draws


def _student_law_of(part: Predictive) -> tuple[float, np.ndarray, np.ndarray] | None:
    """Degrees of freedom, scales (K,) in units of the part's own width, and their weights; None for other parts."""
    if isinstance(part, Normal | StudentT) and not part._law_shape:
        degrees = np.inf if isinstance(part, Normal) else float(part.df)
        return degrees, np.sqrt(np.array([float(part.scale)])), np.ones(1)
    if isinstance(part, NormalScaleMixture) and not part.scale.batch_shape:
        log_scales, log_weights = part._nodes()  # those of its own distribution function
        heavy = log_weights > np.max(log_weights) - NEGLIGIBLE
        return np.inf, np.exp(0.5 * log_scales[heavy]), np.exp(log_weights[heavy])
    return None
