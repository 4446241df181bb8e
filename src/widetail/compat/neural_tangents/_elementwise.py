"""Functions of every feature."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from widetail import nn
from widetail.compat.neural_tangents._arrays import Number, pairs
from widetail.compat.neural_tangents._kernel import Kernel
from widetail.compat.neural_tangents._requirements import Diagonal, layer, own_variances, requires, supports_masking
from widetail.compat.neural_tangents._through import through
from widetail.numerics import is_traced


def _functions(fn: Callable[..., Any] | None, limit: Callable[[Kernel], Kernel] | None) -> Any:
    """The three functions of an elementwise layer."""

    def init_fn(rng, input_shape):
        return input_shape, ()

    def apply_fn(params, inputs, **kwargs):
        if fn is None:
            raise NotImplementedError("this layer was made without a function fn: it has a kernel_fn only.")
        return fn(inputs)

    @requires(diagonal_spatial=Diagonal())
    def kernel_fn(k, **kwargs):
        if limit is None:
            raise NotImplementedError("this layer was made without nngp_fn: it has no kernel_fn.")
        if not k.is_gaussian:
            raise ValueError("a nonlinearity must follow a layer with random weights, such as stax.Dense or stax.Conv.")
        return limit(k).replace(is_gaussian=False)

    return init_fn, apply_fn, kernel_fn


def _scaled(activation: nn.Activation, a: Any = 1.0, b: Any = 1.0, c: Any = 0.0) -> Any:
    """a phi(b x) + c, where phi is odd or c is zero."""

    def fn(x):
        return a * activation.function(b * x) + c

    def limit(k):
        return a * through(activation, k * b) + c

    return _functions(fn, limit)


@layer
@supports_masking(remask_kernel=True)
def Erf(a: Number = 1.0, b: Number = 1.0, c: Number = 0.0) -> Any:  # noqa: N802
    """a erf(b x) + c."""
    return _scaled(nn.Erf(), a, b, c)


def Sigmoid_like() -> Any:  # noqa: N802
    """The error function that is closest to the logistic sigmoid."""
    return Erf(a=0.5, b=1 / 2.4020563531719796, c=0.5)


@layer
@supports_masking(remask_kernel=False)
def Gabor() -> Any:  # noqa: N802
    """exp(-x^2) sin(x)."""
    return _scaled(nn.Gabor())


@layer
@supports_masking(remask_kernel=False)
def Gelu(approximate: bool = False) -> Any:  # noqa: N802
    """x times the normal distribution function of x; `approximate` changes the finite network only."""
    return _functions(lambda x: jax.nn.gelu(x, approximate=approximate), lambda k: through(nn.Gelu(), k))


@layer
@supports_masking(remask_kernel=True)
def Sin(a: Number = 1.0, b: Number = 1.0, c: Number = 0.0) -> Any:  # noqa: N802
    """a sin(b x + c)."""
    return _scaled(nn.Sin(frequency=1.0, phase=c), a, b)


def Cos(a: Number = 1.0, b: Number = 1.0, c: Number = 0.0) -> Any:  # noqa: N802
    """a cos(b x + c)."""
    return Sin(a=a, b=b, c=c + np.pi / 2)


@layer
@supports_masking(remask_kernel=True)
def Rbf(gamma: Number = 1.0) -> Any:  # noqa: N802
    """The wave whose dual is exp(-gamma |x - x'|^2)."""
    return _scaled(nn.Rbf(1.0), 1.0, jnp.sqrt(gamma))


@layer
@supports_masking(remask_kernel=False)
def ABRelu(a: Number, b: Number, do_stabilize: bool = False) -> Any:  # noqa: N802
    """a x below zero and b x above; `do_stabilize` is not needed, large numbers do not overflow here."""
    return _scaled(nn.ABRelu(1.0 * a, 1.0 * b))


def Relu(do_stabilize: bool = False) -> Any:  # noqa: N802
    """The positive part."""
    return ABRelu(0, 1, do_stabilize)


def LeakyRelu(alpha: Number, do_stabilize: bool = False) -> Any:  # noqa: N802
    """alpha x below zero and x above."""
    return ABRelu(alpha, 1, do_stabilize)


def Abs(do_stabilize: bool = False) -> Any:  # noqa: N802
    """The absolute value."""
    return ABRelu(-1, 1, do_stabilize)


@layer
@supports_masking(remask_kernel=False)
def Sign() -> Any:  # noqa: N802
    """-1 or 1."""

    def limit(k):
        made = through(nn.Sign(), k)
        # neural-tangents takes the derivative of the finite network, which is zero
        return made.replace(ntk=None if k.ntk is None else jnp.zeros_like(made.nngp))

    return _functions(nn.Sign().function, limit)


@layer
@supports_masking(remask_kernel=True)
def Exp(a: Number = 1.0, b: Number = 1.0) -> Any:  # noqa: N802
    """a exp(b x)."""
    return _scaled(nn.Exp(), a, b)


def Gaussian(a: Number = 1.0, b: Number = -1.0) -> Any:  # noqa: N802
    """a exp(b x^2); with b above zero the kernel is infinite from a variance of 1 / (2 b) on."""
    return _bump(a, b) if is_traced(b) or b < 0 else _growing(a, b)


@layer
@supports_masking(remask_kernel=True)
def _bump(a: Number, b: Number) -> Any:
    return _scaled(nn.Gaussian(-b), a)


def _growing(a: Number, b: Number) -> Any:
    def dual(k12, k11, k22):
        one, other = 1 - 2 * b * k11, 1 - 2 * b * k22
        whole = one * other - 4 * b**2 * k12**2
        is_finite = (one > 0) & (other > 0) & (whole > 0)
        return jnp.where(is_finite, a**2 / jnp.sqrt(jnp.where(is_finite, whole, 1.0)), jnp.inf)

    return Elementwise(lambda x: a * jnp.exp(b * x**2), dual)


@layer
@supports_masking(remask_kernel=True)
def ExpNormalized(gamma: Number = 1.0, shift: Number = -1.0, do_clip: bool = False) -> Any:  # noqa: N802
    """The kernel of norms times exp(gamma (cosine + shift)); `do_clip` is not needed, cosines stay within -1 and 1."""
    return _functions(None, lambda k: through(nn.ExpNormalized(1.0 * gamma, 1.0 * shift), k))


@layer
@supports_masking(remask_kernel=True)
def Hermite(degree: int) -> Any:  # noqa: N802
    """The Hermite polynomial of a degree, normalised for inputs of variance one."""
    if degree < 0:
        raise NotImplementedError(f"degree must be zero or more; got {degree}.")
    return _scaled(nn.Hermite(degree))


@layer
@supports_masking(remask_kernel=False)
def Monomial(degree: int) -> Any:  # noqa: N802
    """x to the power of an integer."""
    if not isinstance(degree, int) or degree < 0:
        raise NotImplementedError(f"degree must be an integer, zero or more; got {degree}.")
    return _scaled(nn.Monomial(degree))


@layer
@supports_masking(remask_kernel=False)
def RectifiedMonomial(degree: int) -> Any:  # noqa: N802
    """x to the power of an integer above zero, 0 below."""
    if degree < 0:
        raise NotImplementedError(f"degree must be zero or more; got {degree}.")
    functions = _scaled(nn.RectifiedMonomial(degree))
    if degree:
        return functions

    def limit(k):
        made = through(nn.RectifiedMonomial(0), k)
        return made.replace(ntk=None if k.ntk is None else jnp.zeros_like(made.nngp))

    return _functions(lambda x: (x >= 0).astype(x.dtype), limit)


@layer
@supports_masking(remask_kernel=False)
def Polynomial(coef: Any) -> Any:  # noqa: N802
    """A polynomial by its coefficients, that of degree 0 first."""
    coefficients = [float(c) for c in np.asarray(coef).reshape(-1)] or [0.0]
    return _scaled(nn.Polynomial(jnp.asarray(coefficients)))


@layer
@supports_masking(remask_kernel=True)
def Elementwise(  # noqa: N802
    fn: Callable[..., Any] | None = None,
    nngp_fn: Callable[..., Any] | None = None,
    d_nngp_fn: Callable[..., Any] | None = None,
) -> Any:
    """A function with its dual as the user gives it: nngp_fn(covariance, variance 1, variance 2) of numbers."""
    if fn is None and nngp_fn is None:
        raise ValueError("stax.Elementwise needs fn (finite networks), nngp_fn (kernels), or both.")
    if nngp_fn is None:
        return _functions(fn, None)
    dual = nngp_fn
    slope = jax.grad(dual) if d_nngp_fn is None else d_nngp_fn

    def limit(k: Kernel) -> Kernel:
        first, second = own_variances(k)

        def act(formula, x, one, other, batch):
            def both(a, b):
                return a, b

            v1, v2 = pairs(one, other, batch, k.diagonal_spatial, both)
            return jnp.vectorize(formula)(x, jnp.broadcast_to(v1, x.shape), jnp.broadcast_to(v2, x.shape))

        own = k.batch_ndim
        return k.replace(
            cov1=act(dual, k.cov1, first, first, own),
            cov2=None if k.cov2 is None else act(dual, k.cov2, second, second, own),
            nngp=act(dual, k.nngp, first, second, 2),
            ntk=None if k.ntk is None else k.ntk * act(slope, k.nngp, first, second, 2),
        )

    return _functions(fn, limit)


@layer
@supports_masking(remask_kernel=True)
def ElementwiseNumerical(  # noqa: N802
    fn: Callable[..., Any], deg: int, df: Callable[..., Any] | None = None
) -> Any:
    """Any function, by Gauss-Hermite quadrature with `deg` nodes in each direction."""
    warnings.warn(f"stax.ElementwiseNumerical: the error depends on deg={deg} and on the function.", stacklevel=3)
    nodes, weights = scipy.special.roots_hermite(deg)
    nodes, weights = np.sqrt(2) * nodes, weights / np.sqrt(np.pi)
    slope = jnp.vectorize(jax.grad(fn)) if df is None else df

    def integrate(f, x, v1, v2):
        """E f(u) f(v) of Gaussian pairs, u = s1 z, v = (x / s1) z + rest z'."""
        v1, v2 = jnp.broadcast_to(v1, x.shape), jnp.broadcast_to(v2, x.shape)
        safe = jnp.where(v1 > 0, v1, 1.0)
        s1 = jnp.where(v1 > 0, jnp.sqrt(safe), 0.0)
        left = v2 - jnp.where(v1 > 0, x * x / safe, 0.0)
        rest = jnp.where(left > 0, jnp.sqrt(jnp.where(left > 0, left, 1.0)), 0.0)
        along = jnp.where(v1 > 0, x / jnp.sqrt(safe), 0.0)
        z = jnp.asarray(nodes, x.dtype)
        w = jnp.asarray(weights, x.dtype)
        u = f(s1 * z.reshape(-1, *(1,) * x.ndim))
        inner = f(along * z.reshape(-1, 1, *(1,) * x.ndim) + rest * z.reshape(1, -1, *(1,) * x.ndim))
        return jnp.einsum("i,j,i...,ij...->...", w, w, u, inner)

    def limit(k: Kernel) -> Kernel:
        first, second = own_variances(k)

        def act(f, x, one, other, batch):
            v1, v2 = pairs(one, other, batch, k.diagonal_spatial, lambda a, b: (a, b))
            return integrate(f, x, v1, v2)

        own = k.batch_ndim
        return k.replace(
            cov1=act(fn, k.cov1, first, first, own),
            cov2=None if k.cov2 is None else act(fn, k.cov2, second, second, own),
            nngp=act(fn, k.nngp, first, second, 2),
            ntk=None if k.ntk is None else k.ntk * act(slope, k.nngp, first, second, 2),
        )

    return _functions(fn, limit)
