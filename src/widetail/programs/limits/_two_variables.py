r"""Expectations of functions of two Gaussian variables on each side, by Hermite polynomials in two variables.

With standard normal pairs $U$ and $V$ and $C = E[U V^T]$, only polynomials of equal total degree $n$ correlate, by a
matrix $T^n$ that follows from $T^{n-1}$. As in one variable, the integrals are taken once per row, the truncated
kernel is positive semi-definite, and what it leaves out is known from the second moment.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from widetail.gaussian import hermite_rule, norm_and_inverse, what_is_left
from widetail.programs.limits._expressions import Expression, evaluate, slopes

# Matrices for degrees below these are computed together: for all degrees at once they would be mostly zeros.
STAGES = (8, 16, 32, 64, 128)


def coefficients(
    expression: Expression, slope: int | None, degree: int, means: Any, covariances: Any, scalars: Any
) -> dict[str, Any]:
    """Coefficients per row of a function of one or two Gaussian variables, and what pairs need to know.

    Args:
        expression: the function.
        slope: which of its derivatives is meant; None for the function itself.
        degree: an even number; polynomials of smaller total degree are used.
        means: per argument, (n,) or None for zero.
        covariances: by row and column, the lower triangle, each (n,) or None for zero.
        scalars: parameters of the function, each (n,).

    Returns:
        `value` (degree, degree, n): by total degree and degree in the second variable; `rest` (2, n): the roots of the
        second moments that are left, of the even and the odd part; `whiten` (2, 2, n): from arguments to standard
        normal variables; `inverse` (2, n): one over the standard deviations of the arguments.
    """
    variance = covariances[0][0]
    zero = jnp.zeros_like(variance)
    norm1, inverse1 = norm_and_inverse(variance)
    norm21, norm2, inverse2, deviation2 = zero, zero, zero, zero
    if len(covariances) == 2:
        covariance, variance2 = (zero if value is None else value for value in covariances[1])
        norm21 = covariance * inverse1
        norm2, inverse2 = norm_and_inverse(what_is_left(variance2, norm21**2))
        _, deviation2 = norm_and_inverse(variance2)
    factor = jnp.stack([jnp.stack([norm1, zero]), jnp.stack([norm21, norm2])])[: len(covariances)]
    whiten = jnp.stack([jnp.stack([inverse1, zero]), jnp.stack([-norm21 * inverse1 * inverse2, inverse2])])
    nodes, projection, weights = hermite_rule(degree, str(zero.dtype))
    u, v = jnp.asarray(nodes)[:, None], jnp.asarray(nodes)[None, :]
    degrees = np.arange(degree)
    first_degree = np.maximum(degrees[:, None] - degrees, 0)  # of the first variable, by total and second degree
    belongs = degrees <= degrees[:, None]

    def one_row(row: Any) -> tuple[Any, Any]:
        factor, means, scalars = row
        z = [f[0] * u + f[1] * v + (0 if m is None else m) for f, m in zip(factor, means, strict=True)]
        values = evaluate(expression, z, scalars, z[0]) if slope is None else slopes(expression, z, scalars)[slope]
        values = jnp.broadcast_to(values, (len(nodes), len(nodes)))
        by_degrees = projection @ values @ projection.T
        value = jnp.where(belongs, by_degrees[first_degree, degrees], 0)
        rest = []
        for parity, sign in ((0, 1), (1, -1)):
            moment = weights @ (0.5 * (values + sign * values[::-1, ::-1])) ** 2 @ weights
            missing = moment - jnp.sum(value[parity::2] ** 2)
            is_left = missing > 64 * jnp.finfo(values.dtype).eps * moment
            rest.append(jnp.where(is_left, jnp.sqrt(jnp.where(is_left, missing, 1)), 0))
        return value, jnp.stack(rest)

    rows = jnp.moveaxis(factor, -1, 0), means, scalars
    value, rest = (jnp.moveaxis(found, 0, -1) for found in jax.lax.map(jax.checkpoint(one_row), rows))
    return {"value": value, "rest": rest, "whiten": whiten, "inverse": jnp.stack([inverse1, deviation2])}


def mean(found: dict[str, Any]) -> Float[Array, "n"]:
    """E[phi] per row."""
    return found["value"][0, 0]


def second_moment(found: dict[str, Any]) -> Float[Array, "n"]:
    """E[phi^2] per row."""
    return jnp.sum(found["value"] ** 2, axis=(0, 1)) + jnp.sum(found["rest"] ** 2, axis=0)


def product(same_function: bool, cross: bool, covariances: Any, first: Any, second: Any) -> Float[Array, "..."]:
    """E[phi(Z) psi(Z')] from coefficients.

    Args:
        same_function: whether phi and psi are one function; then what the polynomials leave out is put into the next
            powers of the correlations of their arguments, right for equal and for opposite arguments.
        cross: whether all pairs of rows are meant, or each row with itself.
        covariances: between the arguments of phi and of psi, arrays over pairs or None for zero.
        first, second: coefficients of phi and of psi.
    """
    if cross:
        return jax.lax.map(
            jax.checkpoint(lambda row: _of_rows(same_function, row[0], row[1], second)),
            (covariances, jax.tree.map(lambda a: jnp.moveaxis(a[..., None], -2, 0), first)),
        )
    return _of_rows(same_function, covariances, first, second)


def _of_rows(same_function: bool, covariances: Any, first: Any, second: Any) -> Any:
    whiten1, whiten2 = first["whiten"], second["whiten"]
    shape = jnp.broadcast_shapes(whiten1.shape[-1:], whiten2.shape[-1:])
    c = [[jnp.zeros(shape, whiten1.dtype) for _ in range(2)] for _ in range(2)]
    for i, row in enumerate(covariances):
        for j, value in enumerate(row):
            for k in range(2):
                for m in range(2):
                    if value is not None:
                        c[k][m] = c[k][m] + whiten1[k, i] * value * whiten2[m, j]
    degree = first["value"].shape[0], second["value"].shape[0]
    total = _coupled(c, first["value"], second["value"], min(degree))
    if same_function:
        for k, row in enumerate(covariances):
            if row[k] is not None:
                inverse1, inverse2 = first["inverse"], second["inverse"]
                share = _share(inverse1, k) * _share(inverse2, k)
                correlation = jnp.clip(row[k] * inverse1[k] * inverse2[k], -1, 1)
                even, odd = first["rest"] * second["rest"]
                total = total + share * correlation ** min(degree) * (even + odd * correlation)
    return total


def _share(inverse: Any, k: int) -> Any:
    """Arguments that vary share the remainder equally; squares add up to one."""
    varies = inverse > 0
    count = jnp.maximum(jnp.sum(varies, axis=0), 1).astype(inverse.dtype)
    return jnp.where(varies[k], jnp.sqrt(1 / count), 0)


def _coupled(c: Any, first: Any, second: Any, degree: int) -> Any:
    """sum over degrees n of first[n] T^n second[n], with T^n[i, j] the correlation of the polynomials of degree n."""
    total = first[0, 0] * second[0, 0]
    shape, dtype = jnp.broadcast_shapes(c[0][0].shape, total.shape), total.dtype
    t = jnp.ones((1, 1, *shape), dtype)
    stops = [stop for stop in STAGES if stop < degree] + [degree]
    for start, stop in zip([1, *stops], stops, strict=False):
        t = jnp.pad(t, ((0, stop - len(t)), (0, stop - len(t)), *((0, 0),) * len(shape)))
        i = jnp.arange(stop, dtype=dtype)

        def step(carry: Any, given: Any, i: Any = i, stop: int = stop) -> Any:
            t, total = carry
            n, a, b = given
            high, low = jnp.sqrt(jnp.maximum(n - i, 0)), jnp.sqrt(i)  # of degrees in the first and second variable
            column = (1, -1, *(1,) * len(shape))
            raised = jnp.pad(t, ((0, 0), (1, 0), *((0, 0),) * len(shape)))[:, :-1]
            by_first = high.reshape(column) * t
            by_second = low.reshape(column) * raised
            row = (-1, *(1,) * (1 + len(shape)))
            one = high.reshape(row) * (c[0][0] * by_first + c[0][1] * by_second)
            two = c[1][0] * by_first + c[1][1] * by_second
            two = low.reshape(row) * jnp.pad(two, ((1, 0), (0, 0), *((0, 0),) * len(shape)))[:-1]
            t = (one + two) / n
            total = total + jnp.sum(a[:stop, None] * t * b[None, :stop], axis=(0, 1))
            return (t, total), None

        degrees = jnp.arange(start, stop, dtype=dtype)
        total = jnp.broadcast_to(total, shape)
        (t, total), _ = jax.lax.scan(step, (t, total), (degrees, first[start:stop], second[start:stop]))
    return jnp.broadcast_to(total, shape)
