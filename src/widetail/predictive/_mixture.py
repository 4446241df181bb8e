"""Mixtures of normal distributions, each with its own location and covariance."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from widetail.numerics import compiled_if_large, concrete, increasing_root, is_traced, namespace
from widetail.numerics.special import erf, log_ndtr, logsumexp, ndtri
from widetail.predictive._base import Predictive, points_index
from widetail.predictive._elliptical import double_or_traced, squared_length
from widetail.predictive._matrix import LazyMatrix
from widetail.priors import Values


class NormalMixture(Predictive):
    r"""With probability $w_j$: $y_d \sim \mathcal N(\mathrm{loc}_{jd}, V_j)$, for J nodes j.

    What noise outside of the scale leads to: the location depends on the readout variance. All outputs share
    the node; with `log_weights` of shape (J, D) each output has a node of its own, and outputs are independent.

    The nodes are taken as they are. `joint_log_prob` of many more values than the nodes were made from is
    therefore only as good as the nodes are dense.

    Args:
        log_weights: logs of the probabilities, of shape (J,) or (J, D).
        loc: means, of shape (J, m) or (J, m, D).
        dispersion: variances, of shape (J, m), or (J, m, D) where the outputs have variances or nodes of their own.
        matrix: function of the number j that returns $V_j$, of shape (m, m), or (D, m, m) where the outputs have
            variances of their own; only `joint_log_prob` and `sample` need it, one at a time.
        tail_index: of the law of the readout variance that the nodes stand for: with 1 or less there is no
            variance, with 1/2 or less no mean.

    Example:
        >>> import numpy as np
        >>> from widetail import predictive
        >>> dist = predictive.NormalMixture(np.log([0.5, 0.5]), np.array([[-1.0], [1.0]]), np.ones((2, 1)))
        >>> dist.var.tolist()
        [2.0]
    """

    log_weights: Any
    loc: Any
    dispersion: Any
    matrix: Callable[[int], Any] | None = eqx.field(static=True)
    tail_index: Any

    def __init__(
        self,
        log_weights: Any,
        loc: Any,
        dispersion: Any,
        matrix: Callable[[int], Any] | None = None,
        tail_index: Any = math.inf,
    ):
        self.log_weights, self.loc, self.dispersion = (
            double_or_traced(log_weights),
            double_or_traced(loc),
            double_or_traced(dispersion),
        )
        self.matrix = matrix
        self.tail_index = double_or_traced(tail_index)
        self._check_shapes()

    def _check_shapes(self) -> None:
        weights, loc, dispersion = self.log_weights.shape, self.loc.shape, self.dispersion.shape
        law = loc[2:] if len(weights) == 2 else ()
        allowed = (loc,) if law else (loc, loc[:2])
        if len(loc) not in (2, 3) or weights != (loc[0], *law) or dispersion not in allowed:
            raise ValueError(
                f"NormalMixture: log_weights, loc and dispersion must have shapes (J,), (J, m[, D]) and (J, m[, D]), "
                f"or (J, D), (J, m, D) and (J, m, D), got {weights}, {loc} and {dispersion}; put the nodes first."
            )

    @property
    def event_shape(self) -> tuple[int, ...]:
        return jnp.shape(self.loc)[1:]

    def __getitem__(self, index: Any) -> "NormalMixture":
        rows = points_index(index, self.event_shape[0])
        matrix = self.matrix
        some = None if matrix is None else lambda j: matrix(j)[..., rows, :][..., rows]
        return NormalMixture(self.log_weights, self.loc[:, rows], self.dispersion[:, rows], some, self.tail_index)

    def _tables(self) -> tuple[Values, Values, Values]:
        """Log weights, locations and standard deviations, broadcasting to (J, m[, D])."""
        sd = namespace(self).sqrt(self.dispersion)
        missing = self.loc.ndim - self.log_weights.ndim
        weights = self.log_weights.reshape((-1,) + (1,) * missing + self.log_weights.shape[1:])
        return weights, self.loc, sd.reshape(sd.shape + (1,) * (self.loc.ndim - sd.ndim))

    def _mean(self) -> Values:
        xp = namespace(self)
        log_weights, loc, _ = self._tables()
        return xp.where(self.tail_index > 0.5, (xp.exp(log_weights) * loc).sum(axis=0), xp.nan)

    def _var(self) -> Values:
        xp = namespace(self)
        log_weights, loc, sd = self._tables()
        weights = xp.exp(log_weights)
        mean = (weights * loc).sum(axis=0)
        var = (weights * (sd**2 + (loc - mean) ** 2)).sum(axis=0)
        return xp.where(self.tail_index > 1, var, xp.where(self.tail_index > 0.5, xp.inf, xp.nan))

    def _cov(self) -> Values:
        xp = namespace(self)
        points, outputs = (*self.event_shape, 1)[:2]
        weights = xp.exp(self.log_weights).reshape((-1, *(self.log_weights.shape[1:] or (1,))))
        loc = self.loc.reshape((-1, points, outputs))
        shift = loc - (weights[:, None] * loc).sum(axis=0)
        total = xp.zeros((points, points, outputs))
        for j, lazy in self._matrices():
            matrix = xp.asarray(lazy.values()).reshape((-1, points, points))
            total = total + weights[j] * (xp.moveaxis(matrix, 0, -1) + shift[j][:, None] * shift[j][None])
        total = xp.where(self.tail_index > 1, total, xp.where(self.tail_index > 0.5, xp.inf, xp.nan))
        return total.reshape((points, points, *self.event_shape[1:]))

    def _log_prob(self, y: Values) -> Values:
        return _log_prob(y, *self._tables())

    def _cdf(self, y: Values) -> Values:
        log_below, log_above = _log_tails(y, *self._tables())
        xp = namespace(log_below)
        return xp.where(log_below < log_above, xp.exp(log_below), -xp.expm1(log_above))

    def _above(self, y: Values) -> Values:
        log_below, log_above = _log_tails(y, *self._tables())
        xp = namespace(log_below)
        return xp.where(log_above < log_below, xp.exp(log_above), -xp.expm1(log_below))

    def _quantile(self, p: Values) -> Values:
        shape = p.shape + self.event_shape
        p = namespace(self, p).broadcast_to(p.reshape(p.shape + (1,) * len(self.event_shape)), shape)
        return _quantile(p, *self._tables())

    def _crps(self, y: Values) -> Values:
        crps = _crps(y, *self._tables())
        return namespace(crps).where(self.tail_index > 0.25, crps, np.inf)

    def _joint_log_prob(self, y: Values) -> Values:
        points, outputs = (*self.event_shape, 1)[:2]
        y = y.reshape((*y.shape[: y.ndim - len(self.event_shape)], points, outputs))
        terms = []
        for j, matrix in self._matrices():
            residual = y - self.loc[j].reshape((points, outputs))
            quad, half_log_det = squared_length(matrix.exact_factor(), residual)
            terms.append(-0.5 * quad - half_log_det - 0.5 * points * math.log(2 * math.pi))
        per_output = namespace(*terms).stack(terms)
        weights = self.log_weights.reshape((len(terms),) + (1,) * (y.ndim - 2) + self.log_weights.shape[1:])
        if self.log_weights.ndim == 2:
            return logsumexp(per_output + weights).sum(axis=-1)
        return logsumexp(per_output.sum(axis=-1) + weights)

    def _draw(self, key: Array, shape: tuple[int, ...]) -> Values:
        node_key, normal_key = jax.random.split(key)
        law = self.log_weights.shape[1:]
        points, outputs = (*self.event_shape, 1)[:2]
        chosen = concrete(jax.random.categorical(node_key, self.log_weights, axis=0, shape=shape + law))
        normal = concrete(jax.random.normal(normal_key, (*shape, points, outputs), dtype=float))
        needed = None if is_traced(chosen, self) else set(np.unique(chosen).tolist())
        xp = namespace(chosen, self)
        chosen = chosen.reshape(shape + (1,) + (law or (1,)))
        draws = xp.zeros(normal.shape)
        for j, matrix in self._matrices(needed):
            factor = matrix.safe_factor()
            coloured = xp.einsum("dij,...jd->...id" if factor.ndim == 3 else "ij,...jd->...id", factor, normal)
            draws = xp.where(chosen == j, self.loc[j].reshape((points, outputs)) + coloured, draws)
        return draws.reshape(shape + self.event_shape)

    def _matrices(self, needed: set[int] | None = None) -> Iterator[tuple[int, LazyMatrix]]:
        matrix = self.matrix
        if matrix is None and self.event_shape[0] > 1:
            raise ValueError(
                f"joint_log_prob and sample need the covariance matrices of the {self.event_shape[0]} points, and "
                f"none were given; pass a function of the node as `matrix`."
            )
        for j in range(jnp.shape(self.log_weights)[0]) if needed is None else sorted(needed):
            if matrix is None:
                single = self.dispersion[j]
                yield j, LazyMatrix(lambda single=single: single.reshape((*single.shape[1:], 1, 1)))
            else:
                yield j, LazyMatrix(lambda j=j: matrix(j))


def _behind_leading(values: Any, *tables: Any) -> tuple[Any, ...]:
    """Tables of shape (J, *event) with ones inserted, to broadcast with values of shape (*leading, *event)."""
    return tuple(
        table.reshape((table.shape[0],) + (1,) * (values.ndim - table.ndim + 1) + table.shape[1:]) for table in tables
    )


def _terms(values: Any, log_weights: Any, loc: Any, sd: Any) -> int:
    return np.size(values) * len(log_weights)


def _pairs(values: Any, log_weights: Any, loc: Any, sd: Any) -> int:
    return _terms(values, log_weights, loc, sd) * len(log_weights)


@compiled_if_large(_terms)
def _log_prob(y: Any, log_weights: Any, loc: Any, sd: Any) -> Any:
    log_weights, loc, sd = _behind_leading(y, log_weights, loc, sd)
    log_sd = namespace(sd).log(sd)
    return logsumexp(log_weights - 0.5 * ((y - loc) / sd) ** 2 - log_sd - 0.5 * math.log(2 * math.pi))


@compiled_if_large(_terms)
def _log_tails(y: Any, log_weights: Any, loc: Any, sd: Any) -> tuple[Any, Any]:
    log_weights, loc, sd = _behind_leading(y, log_weights, loc, sd)
    z = (y - loc) / sd
    return logsumexp(log_weights + log_ndtr(z)), logsumexp(log_weights + log_ndtr(-z))


@compiled_if_large(_terms)
def _quantile(p: Any, log_weights: Any, loc: Any, sd: Any) -> Any:
    xp = namespace(p)
    in_lower_half = p < 0.5

    def value_and_slope(y):
        log_below, log_above = _log_tails(y, log_weights, loc, sd)
        value = xp.where(in_lower_half, log_below - xp.log(p), xp.log1p(-p) - log_above)
        log_tail = xp.where(in_lower_half, log_below, log_above)
        return value, xp.exp(_log_prob(y, log_weights, loc, sd) - log_tail)

    # The quantile of a mixture lies between the smallest and the largest of those of its parts.
    inside = (p > 0) & (p < 1)
    all_log_weights, all_loc, all_sd = _behind_leading(p, log_weights, loc, sd)
    parts = all_loc + all_sd * ndtri(xp.where(inside, p, 0.5))
    margin = 1e-9 * (all_sd.max(axis=0) + abs(all_loc).max(axis=0))
    guess, width = ((xp.exp(all_log_weights) * table).sum(axis=0) for table in (parts, all_sd))
    lower, upper = parts.min(axis=0) - margin, parts.max(axis=0) + margin
    root = increasing_root(value_and_slope, lower, upper, guess, unit=width)
    return xp.where(inside, root, xp.where(p < 0.5, -xp.inf, xp.inf))


@compiled_if_large(_pairs)
def _crps(y: Any, log_weights: Any, loc: Any, sd: Any) -> Any:
    xp = namespace(y)
    weights, loc, sd = xp.broadcast_arrays(xp.exp(log_weights), loc, sd)

    def half_mean_difference(tables):
        w, mu, s = tables
        distances = _mean_distance(mu[:, None] - mu, xp.hypot(s[:, None], s))
        return 0.5 * xp.einsum("i...,j...,ij...->...", w, w, distances)

    # Point by point: all pairs of nodes for all points at once would not fit in memory.
    by_point = tuple(xp.moveaxis(table, 1, 0) for table in (weights, loc, sd))
    if xp is np:
        spread = np.stack([half_mean_difference(tables) for tables in zip(*by_point, strict=True)])
    else:
        spread = jax.lax.map(half_mean_difference, by_point)
    weights, loc, sd = _behind_leading(y, weights, loc, sd)
    return (weights * _mean_distance(y - loc, sd)).sum(axis=0) - spread


def _mean_distance(mean: Any, sd: Any) -> Any:
    """Expectation of the absolute value of a normal variable."""
    r = mean / sd
    return mean * erf(r / math.sqrt(2)) + math.sqrt(2 / math.pi) * sd * namespace(r).exp(-0.5 * r**2)
