r"""Functions of a Gaussian variable in normalised Hermite polynomials.

With coefficients $a_j = E[\phi(u)\, h_j(u)]$ of $\phi$ and $b_j$ of $\psi$, and unit variables of correlation $c$,
$E[\phi(u)\, \psi(u')] = \sum_j a_j b_j c^j$ (Mehler's formula): one one-dimensional integral per row instead of a
two-dimensional one per pair.
"""

import functools
import math

import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jaxtyping import Array, Float

_FARTHEST = 13.0  # standard deviations; beyond them the Gaussian weight is below 1e-37
_FIRST = 1.0  # within so many nodes are graded, halving after halving
_HALVINGS = 22
_NEAR_NODES = 8  # in every piece
_WIDE_NODES = 24


@functools.lru_cache
def hermite_rule(order: int, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes, the matrix that gives the coefficients of a function on them, and the plain weights.

    The trapezoidal rule converges exponentially for a smooth function under a Gaussian weight, and takes
    steep functions better than Gauss-Hermite with as many nodes.

    Args:
        order: how many polynomials, an even number.
        dtype: the name of a floating-point type.

    Returns:
        Nodes (m,), projection (order, m) and weights (m,).
    """
    nodes = np.linspace(-13, 13, max(4 * order, 128))
    weights = np.exp(-0.5 * nodes**2)
    return _rule(nodes, weights / weights.sum(), order, dtype)


@functools.lru_cache
def graded_rule(order: int, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What `hermite_rule` gives, with nodes that come closer and closer to each other towards zero.

    A variable with a standard deviation of a thousand passes everything that a function such as tanh does within a
    thousandth of its own: between evenly spaced nodes it would be missed, and a slope would be zero.
    """
    wide = np.linspace(_FIRST, _FARTHEST, 1 + math.ceil((_FARTHEST - _FIRST) * math.sqrt(order) / _FARTHEST))
    near = _FIRST * 0.5 ** np.arange(_HALVINGS)[::-1]
    pieces = [(np.concatenate([[0], near]), _NEAR_NODES), (wide, _WIDE_NODES)]
    nodes, weights = [], []
    for edges, count in pieces:
        x, legendre = np.polynomial.legendre.leggauss(count)
        widths = np.diff(edges)[:, None]
        nodes.append((edges[:-1, None] + 0.5 * widths * (x + 1)).ravel())
        weights.append((0.5 * widths * legendre).ravel())
    half, share = np.concatenate(nodes), np.concatenate(weights)
    share = share * np.exp(-0.5 * half**2)
    share = 0.5 * share / share.sum()
    return _rule(np.concatenate([-half[::-1], half]), np.concatenate([share[::-1], share]), order, dtype)


def _rule(nodes: np.ndarray, weights: np.ndarray, order: int, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = [np.ones_like(nodes), nodes]
    for j in range(1, order - 1):
        rows.append((nodes * rows[j] - np.sqrt(j) * rows[j - 1]) / np.sqrt(j + 1))
    projection = np.stack(rows[:order]) * weights
    return nodes.astype(dtype), projection.astype(dtype), weights.astype(dtype)


def hermite_coefficients(
    values: Float[Array, "m ..."], projection: np.ndarray, weights: np.ndarray
) -> Float[Array, "terms ..."]:
    """Coefficients of the first `order` polynomials, and the remainders of the even and the odd part.

    What a truncated series leaves out is known at correlations 1 and -1, from the second moments of the even and the
    odd part of the function. Put into the next two powers, it keeps a kernel positive semi-definite, and exact for
    equal and for opposite variables.
    """
    found = jnp.tensordot(projection, values, 1)
    reflected = values[::-1]
    moments = [jnp.tensordot(weights, (0.5 * (values + sign * reflected)) ** 2, 1) for sign in (1, -1)]
    return with_remainders(found, *moments)


def with_remainders(
    found: Float[Array, "order ..."], even: Float[Array, "..."], odd: Float[Array, "..."]
) -> Float[Array, "terms ..."]:
    """Coefficients, followed by the roots of what they lack of the second moments of the even and the odd part."""
    remainders = []
    for parity, moment in ((0, even), (1, odd)):
        missing = moment - jnp.sum(found[parity::2] ** 2, axis=0)
        is_left = missing > 32 * jnp.finfo(found.dtype).eps * moment
        remainders.append(jnp.where(is_left, jnp.sqrt(jnp.where(is_left, missing, 1)), 0))
    return jnp.concatenate([found, jnp.stack(remainders)])


def mehler_sum(
    c: Float[Array, "..."],
    first: Float[Array, "terms ..."],
    second: Float[Array, "terms ..."],
    decay: float | None = None,
) -> Float[Array, "..."]:
    """The sum of `first[j] * second[j] * c**j`: the expectation of a product, from both sides' coefficients.

    Args:
        c: correlations.
        first: coefficients and remainders of one side.
        second: those of the other side.
        decay: the power of 1 / j with which the squares of coefficients decrease, for a function that is not smooth:
            1.5 where it jumps, 2.5 where its slope does, and so on. The remainders are then spread over all higher
            powers in this proportion; without it they are put into the next two.
    """
    order = first.shape[0] - 2
    total = first[-1] * second[-1] * c + first[-2] * second[-2]
    if decay is not None:
        total = total * spread_power(c, order, decay)
    for j in reversed(range(order)):
        total = total * c + first[j] * second[j]
    return total


# A sum of powers of c that grow geometrically stands for the sum over all of them.
_POWERS = 16


def spread_power(c: Float[Array, "..."], order: int, decay: float) -> Float[Array, "..."]:
    """The sum of (order + 2 m)^-decay c^(2 m) over all m, divided by its value at 1."""
    step, weights = _spread_weights(order, decay)
    power = c**step  # then its squares, one after the other: c to the power of step, 2 step, 4 step, ...
    powers = [power]
    for _ in range(len(weights) - 2):
        powers.append(powers[-1] ** 2)
    total = jnp.full_like(c, weights[-1])
    for weight, power in zip(reversed(weights[:-1]), reversed(powers), strict=True):
        total = total * power + weight
    return total


@functools.lru_cache
def _spread_weights(order: int, decay: float) -> tuple[int, tuple[float, ...]]:
    """An even step, and the weights of the powers (2^k - 1) step; not negative, so that kernels stay semi-definite."""
    step = 2 * max(1, order // 4)
    exponents = step * (2.0 ** np.arange(_POWERS) - 1)
    rates = np.concatenate([[0], np.geomspace(1e-7, 1, 200) * 32 / order])  # -log c
    # The sum by its integral from -1/2 on, after the first terms one by one.
    m = np.arange(4 * order)
    ends = np.geomspace(m[-1] + 0.5, 1e10, 4001)
    middles, widths = np.sqrt(ends[1:] * ends[:-1]), np.diff(ends)
    at = np.concatenate([m, middles])
    sizes = np.concatenate([np.ones(len(m)), widths]) * (order + 2 * at) ** -decay
    wanted = np.exp(-2 * rates[:, None] * at) @ sizes
    emphasis = np.where(rates == 0, 1e4, 1)
    basis = np.exp(-rates[:, None] * exponents) * emphasis[:, None]
    weights, _ = scipy.optimize.nnls(basis, wanted / wanted[0] * emphasis)
    return step, tuple((weights / weights.sum()).tolist())
