"""Distributions with one location: a normal vector times a random scale."""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from widetail._arrays import double_precision, is_traced
from widetail.predictive._base import Predictive, points_index
from widetail.predictive._matrix import LazyMatrix, missing_matrix


class Elliptical(Predictive):
    r"""$y = \mathrm{loc} + \sqrt{\beta}\, e$ with $e \sim \mathcal N(0, V)$ for each output and a random $\beta$.

    A subclass knows the law of $\sqrt\beta$ times a standard normal variable, and gives it by the methods
    that start with `_standard`, and draws of $\beta$. The law is the same for all points; it may differ between the
    outputs, which are then independent.
    """

    loc: eqx.AbstractVar[Any]
    dispersion: eqx.AbstractVar[Any]
    matrix: eqx.AbstractVar[LazyMatrix]

    @property
    def event_shape(self) -> tuple[int, ...]:
        """See `Predictive`."""
        return jnp.shape(self.loc)

    @abc.abstractmethod
    def _standard_mean_exists(self) -> Array: ...

    @abc.abstractmethod
    def _standard_var(self) -> Array: ...

    @abc.abstractmethod
    def _standard_cdf(self, z: Array) -> Array: ...

    @abc.abstractmethod
    def _standard_quantile(self, p: Array) -> Array: ...

    @abc.abstractmethod
    def _standard_crps(self, z: Array) -> Array: ...

    @abc.abstractmethod
    def _log_expected_gaussian(self, count: int, quad: Array) -> Array:
        r"""$\log \mathbb E[\beta^{-c/2} e^{-q/(2\beta)}]$; the trailing axis of q is that of the law."""

    @abc.abstractmethod
    def _draw_scale(self, key: Array, shape: tuple[int, ...]) -> Array:
        """Draws of the scale, of shape `shape` followed by `_law_shape`."""

    @property
    @abc.abstractmethod
    def _law_shape(self) -> tuple[int, ...]:
        """`()` when the outputs share their scale, `(D,)` when each has its own."""

    @abc.abstractmethod
    def _at_points(self, loc: Any, dispersion: Any, matrix: LazyMatrix) -> "Elliptical": ...

    def __getitem__(self, index: Any) -> "Elliptical":
        """See `Predictive`."""
        rows = points_index(index, self.event_shape[0])
        matrix = self.matrix[rows] if len(rows) > 1 else one_point_matrix(self.dispersion[rows])
        return self._at_points(self.loc[rows], self.dispersion[rows], matrix)

    def _width(self) -> Array:
        """Square root of the dispersion, of a shape that broadcasts with the values."""
        return jnp.sqrt(self.dispersion).reshape((-1,) + (1,) * (len(self.event_shape) - 1))

    def _mean(self) -> Array:
        return jnp.where(self._standard_mean_exists(), self.loc, jnp.nan)

    def _var(self) -> Array:
        return jnp.broadcast_to(self._width() ** 2 * self._standard_var(), self.event_shape)

    def _standardise(self, y: Array) -> tuple[Array, Array]:
        """Values in units of their width, and which of them have one: the others are known exactly."""
        width = self._width()
        random = jnp.broadcast_to(width > 0, y.shape)
        return jnp.where(random, (y - self.loc) / jnp.where(width > 0, width, 1.0), 0.0), random

    def _log_prob(self, y: Array) -> Array:
        z, random = self._standardise(y)
        log_density = self._log_expected_gaussian(1, z**2) - jnp.log(self._width())
        known = jnp.where(y == self.loc, jnp.inf, -jnp.inf)
        return jnp.where(random, log_density - 0.5 * math.log(2 * math.pi), known)

    def _joint_log_prob(self, y: Array) -> Array:
        outputs = (*self.event_shape, 1)[1]
        residual = (y - self.loc).reshape((*y.shape[: y.ndim - len(self.event_shape)], -1, outputs))
        factor = jnp.asarray(self.matrix.exact_factor(), float)
        factor = jnp.broadcast_to(factor, (*residual.shape[:-2], *factor.shape))
        white = jax.scipy.linalg.solve_triangular(factor, residual, lower=True)
        quad = jnp.sum(white**2, axis=-2)
        points = residual.shape[-2]
        if self._law_shape:
            log_density = jnp.sum(self._log_expected_gaussian(points, quad), axis=-1)
        else:
            log_density = self._log_expected_gaussian(points * outputs, jnp.sum(quad, axis=-1))
        half_log_det = jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
        return log_density - outputs * (half_log_det + 0.5 * points * math.log(2 * math.pi))

    def _cdf(self, y: Array) -> Array:
        z, random = self._standardise(y)
        return jnp.where(random, self._standard_cdf(z), jnp.where(y >= self.loc, 1.0, 0.0))

    def _quantile(self, p: Array) -> Array:
        p = p.reshape(p.shape + (1,) * len(self.event_shape))
        width = self._width()
        # A point that is known exactly has no infinite quantile.
        return self.loc + jnp.where(width > 0, width * self._standard_quantile(p), 0.0)

    def _draw(self, key: Array, shape: tuple[int, ...]) -> Array:
        scale_key, normal_key = jax.random.split(key)
        scale = self._draw_scale(scale_key, shape)
        scale = scale.reshape(shape + (1,) * (len(self.event_shape) - len(self._law_shape)) + self._law_shape)
        normal = jax.random.normal(normal_key, shape + self.event_shape, dtype=float)
        factor = jnp.asarray(self.matrix.safe_factor(), float)
        columns = normal.reshape((*shape, self.event_shape[0], -1))
        coloured = jnp.einsum("ij,...jd->...id", factor, columns).reshape(normal.shape)
        return self.loc + jnp.sqrt(scale) * coloured

    def _crps(self, y: Array) -> Array:
        z, random = self._standardise(y)
        return jnp.where(random, self._width() * self._standard_crps(z), jnp.abs(y - self.loc))


