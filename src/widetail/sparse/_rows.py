"""Passes over rows of cached features: matrix products only, no kernel evaluation.

Rows come in chunks of one shape, the last one filled with rows of no weight, so that each pass is one compiled
function. Sums over a chunk are in the precision of the features, sums of chunks in float64.
"""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from widetail.numerics import with_rows
from widetail.sparse._draws import Nodes, draws_for, nodes_of
from widetail.sparse._triangles import explained, lower_gram, mirrored
from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Likelihood

CHUNK = 2048
SCORE_DRAWS = 256
FEWEST_ROWS = 32  # of a chunk
# Outputs times features up to which the curvature of every pair of outputs is kept: 32 MB.
MOST_COUPLED = 2048


@dataclasses.dataclass(frozen=True, eq=False)
class CachedRows:
    """Cached rows.

    Attributes:
        features: whitened, $L_Z^{-1} k_{Zx}$ as rows, shape (n, inducing); an array or a memory map.
        residual: $k_{xx} - |a_x|^2$, shape (n,).
        y: targets, shape (n, outputs), or class numbers (n,).
        counts: how often each row was observed, shape (n,).
    """

    features: np.ndarray
    residual: np.ndarray
    y: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(
        cls, features: np.ndarray, residual: np.ndarray, y: np.ndarray, counts: np.ndarray | None = None
    ) -> "CachedRows":
        """Rows with one observation each unless `counts` says otherwise."""
        dtype = features.dtype
        kept = y.astype(np.int32) if np.issubdtype(y.dtype, np.integer) else y.astype(dtype)
        counts = np.ones(len(y)) if counts is None else counts
        return cls(features, np.asarray(residual, dtype), kept, np.asarray(counts, dtype))

    def __len__(self) -> int:
        return len(self.y)

    def first(self, count: int) -> "CachedRows":
        """The first rows."""
        return CachedRows(self.features[:count], self.residual[:count], self.y[:count], self.counts[:count])

    def after(self, count: int) -> "CachedRows":
        """All but the first rows."""
        return CachedRows(self.features[count:], self.residual[count:], self.y[count:], self.counts[count:])

    def at(self, chosen: np.ndarray) -> "CachedRows":
        """Some of the rows."""
        return CachedRows(*(getattr(self, field.name)[chosen] for field in dataclasses.fields(self)))

    def followed_by(self, other: "CachedRows") -> "CachedRows":
        """These rows and then others."""
        names = [field.name for field in dataclasses.fields(self)]
        return CachedRows(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    def copied(self) -> "CachedRows":
        """In memory, and without holding on to the rows that these were taken from."""
        return CachedRows(*(np.array(getattr(self, field.name)) for field in dataclasses.fields(self)))

    def with_residual_share(self, share: float) -> "CachedRows":
        """With a part of the residual variance, or none of it."""
        return dataclasses.replace(self, residual=self.residual * self.residual.dtype.type(share))

    @property
    def observations(self) -> float:
        """How many rows were observed."""
        return float(np.sum(self.counts, dtype=np.float64))

    def chunks(self, *others: np.ndarray) -> Iterator[tuple[slice, tuple[np.ndarray, ...]]]:
        """Where a chunk lies, and its features, targets, counts and rows of `others`, all of one length."""
        size = chunk_rows(len(self))
        for start in range(0, len(self), size):
            here = slice(start, min(start + size, len(self)))
            parts = (self.features[here], self.y[here], self.counts[here], *(part[here] for part in others))
            yield here, tuple(with_rows(part, size, "zero") for part in parts)  # a count of zero: no weight


def chunk_rows(n: int) -> int:
    """Rows of a chunk; for few rows a power of two, so that few shapes are compiled."""
    return min(CHUNK, max(FEWEST_ROWS, 1 << (n - 1).bit_length()))


class Totals(NamedTuple):
    r"""Sums over rows of the expected log likelihood and its derivatives.

    Attributes:
        value: nats.
        slope: derivative in the whitened means, shape (outputs, inducing).
        curvature: $\sum_x \mathbb E[-\beta \ell''] a_x a_x^\top$ per output, shape (outputs, inducing, inducing).
        residual: the same sum with the residual variance in place of $a_x a_x^\top$, all outputs together.
    """

    value: float
    slope: np.ndarray
    curvature: np.ndarray
    residual: float


def variances(rows: CachedRows, q: Variational) -> np.ndarray:
    r"""Variance of f given a unit scale, $a_x^\top S_c a_x$ + residual, shape (n, outputs)."""
    root = np.asarray(q.root, rows.features.dtype)
    found = np.empty((len(rows), len(q.mean)), rows.features.dtype)
    with jax.enable_x64(True):
        root = jnp.asarray(root)
        for here, (features, *_) in rows.chunks():
            found[here] = np.asarray(explained(features, root))[: here.stop - here.start]
    return found + rows.residual[:, None]


def totals(rows: CachedRows, q: Variational, variance: np.ndarray, likelihood: Likelihood, nodes: Nodes) -> Totals:
    """The sums that a natural gradient needs."""
    value, open_part, slope, curvature = 0.0, 0.0, np.zeros(q.mean.shape), np.zeros(q.precision.shape)
    parameters, mean = as_numbers_of(rows, likelihood), np.asarray(q.mean, rows.features.dtype)
    with jax.enable_x64(True):
        for _, (features, y, counts, var, residual) in rows.chunks(variance, rows.residual):
            found = _totals(parameters, features, y, counts, var, residual, mean, nodes)
            value += float(np.sum(np.asarray(found[0], np.float64)))
            slope += np.asarray(found[1])
            curvature += np.asarray(found[2])
            open_part += float(found[3])
    return Totals(value, slope, curvature, open_part)


def contrast_gram(
    rows: CachedRows, q: Variational, variance: np.ndarray, likelihood: Likelihood, nodes: Nodes
) -> np.ndarray | None:
    r"""Curvature between outputs by the likelihood's `contrast_weights`; None where it has none.

    For few outputs and features $\sum_x (\delta_{cd} w_{xc} - w_{xc} w_{xd} / \sum_e w_{xe})\, a_x a_x^\top$, shape
    (outputs, outputs, inducing, inducing); for many $\sum_x w_{xc}\, a_x a_x^\top$, one matrix for every output.
    """
    by_pairs = q.mean.size <= MOST_COUPLED
    found = None
    parameters, mean = as_numbers_of(rows, likelihood), np.asarray(q.mean, rows.features.dtype)
    with jax.enable_x64(True):
        for _, (features, y, counts, var) in rows.chunks(variance):
            part = _contrast_gram(parameters, features, y, counts, var, mean, nodes, by_pairs)
            if part is None:
                return None
            found = np.asarray(part, np.float64) if found is None else found + np.asarray(part)
    return found


def value_and_slope(
    rows: CachedRows, mean: np.ndarray, variance: np.ndarray, likelihood: Likelihood, nodes: Nodes
) -> tuple[float, np.ndarray]:
    """Expected log likelihood and its derivative in the means, at a cost linear in the number of features."""
    value, slope = 0.0, np.zeros(mean.shape)
    parameters, mean = as_numbers_of(rows, likelihood), np.asarray(mean, rows.features.dtype)
    with jax.enable_x64(True):
        for _, (features, y, counts, var) in rows.chunks(variance):
            per_row, by_mean = _value_and_slope(parameters, features, y, counts, var, mean, nodes)
            value += float(np.sum(np.asarray(per_row, np.float64)))
            slope += np.asarray(by_mean)
    return value, slope


def values(rows: CachedRows, mean: np.ndarray, variance: np.ndarray, likelihood: Likelihood, nodes: Nodes) -> float:
    """Expected log likelihood of all rows."""
    value = 0.0
    parameters, mean = as_numbers_of(rows, likelihood), np.asarray(mean, rows.features.dtype)
    with jax.enable_x64(True):
        for _, (features, y, counts, var) in rows.chunks(variance):
            value += float(np.sum(np.asarray(_values(parameters, features, y, counts, var, mean, nodes), np.float64)))
    return value


def log_scores(
    rows: CachedRows, q: Variational, likelihood: Likelihood, seed: int = 0, draws: int = SCORE_DRAWS
) -> np.ndarray:
    """Log predictive density of every row, integrated over f and over the scale, shape (n,); higher is better."""
    nodes = nodes_of(q.law, likelihood, len(q.mean), seed, rows.features.dtype, draws)
    parameters, mean = as_numbers_of(rows, likelihood), np.asarray(q.mean, rows.features.dtype)
    found = np.empty(len(rows))
    with jax.enable_x64(True):
        for here, (features, y, _, var) in rows.chunks(variances(rows, q)):
            found[here] = np.asarray(_log_scores(parameters, features, y, var, mean, nodes))[: here.stop - here.start]
    return found


def log_score(rows: CachedRows, q: Variational, likelihood: Likelihood, seed: int = 0) -> float:
    """The mean of `log_scores`."""
    return float(np.average(log_scores(rows, q, likelihood, seed), weights=rows.counts))


def values_at(
    rows: CachedRows,
    mean: np.ndarray,
    variance: np.ndarray,
    likelihood: Likelihood,
    scales: np.ndarray,
    table: np.ndarray,
) -> np.ndarray:
    """Expected log likelihood of all rows at each of some scales, shape (scales,)."""
    dtype = rows.features.dtype
    parameters, mean = as_numbers_of(rows, likelihood), np.asarray(mean, dtype)
    scales, found = np.asarray(scales, dtype), np.zeros(len(scales))
    with jax.enable_x64(True):
        for _, (features, y, counts, var) in rows.chunks(variance):
            found += np.asarray(_values_at(parameters, features, y, counts, var, mean, scales, table))
    return found


def as_numbers_of(rows: CachedRows, likelihood: Likelihood) -> Likelihood:
    """A likelihood with parameters in the precision of the features."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, rows.features.dtype), likelihood)


def _expectations(likelihood: Likelihood, features: Any, y: Any, var: Any, mean: Any, nodes: Nodes) -> Any:
    return likelihood.expectations(
        features @ mean.T, var, y, nodes.scales, nodes.weights, draws_for(nodes, len(features))
    )


@jax.jit
def _totals(
    likelihood: Likelihood, features: Any, y: Any, counts: Any, var: Any, residual: Any, mean: Any, nodes: Nodes
) -> Any:
    found = _expectations(likelihood, features, y, var, mean, nodes)
    slope, curvature = found.slope * counts[:, None], found.curvature * counts[:, None]
    return (
        found.value * counts,
        slope.T @ features,
        mirrored(lower_gram(features, curvature)),
        jnp.sum(curvature * residual[:, None]),
    )


@functools.partial(jax.jit, static_argnums=7)
def _contrast_gram(
    likelihood: Likelihood, features: Any, y: Any, counts: Any, var: Any, mean: Any, nodes: Nodes, by_pairs: bool
) -> Any:
    found = _expectations(likelihood, features, y, var, mean, nodes)
    weights = likelihood.contrast_weights(found, y, nodes.weights @ nodes.scales)
    if weights is None:
        return None
    if not by_pairs:
        return mirrored(lower_gram(features, weights * counts[:, None]))
    outputs, total = weights.shape[1], jnp.sum(weights, axis=1, keepdims=True)
    shares = weights / jnp.maximum(total, jnp.finfo(weights.dtype).tiny)
    pairs = (jnp.eye(outputs, dtype=weights.dtype) - shares[:, :, None]) * weights[:, None, :] * counts[:, None, None]
    gram = mirrored(lower_gram(features, pairs.reshape(len(pairs), -1)))
    return gram.reshape(outputs, outputs, *gram.shape[1:])


@jax.jit
def _value_and_slope(
    likelihood: Likelihood, features: Any, y: Any, counts: Any, var: Any, mean: Any, nodes: Nodes
) -> Any:
    found = _expectations(likelihood, features, y, var, mean, nodes)
    return found.value * counts, (found.slope * counts[:, None]).T @ features


@jax.jit
def _values(likelihood: Likelihood, features: Any, y: Any, counts: Any, var: Any, mean: Any, nodes: Nodes) -> Any:
    return _expectations(likelihood, features, y, var, mean, nodes).value * counts


@jax.jit
def _log_scores(likelihood: Likelihood, features: Any, y: Any, var: Any, mean: Any, nodes: Nodes) -> Any:
    draws = draws_for(nodes, len(features))
    return likelihood.log_predictive(features @ mean.T, var, y, nodes.scales, nodes.weights, draws)


@jax.jit
def _values_at(
    likelihood: Likelihood, features: Any, y: Any, counts: Any, var: Any, mean: Any, scales: Any, table: Any
) -> Any:
    def one(scale: Any) -> Any:
        nodes = Nodes(scale[None], jnp.ones_like(scale)[None], table)
        value = _expectations(likelihood, features, y, var, mean, nodes).value * counts
        return jnp.sum(value.astype(jnp.float64))

    return jax.lax.map(one, scales)
