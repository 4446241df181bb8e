"""Expectations of functions of one Gaussian variable each, closed forms and Hermite series.

A limit has these compiled and carried out by its plan. Arguments that are compiled in come first.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from widetail import nn
from widetail.gaussian import (
    Breaks,
    coefficients_by_pieces,
    find_breaks,
    graded_rule,
    hermite_coefficients,
    mehler_sum,
    norm_and_inverse,
    spread_power,
)
from widetail.programs.limits._expressions import Expression, evaluate, slopes

# Terms of a sum, all arrays: (numbers, factors per row of side 1, factors per row of side 2, block or None for one).
# Sums are handed to the function that uses them and are computed inside of it, so they never cost a pass of their own.
SumTerm = tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...], Any]
Sum = tuple[SumTerm, ...]


def add_up(cross: bool, terms: Sum) -> Any:
    """The value of a sum; a number when all of its terms are."""
    total: Any = 0.0
    for numbers, rows1, rows2, block in terms:
        value: Any = 1.0 if block is None else block
        first, second = _product(rows1), _product(rows2)
        for factor in (
            _product(numbers),
            first if first is None or not cross else first[:, None],
            second if second is None or not cross else second[None, :],
        ):
            value = value if factor is None else value * factor
        total = total + value
    return total


def scaled(terms: Sum, number: float, *, numbers: tuple = (), rows1: tuple = (), rows2: tuple = ()) -> list[SumTerm]:
    """The terms of a sum, each times numbers and factors per row."""
    if number != 1.0:
        numbers = (*numbers, number)
    return [(a + numbers, b + rows1, c + rows2, block) for a, b, c, block in terms]


def times(first: Any, second: Any) -> Any:
    """A product entry by entry."""
    return first * second


def _product(factors: tuple[Any, ...]) -> Any:
    return functools.reduce(lambda a, b: a * b, factors) if factors else None


def total(cross: bool, x1: Any, x2: Any, terms: Sum) -> Float[Array, "..."]:
    """A sum as an array, one entry per pair of inputs or per input."""
    shape = (len(x1), len(x2)) if cross else (len(x1),)
    return jnp.broadcast_to(jnp.asarray(add_up(cross, terms), x1.dtype), shape)


def zeros(x: Any) -> Float[Array, "n"]:
    """A zero per input."""
    return jnp.zeros(len(x), x.dtype)


def constant(expression: Expression, x: Any, scalars: Any) -> Float[Array, "n"]:
    """A function of scalars only, per input."""
    return evaluate(expression, (), scalars, zeros(x))


def features(masked: bool, x: Any) -> Float[Array, "n positions features"]:
    """Inputs (n, *space, features) with all positions along one axis, without the flag of presence."""
    flat = x.reshape(len(x), -1, x.shape[-1])
    return flat[..., :-1] if masked else flat


def feature(x: Any, position: Any, place: Any) -> Float[Array, "n"]:
    """One feature at a position; the last one is the flag of presence, where there are flags."""
    return x.reshape(len(x), -1, x.shape[-1])[:, position, place]


def at_positions(block: Any, p: Any, q: Any) -> Float[Array, "..."]:
    """What a block (positions, positions, ...) holds for two of them."""
    return block[p, q]


def gram(cross: bool, x1: Any, x2: Any, p: Any, q: Any, weights: Any) -> Float[Array, "..."]:
    """Inner products of inputs at two positions, over the number of features."""
    first, second = x1[:, p], x2[:, q]
    if weights is not None:
        first = first * weights
    return (first @ second.T if cross else jnp.sum(first * second, axis=-1)) / x1.shape[-1]


def _align(cross: bool, first: Any, second: Any) -> tuple[Any, Any]:
    if not cross:
        return first, second
    return jax.tree.map(lambda a: a[..., :, None], first), jax.tree.map(lambda a: a[..., None, :], second)


def dual(activation: nn.Activation, cross: bool, terms: Sum, first: Any, second: Any) -> Float[Array, "..."]:
    """E[phi(z) phi(z')] by the activation's own formula."""
    first, second = _align(cross, first, second)
    return activation.dual(_like_statistics(add_up(cross, terms), first, second), first, second)


def _like_statistics(k: Any, first: Any, second: Any) -> Any:
    """A covariance as an array even where it is one number for all pairs."""
    example1, example2 = jax.tree.leaves(first)[0], jax.tree.leaves(second)[0]
    shape = jnp.broadcast_shapes(example1.shape[-2:], example2.shape[-2:]) if example1.ndim > 1 else example1.shape[-1:]
    return jnp.broadcast_to(jnp.asarray(k, example1.dtype), shape)


def dual_slope(activation: nn.Activation, cross: bool, terms: Sum, first: Any, second: Any) -> Float[Array, "..."]:
    """E[phi'(z) phi'(z')] by the activation's own formula."""
    first, second = _align(cross, first, second)
    return activation.dual_and_slope(_like_statistics(add_up(cross, terms), first, second), first, second)[1]


def dual_at_equal(activation: nn.Activation, slope: bool, variance: Any) -> Float[Array, "..."]:
    """E[phi(z)^2], or of the derivative."""
    return activation.at_equal(variance)[int(slope)]


def dual_statistics(activation: nn.Activation, variance: Any) -> Any:
    """What the activation's formula wants to know of one side."""
    found = activation.statistics(variance)
    if isinstance(found, dict):
        found = {name: value for name, value in found.items() if name != "slope"}  # for tangent kernels only
    return found


def piecewise_dual(
    first_form: tuple[float, float], second_form: tuple[float, float], cross: bool, terms: Sum, first: Any, second: Any
) -> Float[Array, "..."]:
    """E[(a |z| + b z)(a' |z'| + b' z')]: the mixed terms are odd, so they vanish."""
    first, second = _align(cross, first, second)
    k = _like_statistics(add_up(cross, terms), first, second)
    (a1, b1), (a2, b2) = first_form, second_form
    return a1 * a2 * nn.Abs().dual(k, first, second) + b1 * b2 * k


def piecewise_slope(
    first_form: tuple[float, float], second_form: tuple[float, float], cross: bool, terms: Sum, first: Any, second: Any
) -> Float[Array, "..."]:
    """The derivative of `piecewise_dual` in the covariance, by Price's theorem the dual of the derivatives."""
    first, second = _align(cross, first, second)
    k = _like_statistics(add_up(cross, terms), first, second)
    (a1, b1), (a2, b2) = first_form, second_form
    return a1 * a2 * nn.Abs().dual_and_slope(k, first, second)[1] + b1 * b2


def hermite(expression: Expression, slope: bool, order: int, mean: Any, variance: Any, scalars: Any) -> dict[str, Any]:
    """Coefficients of a function of one Gaussian variable in normalised Hermite polynomials; see `nn.Elementwise`.

    With `slope`, those of its derivative.
    """
    norm, inverse = norm_and_inverse(variance)

    def values_at(z: Any) -> Any:
        z = z if mean is None else z + mean
        found = slopes(expression, (z,), scalars)[0] if slope else evaluate(expression, (z,), scalars, z)
        return jnp.broadcast_to(found, z.shape)

    breaks = breaks_of(expression, len(scalars))
    if breaks.points:
        value = coefficients_by_pieces(values_at, breaks.distances(norm, mean), norm, inverse, order)
    else:
        nodes, projection, weights = graded_rule(order, str(variance.dtype))
        value = hermite_coefficients(values_at(nodes.reshape(-1, 1) * norm), projection, weights)
    return {"inverse": inverse, "value": value}


@functools.lru_cache(maxsize=1024)
def breaks_of(expression: Expression, scalars: int) -> Breaks:
    """Where a function of one Gaussian variable is not smooth; nothing of one that has parameters."""
    return Breaks((), None) if scalars else find_breaks(lambda z: evaluate(expression, (z,), (), z))


def mehler(decay: float | None, same_function: bool, cross: bool, terms: Sum, first: Any, second: Any) -> Any:
    """E[phi(z) psi(z')] from Hermite coefficients.

    What a truncated series leaves out is known for a function with itself; for two functions it is dropped.
    """
    first, second = _align(cross, first, second)
    k = _like_statistics(add_up(cross, terms), first["inverse"], second["inverse"])
    c = jnp.clip(k * (first["inverse"] * second["inverse"]), -1, 1)
    values1, values2 = first["value"], second["value"]
    order = min(len(values1), len(values2)) - 2
    if not same_function:
        return power_series(c, values1[:order], values2[:order])
    if decay is None:
        return power_series(c, values1, values2)
    found = power_series(c, values1[:order], values2[:order])
    rest = values1[-2] * values2[-2] + values1[-1] * values2[-1] * c
    return found + rest * c**order * spread_power(c, order, decay)


@jax.custom_vjp
def power_series(c: Any, first: Any, second: Any) -> Float[Array, "..."]:
    """sum_j a_j b_j c^j, with coefficients along the first axis.

    Its derivative is a loop of its own. Differentiated term by term and compiled into one function with what comes
    before and after, every term would recompute the ones before it, and those of earlier steps of a program.
    """
    return mehler_sum(c, first, second)


def _series_forward(c: Any, first: Any, second: Any) -> Any:
    return mehler_sum(c, first, second), (c, first, second)


def _series_backward(kept: Any, g: Any) -> Any:
    c, first, second = kept

    def step(carry, pair):
        power, before, number, slope = carry  # c^j, c^(j-1), j, d/dc so far
        a, b = pair
        slope = slope + number * before * a * b
        weighted = g * power
        found = _sum_to(weighted * b, a.shape), _sum_to(weighted * a, b.shape)
        return (power * c, power, number + 1, slope), found

    one = jnp.ones_like(c)
    start = (one, jnp.zeros_like(c), jnp.zeros((), c.dtype), jnp.zeros_like(c))
    (_, _, _, slope), (first_bar, second_bar) = jax.lax.scan(step, start, (first, second))
    return g * slope, first_bar, second_bar


def _sum_to(values: Any, shape: tuple[int, ...]) -> Any:
    """Add up what broadcasting had repeated."""
    axes = tuple(axis for axis, (size, wanted) in enumerate(zip(values.shape, shape, strict=True)) if size != wanted)
    return jnp.sum(values, axis=axes, keepdims=True)


power_series.defvjp(_series_forward, _series_backward)


def second_moment(coefficients: dict[str, Any]) -> Float[Array, "..."]:
    """E[phi^2] from Hermite coefficients."""
    return jnp.sum(coefficients["value"] ** 2, axis=0)


def mean(coefficients: dict[str, Any]) -> Float[Array, "n"]:
    """E[phi] from Hermite coefficients."""
    return coefficients["value"][0]


def mean_slope(coefficients: dict[str, Any]) -> Float[Array, "n"]:
    """E[phi'] from Hermite coefficients."""
    return coefficients["value"][1] * coefficients["inverse"]


def piecewise_mean(form: tuple[float, float], statistics: Any) -> Float[Array, "n"]:
    """E[a |z| + b z] of centred variables, from the statistics of the activation."""
    norm, _ = statistics
    return jnp.asarray(form[0] * np.sqrt(2 / np.pi), norm.dtype) * norm


def piecewise_mean_slope(form: tuple[float, float], statistics: Any) -> Float[Array, "n"]:
    """E[a sign(z) + b] of centred variables."""
    norm, _ = statistics
    return jnp.full_like(norm, form[1])