def checked_location(owner: str, loc: Any, dispersion: Any, matrix: Any) -> tuple[Any, Any, LazyMatrix]:
    """Location, dispersion and matrix as an elliptical distribution stores them; bad shapes and values raise."""
    loc, dispersion = as_double(loc), as_double(dispersion)
    if loc.ndim not in (1, 2):
        raise ValueError(f"{owner}: loc must have shape (m,) or (m, D), got {loc.shape}; add or drop an axis.")
    if dispersion.shape != loc.shape[:1]:
        raise ValueError(
            f"{owner}: dispersion must have shape {loc.shape[:1]}, one number for each row of loc, got "
            f"{dispersion.shape}; pass the diagonal, and the full matrix as `matrix`."
        )
    # A variance that is negative by rounding is a point that is known exactly.
    if not is_traced(dispersion) and not np.all(dispersion >= 0):
        raise ValueError(
            f"{owner}: dispersion must be zero or more, got a smallest value of {np.min(dispersion)}; "
            f"clip what is rounding at zero, or check the kernel."
        )
    return loc, dispersion, as_matrix(matrix, dispersion)


def as_matrix(matrix: Any, dispersion: Any) -> LazyMatrix:
    """A matrix, a function that returns one, or None, as a `LazyMatrix`."""
    if isinstance(matrix, LazyMatrix):
        return matrix
    if matrix is None:
        return one_point_matrix(dispersion) if len(dispersion) == 1 else missing_matrix(len(dispersion))
    return LazyMatrix(matrix if callable(matrix) else lambda: matrix)


def one_point_matrix(dispersion: Any) -> LazyMatrix:
    """The matrix of a single point is its dispersion."""
    return LazyMatrix(lambda: dispersion[:, None])


@double_precision
def as_double(array: Any) -> Any:
    """A float64 NumPy array, or a traced array."""
    return jnp.asarray(array, float)
