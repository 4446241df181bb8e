"""Mixtures of normal distributions, each with its own location and covariance."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf, log_ndtr, ndtri
from jaxtyping import Array

from widetail._arrays import is_traced
from widetail._roots import increasing_root
from widetail.predictive._base import Predictive, points_index
from widetail.predictive._elliptical import as_double
from widetail.predictive._matrix import LazyMatrix


class NormalMixture(Predictive):
    r"""With probability $w_j$: $y_d \sim \mathcal N(\mathrm{loc}_{jd}, V_j)$, for J nodes j.

    What noise outside of the scale leads to: the location depends on the readout variance. All outputs share
    the node; with `log_weights` of shape (J, D) each output has a node of its own, and outputs are independent.

    The nodes are taken as they are. `joint_log_prob` of many more values than the nodes were made from is
    therefore only as good as the nodes are dense.

    Args:
        log_weights: logs of the probabilities, of shape (J,) or (J, D).
        loc: means, of shape (J, m) or (J, m, D).
        dispersion: variances, of shape (J, m), or (J, m, D) where the outputs have nodes of their own.
        matrix: function of the number j that returns $V_j$, of shape (m, m), or (D, m, m) where the outputs have
            nodes of their own; only `joint_log_prob` and `sample` need it, one at a time.
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
        self.log_weights, self.loc, self.dispersion = as_double(log_weights), as_double(loc), as_double(dispersion)
        self.matrix = matrix
        self.tail_index = as_double(tail_index)
        self._check_shapes()

    def _check_shapes(self) -> None:
        weights, loc, dispersion = self.log_weights.shape, self.loc.shape, self.dispersion.shape
        law = loc[2:] if len(weights) == 2 else ()
        if len(loc) not in (2, 3) or weights != (loc[0], *law) or dispersion != (*loc[:2], *law):
            raise ValueError(
                f"NormalMixture: log_weights, loc and dispersion must have shapes (J,), (J, m[, D]) and (J, m), or "
                f"(J, D), (J, m, D) and (J, m, D), got {weights}, {loc} and {dispersion}; put the nodes first."
            )

    @property
    def event_shape(self) -> tuple[int, ...]:
        """See `Predictive`."""
        return jnp.shape(self.loc)[1:]

    def __getitem__(self, index: Any) -> "NormalMixture":
        """See `Predictive`."""
        rows = points_index(index, self.event_shape[0])
        matrix = self.matrix
        some = None if matrix is None else lambda j: jnp.asarray(matrix(j))[..., rows, :][..., rows]
        return NormalMixture(self.log_weights, self.loc[:, rows], self.dispersion[:, rows], some, self.tail_index)

    def _tables(self) -> tuple[Array, Array, Array]:
        """Log weights, locations and standard deviations, broadcasting to (J, m[, D])."""
        sd = jnp.sqrt(self.dispersion)
        missing = self.loc.ndim - sd.ndim
        weights = self.log_weights.reshape(
            (-1,) + (1,) * (self.loc.ndim - self.log_weights.ndim) + jnp.shape(self.log_weights)[1:]
        )
        return weights, jnp.asarray(self.loc, float), sd.reshape(sd.shape + (1,) * missing)

    def _mean(self) -> Array:
        log_weights, loc, _ = self._tables()
        return jnp.where(self.tail_index > 0.5, jnp.sum(jnp.exp(log_weights) * loc, axis=0), jnp.nan)

    def _var(self) -> Array:
        log_weights, loc, sd = self._tables()
        weights = jnp.exp(log_weights)
        mean = jnp.sum(weights * loc, axis=0)
        var = jnp.sum(weights * (sd**2 + (loc - mean) ** 2), axis=0)
        return jnp.where(self.tail_index > 1, var, jnp.where(self.tail_index > 0.5, jnp.inf, jnp.nan))

    def _log_prob(self, y: Array) -> Array:
        return _log_prob(y, *self._tables())

    def _cdf(self, y: Array) -> Array:
        log_below, log_above = _log_tails(y, *self._tables())
        return jnp.where(log_below < log_above, jnp.exp(log_below), -jnp.expm1(log_above))

    def _quantile(self, p: Array) -> Array:
        p = jnp.broadcast_to(p.reshape(p.shape + (1,) * len(self.event_shape)), p.shape + self.event_shape)
        return _quantile(p, *self._tables())

    def _crps(self, y: Array) -> Array:
        return jnp.where(self.tail_index > 0.25, _crps(y, *self._tables()), jnp.inf)

    def _joint_log_prob(self, y: Array) -> Array:
        points, outputs = (*self.event_shape, 1)[:2]
        y = y.reshape((*y.shape[: y.ndim - len(self.event_shape)], points, outputs))
        terms = []
        for j, matrix in self._matrices():
            residual = jnp.moveaxis(y - self.loc[j].reshape((points, outputs)), -1, -2)[..., None]
            factor = jnp.broadcast_to(matrix.exact_factor(), (*residual.shape[:-2], points, points))
            white = jax.scipy.linalg.solve_triangular(factor, residual, lower=True)[..., 0]
            half_log_det = jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
            constant = half_log_det + 0.5 * points * math.log(2 * math.pi)
            terms.append(-0.5 * jnp.sum(white**2, axis=-1) - constant)
        per_output = jnp.stack(terms)
        if jnp.ndim(self.log_weights) == 2:
            weights = self.log_weights.reshape((-1,) + (1,) * (per_output.ndim - 2) + (outputs,))
            return jnp.sum(jax.nn.logsumexp(per_output + weights, axis=0), axis=-1)
        together = jnp.sum(per_output, axis=-1)
        return jax.nn.logsumexp(together + self.log_weights.reshape((-1,) + (1,) * (together.ndim - 1)), axis=0)

    def _draw(self, key: Array, shape: tuple[int, ...]) -> Array:
        node_key, normal_key = jax.random.split(key)
        law = jnp.shape(self.log_weights)[1:]
        points, outputs = (*self.event_shape, 1)[:2]
        chosen = jax.random.categorical(node_key, self.log_weights, axis=0, shape=shape + law)
        chosen = chosen.reshape(shape + (1,) + (law or (1,)))
        normal = jax.random.normal(normal_key, (*shape, points, outputs), dtype=float)
        draws = jnp.zeros_like(normal)
        is_needed = None if is_traced(chosen) else set(np.unique(np.asarray(chosen)).tolist())
        for j, matrix in self._matrices(is_needed):
            factor = jnp.asarray(matrix.safe_factor(), float)
            coloured = jnp.einsum("dij,...jd->...id" if factor.ndim == 3 else "ij,...jd->...id", factor, normal)
            draws = jnp.where(chosen == j, self.loc[j].reshape((points, outputs)) + coloured, draws)
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
                single = jnp.asarray(self.dispersion[j], float)
                yield j, LazyMatrix(lambda single=single: single.reshape((*single.shape[1:], 1, 1)))
            else:
                yield j, LazyMatrix(lambda j=j: matrix(j))


