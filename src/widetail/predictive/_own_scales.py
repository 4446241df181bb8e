"""Targets whose noise has a scale of its own at every point."""

import functools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
import scipy.linalg
from jaxtyping import Array

from widetail.mixing import ScalePosterior
from widetail.numerics.special import erf, ndtr
from widetail.predictive._base import Predictive, points_index
from widetail.predictive._elliptical import checked_location
from widetail.predictive._matrix import LazyMatrix, LazyVector
from widetail.predictive._mixture import NormalMixture
from widetail.priors import Values

# A law of the readout variance that many rows have narrowed, to this standard deviation of its logarithm, needs few
# nodes.
_NARROW = 0.4
_FEW_SCALE_NODES = 9
_MOST_SCALE_NODES = 32
_RAREST_SCALE = 1e-14
_NOISE_NODES = 64
_RAREST_NOISE = 1e-22
_LOG_STEP = 0.25  # of the grid on which the square of the upper tail is integrated


class OwnScales(Predictive):
    r"""$y_i \mid \beta, r_i \sim N(\mathrm{loc}_i, \beta (v_i + r_i))$: $\beta$ is shared, $r_i$ is each point's.

    What noise with a scale per row, or with a variance that is itself uncertain, leads to. Marginals are mixtures over
    the nodes of both laws. Of the joint law there are draws, but no density: it would be an integral over the noise of
    all points at once.

    Args:
        scale: law of the readout variance $\beta$.
        loc: location, of shape (m,) or (m, D).
        dispersion: v, the variance of the function per unit of readout variance, of shape (m,).
        noise: nodes of the law of r, the noise variance per unit of readout variance, of shape (Q, m).
        log_weights: logs of their probabilities, of shape (Q,).
        matrix: covariance of the function, of shape (m, m), or a function without arguments that returns it.
        tail_index: of the law of r: powers of it up to this have a mean.
        thin: whether the nodes are those of a trapezoidal rule, of which every k-th is one too.

    Example:
        >>> import numpy as np
        >>> from widetail import mixing, predictive, priors
        >>> scale = mixing.scale_posterior(priors.PointMass(1.0))
        >>> dist = predictive.OwnScales(scale, np.zeros(1), np.ones(1), np.array([[0.0], [3.0]]), np.log([0.5, 0.5]))
        >>> dist.var.tolist()
        [2.5]
    """

    scale: ScalePosterior
    loc: Any
    _dispersion: Any
    noise: Any
    log_weights: Any
    matrix: LazyMatrix
    tail_index: Any
    thin: bool = eqx.field(static=True)
    _lazy: Callable[[], NormalMixture] = eqx.field(static=True)

    def __init__(
        self,
        scale: ScalePosterior,
        loc: Any,
        dispersion: Any,
        noise: Any,
        log_weights: Any,
        matrix: Any = None,
        tail_index: Any = math.inf,
        *,
        thin: bool = True,
    ):
        self.scale, self.thin = scale, thin
        self.loc, self._dispersion, self.matrix = checked_location("OwnScales", loc, dispersion, matrix)
        self.noise, self.log_weights = np.asarray(noise, float), np.asarray(log_weights, float)
        if self.log_weights.ndim != 1 or self.noise.shape != (len(self.log_weights), len(self.loc)):
            raise ValueError(
                f"OwnScales: noise and log_weights must have shapes (Q, m) and (Q,) with m = {len(self.loc)}; "
                f"got {self.noise.shape} and {self.log_weights.shape}."
            )
        self.tail_index = np.minimum(np.min(np.asarray(scale.tail_index)), np.asarray(tail_index, float))
        self._lazy = functools.cache(self._mixture)

    @property
    def marginal(self) -> NormalMixture:
        """The law of each point by itself; made when first asked for, which locations are not."""
        return self._lazy()

    @property
    def dispersion(self) -> Any:
        """Variance of the function per unit of readout variance, of shape (m,)."""
        return self._dispersion.values() if isinstance(self._dispersion, LazyVector) else self._dispersion

    def _mixture(self) -> NormalMixture:
        loc = self.loc
        nodes, log_nodes = _scale_nodes(self.scale)
        most = _NOISE_NODES if self.thin else len(self.log_weights)
        keep, log_keep = _thinned(np.arange(len(self.log_weights)), self.log_weights, most, _RAREST_NOISE)
        law = nodes.shape[1:] if loc.ndim == 2 else ()
        nodes, log_nodes = (table.reshape((len(table), *law)) for table in (nodes, log_nodes))
        noise = self.noise[keep.astype(int)]
        total = (self.dispersion + noise).reshape((1, *noise.shape) + (1,) * len(law))
        dispersion = nodes.reshape((-1, 1, 1, *law)) * total
        weights = log_nodes[:, None] + log_keep.reshape((-1,) + (1,) * len(law))
        return NormalMixture(
            weights.reshape((-1, *law)),
            np.broadcast_to(loc, (dispersion.shape[0] * dispersion.shape[1], *loc.shape)),
            dispersion.reshape((-1, *dispersion.shape[2:])),
            tail_index=self.tail_index,
        )

    @property
    def event_shape(self) -> tuple[int, ...]:
        return np.shape(self.loc)

    def __getitem__(self, index: Any) -> "OwnScales":
        rows = points_index(index, self.event_shape[0])
        is_lazy = isinstance(self._dispersion, LazyVector)
        dispersion = (lambda: self.dispersion[rows]) if is_lazy else self.dispersion[rows]
        parts = (self.loc[rows], dispersion, self.noise[:, rows], self.log_weights)
        matrix = self.matrix[rows] if len(rows) > 1 else None
        return OwnScales(self.scale, *parts, matrix, self.tail_index, thin=self.thin)

    def _mean(self) -> Values:
        return np.where(self.tail_index > 0.5, self.loc, np.nan)

    def _median(self) -> Values:
        return self.loc

    def _var(self) -> Values:
        return self.marginal._var()

    def _log_prob(self, y: Values) -> Values:
        return self.marginal._log_prob(y)

    def _joint_log_prob(self, y: Values) -> Values:
        if self.event_shape[0] == 1 and len(self.event_shape) == 1:
            return self._log_prob(y)[..., 0]
        raise ValueError(
            "joint_log_prob: every point has a noise scale of its own, and the joint density is an integral over all "
            "of them; use log_prob for each point by itself, posterior.f for the function, or sample."
        )

    def _cdf(self, y: Values) -> Values:
        return self.marginal._cdf(y)

    def _above(self, y: Values) -> Values:
        return self.marginal._above(y)

    def _quantile(self, p: Values) -> Values:
        return self.marginal._quantile(p)

    def _crps(self, y: Values) -> Values:
        r"""$2\int_0^\infty \bar F(x)^2 dx + E|X - y| - E|X|$ around the location, finite where the tail allows."""
        log_weights, loc, sd = (np.asarray(table) for table in self.marginal._tables())
        weights, sd = np.broadcast_arrays(np.exp(log_weights), sd)
        smallest, largest = np.maximum(sd.min(axis=0), 1e-300), sd.max(axis=0)
        steps = int(np.ceil((np.max(np.log(largest / smallest)) + 25.0 + 2.5) / _LOG_STEP))
        both = np.zeros(sd.shape[1:])
        for step in range(steps):
            x = smallest * math.exp(-25.0 + _LOG_STEP * step)
            both += x * (weights * ndtr(-x / sd)).sum(axis=0) ** 2
        distance = abs(y - loc[0])
        leading = (1,) * (y.ndim - len(self.event_shape))
        weights, sd = (t.reshape((t.shape[0], *leading, *t.shape[1:])) for t in (weights, sd))
        excess = _excess(distance, sd)
        crps = 2 * _LOG_STEP * both + (weights * excess).sum(axis=0)
        return np.where(self.tail_index > 0.25, crps, np.inf)

    def _draw(self, key: Array, shape: tuple[int, ...]) -> Values:
        scale_key, node_key, function_key, noise_key = jax.random.split(key, 4)
        points, outputs = (*self.event_shape, 1)[:2]
        beta = np.exp(np.asarray(self.scale.draw_log(scale_key, shape)))
        beta = beta.reshape((*shape, 1, -1))
        chosen = np.asarray(jax.random.categorical(node_key, self.log_weights, shape=(*shape, points)))
        noise = self.noise[chosen, np.arange(points)][..., None]
        normal, fresh = (
            np.asarray(jax.random.normal(k, (*shape, points, outputs), dtype=float)) for k in (function_key, noise_key)
        )
        function = np.einsum("ij,...jd->...id", np.asarray(self.matrix.safe_factor()), normal)
        draws = self.loc.reshape((points, outputs)) + np.sqrt(beta) * (function + np.sqrt(noise) * fresh)
        return draws.reshape(shape + self.event_shape)


