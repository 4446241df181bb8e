"""Distributions with one location: a normal vector times a random scale."""

import abc
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array

from widetail.numerics import concrete, is_traced, namespace
from widetail.predictive._base import Predictive, points_index
from widetail.predictive._matrix import LazyMatrix, LazyVector, missing_matrix
from widetail.priors import Values


class Elliptical(Predictive):
    r"""$y = \mathrm{loc} + \sqrt{\beta}\, e$ with $e \sim \mathcal N(0, V)$ for each output and a random $\beta$.

    A subclass knows the law of $\sqrt\beta$ times a standard normal variable, and gives it by the methods
    that start with `_standard`, and draws of $\beta$. The law is the same for all points; it may differ between the
    outputs, which are then independent.
    """

    loc: eqx.AbstractVar[Any]
    _dispersion: eqx.AbstractVar[Any]  # an array, or a LazyVector
    matrix: eqx.AbstractVar[LazyMatrix]

    @property
    def dispersion(self) -> Any:
        """The diagonal of V, of shape (m,); computed when first asked for, where a function was given for it."""
        return self._dispersion.values() if isinstance(self._dispersion, LazyVector) else self._dispersion

    @property
    def event_shape(self) -> tuple[int, ...]:
        return jnp.shape(self.loc)

    @abc.abstractmethod
    def _standard_mean_exists(self) -> Any: ...

    @abc.abstractmethod
    def _standard_var(self) -> Values: ...

    @abc.abstractmethod
    def _standard_cdf(self, z: Values) -> Values: ...

    @abc.abstractmethod
    def _standard_quantile(self, p: Values) -> Values: ...

    @abc.abstractmethod
    def _standard_crps(self, z: Values) -> Values: ...

    @abc.abstractmethod
    def _log_expected_gaussian(self, count: int, quad: Values) -> Values:
        r"""$\log \mathbb E[\beta^{-c/2} e^{-q/(2\beta)}]$; the trailing axis of q is that of the law."""

    @abc.abstractmethod
    def _draw_scale(self, key: Array, shape: tuple[int, ...]) -> Values:
        """Draws of the scale, of shape `shape` followed by `_law_shape`."""

    @property
    @abc.abstractmethod
    def _law_shape(self) -> tuple[int, ...]:
        """`()` when the outputs share their scale, `(D,)` when each has its own."""

    @abc.abstractmethod
    def _at_points(self, loc: Any, dispersion: Any, matrix: LazyMatrix | None) -> "Elliptical": ...

    def __getitem__(self, index: Any) -> "Elliptical":
        rows = points_index(index, self.event_shape[0])
        is_lazy = isinstance(self._dispersion, LazyVector)
        dispersion = (lambda: self.dispersion[rows]) if is_lazy else self.dispersion[rows]
        return self._at_points(self.loc[rows], dispersion, self.matrix[rows] if len(rows) > 1 else None)

    def _width(self) -> Values:
        """Square root of the dispersion, of a shape that broadcasts with the values."""
        width = namespace(self).sqrt(self.dispersion)
        return width.reshape((-1,) + (1,) * (len(self.event_shape) - 1))

    def _mean(self) -> Values:
        xp = namespace(self)
        return xp.where(self._standard_mean_exists(), self.loc, xp.nan)

    def _median(self) -> Values:
        return self.loc

    def _var(self) -> Values:
        return namespace(self).broadcast_to(self._width() ** 2 * self._standard_var(), self.event_shape)

    def _cov(self) -> Values:
        xp = namespace(self)
        matrix, factor = self.matrix.values(), self._standard_var()
        if len(self.event_shape) == 2:
            matrix, factor = matrix[..., None], xp.broadcast_to(factor, self.event_shape[1:])
        return xp.where(xp.isfinite(factor), matrix * xp.where(xp.isfinite(factor), factor, 1.0), factor)

    def _standardise(self, y: Values) -> tuple[Values, Any]:
        """Values in units of their width, and which of them have one: the others are known exactly."""
        xp = namespace(self, y)
        width = self._width()
        random = xp.broadcast_to(width > 0, y.shape)
        return xp.where(random, (y - self.loc) / xp.where(width > 0, width, 1.0), 0.0), random

    def _log_prob(self, y: Values) -> Values:
        xp = namespace(self, y)
        z, random = self._standardise(y)
        log_density = self._log_expected_gaussian(1, z**2) - xp.log(self._width())
        known = xp.where(y == self.loc, xp.inf, -xp.inf)
        return xp.where(random, log_density - 0.5 * math.log(2 * math.pi), known)

    def _joint_log_prob(self, y: Values) -> Values:
        points, outputs = (*self.event_shape, 1)[:2]
        residual = (y - self.loc).reshape((*y.shape[: y.ndim - len(self.event_shape)], points, outputs))
        quad, half_log_det = squared_length(self.matrix.exact_factor(), residual)
        if self._law_shape:
            log_density = self._log_expected_gaussian(points, quad).sum(axis=-1)
        else:
            log_density = self._log_expected_gaussian(points * outputs, quad.sum(axis=-1))
        return log_density - outputs * (half_log_det + 0.5 * points * math.log(2 * math.pi))

    def _cdf(self, y: Values) -> Values:
        xp = namespace(self, y)
        z, random = self._standardise(y)
        return xp.where(random, self._standard_cdf(z), xp.where(y >= self.loc, 1.0, 0.0))

    def _above(self, y: Values) -> Values:
        xp = namespace(self, y)
        z, random = self._standardise(y)
        return xp.where(random, self._standard_cdf(-z), xp.where(y >= self.loc, 0.0, 1.0))

    def _quantile(self, p: Values) -> Values:
        width = self._width()
        p = p.reshape(p.shape + (1,) * len(self.event_shape))
        # A point that is known exactly has no infinite quantile.
        return self.loc + namespace(self, p).where(width > 0, width * self._standard_quantile(p), 0.0)

    def _draw(self, key: Array, shape: tuple[int, ...]) -> Values:
        scale_key, normal_key = jax.random.split(key)
        scale = self._draw_scale(scale_key, shape)
        scale = scale.reshape(shape + (1,) * (len(self.event_shape) - len(self._law_shape)) + self._law_shape)
        places = (*shape, self.event_shape[0], math.prod(self.event_shape[1:]))
        normal = concrete(jax.random.normal(normal_key, places, dtype=float))
        coloured = (self.matrix.safe_factor() @ normal).reshape(shape + self.event_shape)
        return self.loc + scale**0.5 * coloured

    def _crps(self, y: Values) -> Values:
        xp = namespace(self, y)
        z, random = self._standardise(y)
        return xp.where(random, self._width() * self._standard_crps(z), xp.abs(y - self.loc))