def _behind_leading(values: Array, *tables: Array) -> tuple[Array, ...]:
    """Tables of shape (J, *event) with ones inserted, to broadcast with values of shape (*leading, *event)."""
    return tuple(
        table.reshape((table.shape[0],) + (1,) * (values.ndim - table.ndim + 1) + table.shape[1:]) for table in tables
    )


@jax.jit
def _log_prob(y: Array, log_weights: Array, loc: Array, sd: Array) -> Array:
    log_weights, loc, sd = _behind_leading(y, log_weights, loc, sd)
    log_normal = -0.5 * ((y - loc) / sd) ** 2 - jnp.log(sd) - 0.5 * math.log(2 * math.pi)
    return jax.nn.logsumexp(log_weights + log_normal, axis=0)


@jax.jit
def _log_tails(y: Array, log_weights: Array, loc: Array, sd: Array) -> tuple[Array, Array]:
    log_weights, loc, sd = _behind_leading(y, log_weights, loc, sd)
    z = (y - loc) / sd
    below = jax.nn.logsumexp(log_weights + log_ndtr(z), axis=0)
    return below, jax.nn.logsumexp(log_weights + log_ndtr(-z), axis=0)


@jax.jit
def _quantile(p: Array, log_weights: Array, loc: Array, sd: Array) -> Array:
    in_lower_half = p < 0.5

    def value_and_slope(y: Array) -> tuple[Array, Array]:
        log_below, log_above = _log_tails(y, log_weights, loc, sd)
        value = jnp.where(in_lower_half, log_below - jnp.log(p), jnp.log1p(-p) - log_above)
        log_tail = jnp.where(in_lower_half, log_below, log_above)
        return value, jnp.exp(_log_prob(y, log_weights, loc, sd) - log_tail)

    # The quantile of a mixture lies between the smallest and the largest of those of its parts.
    inside = (p > 0) & (p < 1)
    _, all_loc, all_sd = _behind_leading(p, log_weights, loc, sd)
    parts = all_loc + all_sd * ndtri(jnp.where(inside, p, 0.5))
    margin = 1e-9 * (jnp.max(all_sd, axis=0) + jnp.max(jnp.abs(all_loc), axis=0))
    root = increasing_root(value_and_slope, jnp.min(parts, axis=0) - margin, jnp.max(parts, axis=0) + margin)
    return jnp.where(inside, root, jnp.where(p < 0.5, -jnp.inf, jnp.inf))


@jax.jit
def _crps(y: Array, log_weights: Array, loc: Array, sd: Array) -> Array:
    weights, loc, sd = jnp.broadcast_arrays(jnp.exp(log_weights), loc, sd)

    def half_mean_difference(tables: tuple[Array, Array, Array]) -> Array:
        w, mu, s = tables
        distances = _mean_distance(mu[:, None] - mu, jnp.hypot(s[:, None], s))
        return 0.5 * jnp.einsum("i...,j...,ij...->...", w, w, distances)

    # Point by point: all pairs of nodes for all points at once would not fit in memory.
    spread = jax.lax.map(half_mean_difference, tuple(jnp.moveaxis(table, 1, 0) for table in (weights, loc, sd)))
    weights, loc, sd = _behind_leading(y, weights, loc, sd)
    return jnp.sum(weights * _mean_distance(y - loc, sd), axis=0) - spread


def _mean_distance(mean: Array, sd: Array) -> Array:
    """Expectation of the absolute value of a normal variable."""
    r = mean / sd
    return mean * erf(r / math.sqrt(2)) + math.sqrt(2 / math.pi) * sd * jnp.exp(-0.5 * r**2)