def _scale_nodes(scale: ScalePosterior) -> tuple[np.ndarray, np.ndarray]:
    """Readout variances and the logs of their probabilities, as few as the law allows; shapes (B, *law)."""
    nodes, log_weights = _thinned(*scale.nodes(), 4 * _MOST_SCALE_NODES, _RAREST_SCALE)
    points, weights = np.log(nodes), np.exp(log_weights)
    centre = (weights * points).sum(axis=0)
    if len(points) <= _FEW_SCALE_NODES:
        return nodes, log_weights
    if np.any((weights * (points - centre) ** 2).sum(axis=0) > _NARROW**2):
        return _thinned(nodes, log_weights, _MOST_SCALE_NODES, _RAREST_SCALE)
    columns = zip(points.reshape((len(points), -1)).T, weights.reshape((len(points), -1)).T, strict=True)
    rules = [_gauss(*column) for column in columns]
    shape = (_FEW_SCALE_NODES, *points.shape[1:])
    few, chance = (np.stack(part, axis=1).reshape(shape) for part in zip(*rules, strict=True))
    return np.exp(few), np.log(chance)


def _gauss(points: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Gauss rule of a discrete law, by Lanczos: exact for polynomials up to twice its number of nodes."""
    unit = max(float(np.ptp(points)), 1e-300)
    scaled = (points - points @ weights) / unit
    basis = [np.sqrt(weights) / np.linalg.norm(np.sqrt(weights))]
    diagonal, beside = [], []
    for _ in range(_FEW_SCALE_NODES):
        step = scaled * basis[-1]
        diagonal.append(basis[-1] @ step)
        for vector in basis * 2:  # twice: rounding makes them lean towards each other
            step = step - (vector @ step) * vector
        beside.append(np.linalg.norm(step))
        basis.append(step / max(beside[-1], 1e-300))
    nodes, vectors = scipy.linalg.eigh_tridiagonal(np.array(diagonal), np.array(beside[:-1]))
    return points @ weights + unit * nodes, np.maximum(vectors[0] ** 2, 1e-300)


def _thinned(points: Any, log_weights: Any, most: int, rarest: float) -> tuple[np.ndarray, np.ndarray]:
    """Every k-th node of a trapezoidal rule, which is one itself, without those of next to no weight."""
    points, log_weights = np.asarray(points, float), np.asarray(log_weights, float)
    weight = np.exp(log_weights).reshape((len(log_weights), -1)).max(axis=1)
    kept = np.flatnonzero(weight > rarest * weight.max())
    inside = slice(kept[0], kept[-1] + 1)
    points, log_weights = points[inside], log_weights[inside]
    every = max(1, len(points) // most)
    points, log_weights = points[::every], log_weights[::every]
    return points, log_weights - np.log(np.exp(log_weights).sum(axis=0))


def _excess(distance: Any, sd: Any) -> Any:
    r"""$E|sZ - d| - E|sZ|$."""
    r = distance / sd
    return math.sqrt(2 / math.pi) * sd * np.expm1(-0.5 * r**2) + distance * erf(r / math.sqrt(2))