def squared_length(factor: Any, residual: Any) -> tuple[Any, Any]:
    """Squares of the residuals in units of a covariance, and half of its log determinant.

    Args:
        factor: Cholesky factor of the covariance, of shape (m, m), or (D, m, m) with one for each output.
        residual: of shape (*leading, m, D).

    Returns:
        Squares summed over the points, of shape (*leading, D), and the half log determinants, () or (D,).
    """
    xp = namespace(factor, residual)
    columns = xp.moveaxis(residual, -1, 0).reshape((residual.shape[-1], -1, residual.shape[-2]))
    factors = xp.broadcast_to(factor, (len(columns), *factor.shape[-2:]))
    linalg = jax.scipy.linalg if xp is jnp else scipy.linalg
    white = [linalg.solve_triangular(one, column.T, lower=True) for one, column in zip(factors, columns, strict=True)]
    squares = xp.stack([(column**2).sum(axis=0) for column in white], axis=-1)
    half_log_det = xp.log(xp.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)
    return squares.reshape((*residual.shape[:-2], residual.shape[-1])), half_log_det


def checked_location(owner: str, loc: Any, dispersion: Any, matrix: Any) -> tuple[Any, Any, LazyMatrix]:
    """Location, dispersion and matrix as an elliptical distribution stores them; bad shapes and values raise."""
    loc = double_or_traced(loc)
    if loc.ndim not in (1, 2):
        raise ValueError(f"{owner}: loc must have shape (m,) or (m, D), got {loc.shape}; add or drop an axis.")
    if callable(dispersion):
        later = LazyVector(lambda: _checked_dispersion(owner, dispersion(), loc.shape[0]))
        return loc, later, as_matrix(matrix, later.values, loc.shape[0])
    dispersion = _checked_dispersion(owner, dispersion, loc.shape[0])
    return loc, dispersion, as_matrix(matrix, lambda: dispersion, loc.shape[0])


def _checked_dispersion(owner: str, dispersion: Any, points: int) -> Any:
    dispersion = double_or_traced(dispersion)
    if dispersion.shape != (points,):
        raise ValueError(
            f"{owner}: dispersion must have shape {(points,)}, one number for each row of loc, got "
            f"{dispersion.shape}; pass the diagonal, and the full matrix as `matrix`."
        )
    # A variance that is negative by rounding is a point that is known exactly.
    if not is_traced(dispersion) and not np.all(dispersion >= 0):
        raise ValueError(
            f"{owner}: dispersion must be zero or more, got a smallest value of {np.min(dispersion)}; "
            f"clip what is rounding at zero, or check the kernel."
        )
    return dispersion


def as_matrix(matrix: Any, dispersion: Callable[[], Any], points: int) -> LazyMatrix:
    """A matrix, a function that returns one, or None, as a `LazyMatrix`."""
    if isinstance(matrix, LazyMatrix):
        return matrix
    if matrix is None:
        return LazyMatrix(lambda: dispersion()[:, None]) if points == 1 else missing_matrix(points)
    return LazyMatrix(matrix if callable(matrix) else lambda: matrix)


def double_or_traced(array: Any) -> Any:
    """A float64 NumPy array, or a traced array as it is."""
    return array if is_traced(array) else np.asarray(array, np.float64)
