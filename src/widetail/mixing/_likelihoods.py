"""One-dimensional likelihoods of the readout variance."""

import abc
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from widetail.numerics import is_traced, namespace
from widetail.priors import Values

# Logarithms of the readout variance: a leading axis of points, then the batch.
Points = Float[Array | np.ndarray, "points *batch"]


class ScaleLikelihood(eqx.Module):
    r"""Likelihood of the readout variance $\beta$, as a function of its logarithm.

    `batch_shape` is `()`, or `(D,)` when each of D outputs has a readout variance of its own.
    """

    @abc.abstractmethod
    def log_prob_of_log(self, log_scale: Points) -> Points:
        r"""$\log p(Y \mid \beta)$ at $\log\beta$."""

    @property
    @abc.abstractmethod
    def log_peak(self) -> Values:
        """Log of a readout variance that explains the data; `nan` where they say nothing."""

    @property
    @abc.abstractmethod
    def tail_power(self) -> Values:
        r"""The likelihood falls as $\beta$ to minus this power."""

    @property
    @abc.abstractmethod
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the array of readout variances."""


class ScaledNoiseLikelihood(ScaleLikelihood):
    r"""Noise inside the scale: $Y_d \mid \beta \sim \mathcal N(0, \beta A)$ for each output.

    $\log p(Y \mid \beta) = -\frac c2 \log(2\pi\beta) - \frac{q}{2\beta} - \frac12 \log\det$.

    Args:
        count: c, how many numbers were observed: n D, or n when each output has its own scale.
        quad: $q = \mathrm{tr}(Y^\top A^{-1} Y)$, of shape () or (D,).
        log_det: log determinant of the whole covariance at $\beta = 1$: $D \log|A|$, or $\log|A|$ per output.

    Example:
        >>> from widetail import mixing
        >>> mixing.ScaledNoiseLikelihood(count=10, quad=4.0).batch_shape
        ()
    """

    count: Any
    quad: Any
    log_det: Any

    def __init__(self, count: Any, quad: Any, log_det: Any = 0.0):
        self.count = _non_negative("count", count)
        self.quad = _non_negative("quad", quad)
        self.log_det = _finite("log_det", log_det)

    def log_prob_of_log(self, log_scale: Points) -> Points:
        constant = -0.5 * (self.log_det + self.count * math.log(2 * math.pi))
        return gaussian_log_factor(log_scale, self.count, self.quad) + constant

    @property
    def log_peak(self) -> Values:
        return gaussian_log_peak(self.count, self.quad)

    @property
    def tail_power(self) -> Values:
        return namespace(self).broadcast_to(0.5 * self.count, self.batch_shape)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return jnp.broadcast_shapes(jnp.shape(self.count), jnp.shape(self.quad), jnp.shape(self.log_det))


class IndependentNoiseLikelihood(ScaleLikelihood):
    r"""Noise outside of the scale: $Y_d \mid \beta \sim \mathcal N(0, \beta \bar K + S)$ for each output.

    In the eigenvectors of $\bar K$, $\log p(Y \mid \beta) = -\frac12 \sum_i [D \log(2\pi v_i) +
    |\tilde Y_i|^2 / v_i] - \frac12\log\det$ with $v_i = \beta\lambda_i + s_i^2$. Each evaluation costs O(n).

    Args:
        eigenvalues: $\lambda_i$, of shape (n,); small negative ones, which are rounding, count as zero.
        noise_var: $s^2$, a number or of shape (n,), positive. Unequal noise of the rows is first divided out:
            the eigenvalues of $S^{-1/2} \bar K S^{-1/2}$, a noise of one, and $D \log|S|$ as `log_det`.
        squares: $|\tilde Y_i|^2$ of the rotated targets $\tilde Y = U^\top Y$, summed over the outputs, of
            shape (n,); or of shape (n, D), unsummed, when each output has its own scale.
        outputs: D, how many outputs were summed in `squares`; 1 when each has its own scale.
        log_det: added to the log determinant.

    Example:
        >>> import numpy as np
        >>> from widetail import mixing
        >>> mixing.IndependentNoiseLikelihood(np.ones(5), 0.1, np.ones((5, 2))).batch_shape
        (2,)
    """

    eigenvalues: Any
    noise_var: Any
    squares: Any
    outputs: Any
    log_det: Any

    def __init__(self, eigenvalues: Any, noise_var: Any, squares: Any, outputs: Any = 1, log_det: Any = 0.0):
        self.eigenvalues = _finite("eigenvalues", eigenvalues)
        self.noise_var = _non_negative("noise_var", noise_var, zero_allowed=False)
        self.squares = _non_negative("squares", squares)
        self.outputs = _non_negative("outputs", outputs, zero_allowed=False)
        self.log_det = _finite("log_det", log_det)
        rows, values = jnp.shape(self.squares), jnp.shape(self.eigenvalues)
        if len(values) != 1 or rows[:1] != values or len(rows) > 2:
            raise ValueError(
                f"eigenvalues must have shape (n,) and squares shape (n,) or (n, D), got {values} and "
                f"{rows}; pass the squared entries of U^T Y, one row for each eigenvalue."
            )

    def log_prob_of_log(self, log_scale: Points) -> Points:
        xp = namespace(self, log_scale)
        signal = xp.exp(log_scale)[..., None] * xp.maximum(self.eigenvalues, 0.0)
        variance = signal + self.noise_var
        terms = self.outputs * xp.log(2 * math.pi * variance) + xp.transpose(self.squares) / variance
        return -0.5 * (xp.sum(terms, axis=-1) + self.log_det)

    @property
    def log_peak(self) -> Values:
        xp = namespace(self)
        signal = self.outputs * xp.sum(xp.maximum(self.eigenvalues, 0.0))
        return gaussian_log_peak(signal, xp.sum(self.squares, axis=0))

    @property
    def tail_power(self) -> Values:
        xp = namespace(self)
        rank = xp.sum(xp.where(self.eigenvalues > 0, 1.0, 0.0))
        return xp.broadcast_to(0.5 * rank * self.outputs, self.batch_shape)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return jnp.shape(self.squares)[1:]


def gaussian_log_factor(log_scale: Any, count: Any, quad: Any) -> Any:
    r"""$-\frac c2 \log\beta - \frac{q}{2\beta}$, finite and differentiable for q >= 0."""
    xp = namespace(log_scale, count, quad)
    positive = quad > 0
    ratio = xp.exp(xp.log(xp.where(positive, quad, 1.0)) - log_scale)
    # The second form is zero, and carries the derivative in q; beyond the limit its exponential overflows.
    limit = math.log(float(np.finfo(log_scale.dtype).max)) - 5
    ratio = xp.where(positive, ratio, quad * xp.exp(-xp.maximum(log_scale, -limit)))
    return -0.5 * (count * log_scale + ratio)


def gaussian_log_peak(count: Any, quad: Any) -> Any:
    """Log of the readout variance at which `gaussian_log_factor` is highest; `nan` where it has no peak."""
    xp = namespace(count, quad)
    peaked = (quad > 0) & (count > 0)
    safe_quad, safe_count = xp.where(peaked, quad, 1.0), xp.where(peaked, count, 1.0)
    return xp.where(peaked, xp.log(safe_quad) - xp.log(safe_count), xp.nan)


def _finite(name: str, value: Any) -> Any:
    if is_traced(value):
        return jnp.asarray(value, float)
    array = np.asarray(value, np.float64)
    if not np.all(np.isfinite(array)):
        raise ValueError(
            f"{name} must be finite, got {array}; the kernel matrix or the targets hold NaN or infinities, or "
            f"the factorisation failed: check them, or add noise."
        )
    return array


def _non_negative(name: str, value: Any, *, zero_allowed: bool = True) -> Any:
    array = _finite(name, value)
    if not is_traced(array) and not np.all(array >= 0 if zero_allowed else array > 0):
        expected = "zero or more" if zero_allowed else "positive"
        raise ValueError(
            f"{name} must be {expected}, got a smallest value of {array.min()}; "
            f"check how it was computed: rounding can be clipped at zero."
        )
    return array
