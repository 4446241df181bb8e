"""Kernels in high-precision arithmetic: slow, plain, and independent of both libraries.

Every pair of positions of every pair of inputs is carried along, in arrays of shape (*space, *space, n, n) whose
entries are mpmath numbers, with the formulas as they stand in textbooks.
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

from benchmarks._nets import Net

DIGITS = 40
Exact = Any  # an array of mpmath numbers, which no type checker follows
Pair = tuple[Exact, Exact]  # NNGP and NTK


def kernel(net: Net, x1: np.ndarray, x2: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """NNGP and NTK of the body with a readout of variance 1, of shape (n1, n2)."""
    x = x1 if x2 is None else np.concatenate([x1, x2])
    with mp.workdps(DIGITS):
        nngp = _exact(np.tensordot(_exact(x), _exact(x), (-1, -1)) / mp.mpf(x.shape[-1]))
        rank = x.ndim - 2  # now (n, *space, n, *space)
        nngp = np.moveaxis(nngp, (0, 1 + rank), (-2, -1))
        nngp, ntk = _through(net, (nngp, np.zeros_like(nngp) + mp.mpf(0)))
    rows, columns = slice(0, len(x1)), slice(0 if x2 is None else len(x1), len(x))
    return {"nngp": nngp[rows, columns].astype(float), "ntk": (nngp + ntk)[rows, columns].astype(float)}


_exact: Any = np.frompyfunc(mp.mpf, 1, 1)


def _through(net: Net, k: Pair) -> Pair:
    name, a, *inside = net
    if name == "Sequential":
        for layer in inside:
            k = _through(layer, k)
        return k
    if name == "Residual":
        return _sum([k, _through(["Sequential", {}, *inside], k)])
    if name == "Parallel":
        ends = [_through(branch, k) for branch in inside]
        if a["combine"] == "product":
            return functools.reduce(_product, ends)
        joined = _sum(ends)
        return joined if a["combine"] == "sum" else _map(lambda v: v / len(inside), joined)
    if name in DUALS:
        return _activate(lambda *args: DUALS[name](*args, **a), k)
    return LINEAR[name](k, **a)


def _map(fn: Callable[[Exact], Exact], k: Pair) -> Pair:
    return fn(k[0]), fn(k[1])


def _sum(ends: list[Pair]) -> Pair:
    return sum(end[0] for end in ends), sum(end[1] for end in ends)


def _product(one: Pair, other: Pair) -> Pair:
    """Of independent features."""
    return one[0] * other[0], one[1] * other[0] + one[0] * other[1]


def _rank(k: Pair) -> int:
    return (k[0].ndim - 2) // 2


def _variances(k: Pair) -> tuple[Exact, Exact]:
    """The variance at the first and at the second position of every entry."""
    rank = _rank(k)
    space, n = k[0].shape[:rank], k[0].shape[-1]
    variance = np.empty((*space, n), object)
    for at in np.ndindex(*space):
        variance[at] = np.diagonal(k[0][at + at])
    first = variance.reshape(*space, *(1,) * rank, n, 1)
    second = variance.reshape(*(1,) * rank, *space, 1, n)
    return np.broadcast_to(first, k[0].shape), np.broadcast_to(second, k[0].shape)


def _activate(dual: Callable[[Any, Any, Any], tuple[Any, Any]], k: Pair) -> Pair:
    value, slope = np.frompyfunc(dual, 3, 2)(k[0], *_variances(k))
    return value, k[1] * slope


def _dense(k: Pair, weight_var: float = 1.0, bias_var: float = 0.0) -> Pair:
    nngp = mp.mpf(weight_var) * k[0] + mp.mpf(bias_var)
    return nngp, mp.mpf(weight_var) * k[1] + nngp


def _conv(k: Pair, window, weight_var=1.0, bias_var=0.0, strides=None, padding="SAME") -> Pair:
    rank, strides = _rank(k), strides or (1,) * len(window)

    def average(v: Exact) -> Exact:
        v = _pad(v, window, strides, padding)
        parts = [_shifted(v, offset + offset, window, strides) for offset in itertools.product(*map(range, window))]
        return sum(parts) / mp.mpf(len(parts))

    assert len(window) == rank
    return _dense(_map(average, k), weight_var, bias_var)


def _pool(k: Pair, window, strides=None, padding="VALID", *, mean: bool) -> Pair:
    strides = strides or window

    def total(v: Exact) -> Exact:
        v = _pad(v, window, strides, padding)
        offsets = list(itertools.product(*map(range, window)))
        parts = [_shifted(v, first + second, window, strides) for first in offsets for second in offsets]
        return sum(parts) / mp.mpf(len(parts) if mean else 1)

    return _map(total, k)


def _pad(v: Exact, window, strides, padding: str) -> Exact:
    if padding == "VALID":
        return v
    widths = [(0, 0)] * v.ndim
    for axis, (size, stride) in enumerate(zip(window, strides, strict=True)):
        missing = max((math.ceil(v.shape[axis] / stride) - 1) * stride + size - v.shape[axis], 0)
        widths[axis] = widths[axis + len(window)] = (missing // 2, missing - missing // 2)
    return np.pad(v, widths, mode="wrap") if padding == "CIRCULAR" else np.pad(v, widths)


def _shifted(v: Exact, offset: tuple[int, ...], window, strides) -> Exact:
    slices = []
    for axis, start in enumerate(offset):
        size, stride = window[axis % len(window)], strides[axis % len(window)]
        count = (v.shape[axis] - size) // stride + 1
        slices.append(slice(start, start + (count - 1) * stride + 1, stride))
    return v[tuple(slices)]


def _flatten(k: Pair) -> Pair:
    space = k[0].shape[: _rank(k)]
    return _map(lambda v: sum(v[at + at] for at in np.ndindex(*space)) / mp.mpf(math.prod(space)), k)


def _pool_all(k: Pair) -> Pair:
    axes = tuple(range(2 * _rank(k)))
    return _map(lambda v: v.sum(axis=axes) / mp.mpf(math.prod(v.shape[: len(axes)])), k)


def _layer_norm(k: Pair, over: tuple[int, ...] = ()) -> Pair:
    first, second = _variances(k)
    rank = _rank(k)

    def shared(variance: Exact, start: int) -> Exact:
        axes = tuple(start + axis for axis in over)
        count = math.prod(variance.shape[axis] for axis in axes)
        return variance.sum(axis=axes, keepdims=True) / mp.mpf(count) + np.zeros_like(variance)

    inverse = np.frompyfunc(lambda a, b: 1 / mp.sqrt(a * b) if a * b else mp.mpf(0), 2, 1)
    factor = inverse(shared(first, 0), shared(second, rank))
    return _map(lambda v: v * factor, k)


def _local_conv(k: Pair, window, weight_var=1.0, bias_var=0.0, strides=None, padding="SAME") -> Pair:
    """Positions have weights of their own, so that different ones have nothing in common."""
    nngp, ntk = _conv(k, window, weight_var, bias_var, strides, padding)
    rank = _rank((nngp, ntk))
    space = nngp.shape[:rank]
    same = np.eye(math.prod(space), dtype=int).reshape(*space, *space, 1, 1)
    return nngp * same, ntk * same


def _conv_transpose(k: Pair, window, weight_var=1.0, bias_var=0.0, strides=None, padding="SAME") -> Pair:
    """An output position o reads position (o + offset - before) / stride, where that is one, with weights[offset]."""
    rank = _rank(k)
    for axis, (size, stride) in enumerate(zip(window, strides or (1,) * rank, strict=True)):
        length = k[0].shape[axis]
        padded = size + stride - 2 + (max(size - stride, 0) if padding == "VALID" else 0)
        before = size - 1 if padding == "VALID" or stride > size - 1 else math.ceil(padded / 2)
        outputs = (length - 1) * stride + 1 + padded - size + 1
        maps = []
        for offset in range(size):
            reads = np.zeros((outputs, length), int)
            for o in range(outputs):
                place, rest = divmod(o + offset - before, stride)
                if not rest and 0 <= place < length:
                    reads[o, place] = 1
            maps.append(reads)

        def spread(v: Exact, axis: int = axis, maps: list[Exact] = maps, size: int = size) -> Exact:
            return sum(_along(_along(v, m, axis), m, axis + rank) for m in maps) / mp.mpf(size)

        k = _map(spread, k)
    return _dense(k, weight_var, bias_var)


def _along(v: Exact, matrix: Exact, axis: int) -> Exact:
    """A matrix times one axis."""
    return np.moveaxis(np.tensordot(_exact(matrix), v, (1, axis)), 0, axis)


def _resize(k: Pair, space) -> Pair:
    """Linear interpolation between the centres of pixels to more of them."""
    rank = _rank(k)
    for axis, size in enumerate(space):
        length = k[0].shape[axis]
        assert size >= length
        centres = np.clip((np.arange(size) + 0.5) * length / size - 0.5, 0, length - 1)
        matrix = np.maximum(1 - np.abs(centres[:, None] - np.arange(length)), 0)
        k = _map(lambda v, m=matrix, a=axis: _along(_along(v, m, a), m, a + rank), k)
    return k


def _slice(k: Pair, positional) -> Pair:
    index = tuple(slice(*one) if isinstance(one, (list, tuple)) else one for one in positional)
    index = (*index, *(slice(None),) * (_rank(k) - len(index)))
    return _map(lambda v: v[(*index, *index)], k)


def _aggregate(k: Pair, matrix) -> Pair:
    return _map(lambda v: _along(_along(v, np.asarray(matrix), 0), np.asarray(matrix), 1), k)


def _dot_general(k: Pair, constant, axes) -> Pair:
    constant, rank = _exact(np.asarray(constant)), _rank(k)
    summed, new = len(axes), np.ndim(constant) - len(axes)

    def once(v: Exact, start: int) -> Exact:
        v = np.tensordot(v, constant, ([start + axis for axis in axes], list(range(summed))))
        end = start + rank - summed
        return np.moveaxis(v, range(v.ndim - new, v.ndim), range(end, end + new))

    return _map(lambda v: once(once(v, rank), 0), k)


def _positional_embedding(k: Pair, weight_var: float, length: float) -> Pair:
    rank = _rank(k)
    space = k[0].shape[:rank]
    places = np.indices(space).reshape(rank, -1)
    squares = np.sum((places[:, :, None] - places[:, None, :]) ** 2, axis=0)
    added = np.frompyfunc(lambda d: mp.mpf(weight_var) * mp.exp(-mp.mpf(int(d)) / (2 * mp.mpf(length) ** 2)), 1, 1)
    return _map(lambda v: v + added(squares).reshape(*space, *space, 1, 1), k)


def _dropout(k: Pair, rate: float) -> Pair:
    keep = 1 - mp.mpf(rate)
    space, n = k[0].shape[: _rank(k)], k[0].shape[-1]

    def drop(v: Exact) -> Exact:
        v = v.copy()
        for at in np.ndindex(*space):
            v[at + at][np.arange(n), np.arange(n)] /= keep
        return v

    return _map(drop, k)


def _attention(k: Pair, weight_var: float, query_key_var: float, weights: str = "softmax") -> Pair:
    rank = _rank(k)
    space, n = k[0].shape[:rank], k[0].shape[-1]
    flat = _map(lambda v: v.reshape(math.prod(space), math.prod(space), n, n), k)
    attend = _softmax_attention if weights == "softmax" else _linear_attention
    return _map(lambda v: v.reshape(k[0].shape), attend(flat, mp.mpf(weight_var), mp.mpf(query_key_var)))


def _softmax_attention(flat: Pair, weight_var: Any, query_key_var: Any) -> Pair:
    """Queries and keys share their weights, each of variance sqrt(query_key_var)."""
    n = flat[0].shape[-1]
    logits = np.stack([flat[0][:, :, i, i] for i in range(n)]) * mp.sqrt(query_key_var)
    weights: Any = np.frompyfunc(mp.exp, 1, 1)(logits)
    weights = weights / weights.sum(axis=-1, keepdims=True)

    def attend(v: Exact) -> Exact:
        mixed = np.empty_like(v)
        for i, j in np.ndindex(n, n):
            mixed[:, :, i, j] = weights[i] @ v[:, :, i, j] @ weights[j].T
        return weight_var * mixed

    nngp, ntk = _map(attend, flat)
    return nngp, 2 * nngp + ntk


def _linear_attention(flat: Pair, weight_var: Any, query_key_var: Any) -> Pair:
    """The product of four independent weights: the tangent kernel follows from the product rule."""
    nngp, ntk = flat
    positions = len(nngp)

    def mean(v: Exact) -> Exact:
        return v.sum(axis=(0, 1), keepdims=True) / positions**2

    factor = weight_var * query_key_var
    through_logits = 2 * nngp * mean(nngp * ntk)
    new = factor * nngp * mean(nngp * nngp)
    return new, 4 * new + factor * (ntk * mean(nngp * nngp) + through_logits)


LINEAR: dict[str, Callable[..., Pair]] = {
    "Dense": _dense,
    "Conv": _conv,
    "AvgPool": lambda k, **a: _pool(k, **a, mean=True),
    "SumPool": lambda k, **a: _pool(k, **a, mean=False),
    "GlobalAvgPool": _pool_all,
    "GlobalSumPool": lambda k: _map(lambda v: v.sum(axis=tuple(range(2 * _rank(k)))), k),
    "LocalConv": _local_conv,
    "ConvTranspose": _conv_transpose,
    "Resize": _resize,
    "Slice": _slice,
    "Aggregate": _aggregate,
    "DotGeneral": _dot_general,
    "PositionalEmbedding": _positional_embedding,
    "Identity": lambda k: k,
    "Flatten": _flatten,
    "LayerNorm": _layer_norm,
    "Dropout": _dropout,
    "SelfAttention": _attention,
}


def _correlation(k12, k11, k22):
    if k11 * k22 == 0:  # an input that does not vary has no angle; what is multiplied by it is zero
        return mp.mpf(0)
    return max(-mp.mpf(1), min(mp.mpf(1), k12 / mp.sqrt(k11 * k22)))


def _slopes(k12, k11, k22, below, above):
    below, above = mp.mpf(below), mp.mpf(above)
    weight = (above - below) ** 2 / 2
    if k11 * k22 == 0:  # from an input that does not vary there is no slope on either side: that of the other's sign
        return mp.mpf(0), (weight / 2 + below * above)
    c = _correlation(k12, k11, k22)
    angle = mp.acos(c)
    ramp = (mp.sqrt((1 - c) * (1 + c)) + (mp.pi - angle) * c) / mp.pi
    value = mp.sqrt(k11 * k22) * (weight * ramp + below * above * c)
    return value, weight * (mp.pi - angle) / mp.pi + below * above


def _leaky(k12, k11, k22, negative_slope):
    return _slopes(k12, k11, k22, negative_slope, 1)


def _rectified_square(k12, k11, k22, degree):
    assert degree == 2
    c = _correlation(k12, k11, k22)
    angle, sine = mp.acos(c), mp.sqrt((1 - c) * (1 + c))
    value = k11 * k22 * (3 * sine * c + (mp.pi - angle) * (1 + 2 * c**2)) / (2 * mp.pi)
    return value, 4 * mp.sqrt(k11 * k22) * (sine + (mp.pi - angle) * c) / (2 * mp.pi)


def _polynomial(k12, k11, k22, coefficients):
    """Moments of a Gaussian pair, pairing by pairing."""

    def moment(i, j):
        total = mp.mpf(0)
        for shared in range(min(i, j) + 1):
            if (i - shared) % 2 or (j - shared) % 2:
                continue
            ways = mp.binomial(i, shared) * mp.binomial(j, shared) * mp.factorial(shared)
            ways *= mp.fac2(i - shared - 1) * mp.fac2(j - shared - 1)
            total += ways * k12**shared * k11 ** ((i - shared) // 2) * k22 ** ((j - shared) // 2)
        return total

    def value(c):
        return sum(mp.mpf(a) * mp.mpf(b) * moment(i, j) for i, a in enumerate(c) for j, b in enumerate(c))

    return value(coefficients), value([m * c for m, c in enumerate(coefficients)][1:] or [0])


def _monomial(k12, k11, k22, degree):
    return _polynomial(k12, k11, k22, [0] * degree + [1])


def _hermite(k12, k11, k22, degree):
    unit = np.eye(degree + 1)[degree]
    coefficients = np.polynomial.hermite_e.herme2poly(unit)
    value, slope = _polynomial(k12, k11, k22, [mp.mpf(c) for c in coefficients])
    return value / mp.factorial(degree), slope / mp.factorial(degree)


def _gaussian(k12, k11, k22, rate):
    r = 2 * mp.mpf(rate)
    det = (1 + r * k11) * (1 + r * k22) - (r * k12) ** 2
    return 1 / mp.sqrt(det), r**2 * k12 / det ** mp.mpf(1.5)


def _gabor(k12, k11, k22):
    """Two Gaussian factors make it a sine of a pair with a smaller covariance; its derivative by differences."""

    def value(k):
        det = (1 + 2 * k11) * (1 + 2 * k22) - 4 * k**2
        a, b, c = (k11 + 2 * (k11 * k22 - k**2)) / det, (k22 + 2 * (k11 * k22 - k**2)) / det, k / det
        return (mp.exp(-(a + b - 2 * c) / 2) - mp.exp(-(a + b + 2 * c) / 2)) / (2 * mp.sqrt(det))

    return value(k12), mp.diff(value, k12)


def _exp_normalized(k12, k11, k22, gamma, shift):
    if k11 * k22 == 0:
        return mp.mpf(0), mp.mpf(gamma) * mp.exp(mp.mpf(gamma) * mp.mpf(shift))
    value = mp.exp(mp.mpf(gamma) * (_correlation(k12, k11, k22) + mp.mpf(shift)))
    return mp.sqrt(k11 * k22) * value, mp.mpf(gamma) * value


def _sigmoid_like(k12, k11, k22):
    square = 1 / mp.mpf(2.4020563531719796) ** 2
    value, slope = _erf(square * k12, square * k11, square * k22)
    return (1 + value) / 4, square * slope / 4


def _erf(k12, k11, k22):
    scale = (1 + 2 * k11) * (1 + 2 * k22)
    return 2 / mp.pi * mp.asin(2 * k12 / mp.sqrt(scale)), 4 / mp.pi / mp.sqrt(scale - 4 * k12**2)


def _gelu(k12, k11, k22):
    """The value in closed form, its derivative in k12 by finite differences with many digits."""

    def value(k):
        det = (1 + k11) * (1 + k22) - k**2
        angle = mp.asin(k / mp.sqrt((1 + k11) * (1 + k22)))
        density = (k11 * k22 + k**2 * (1 - k11 * k22) / ((1 + k11) * (1 + k22))) / (2 * mp.pi * mp.sqrt(det))
        return density + k / 4 + k * angle / (2 * mp.pi)

    return value(k12), mp.diff(value, k12)


def _wave(k12, k11, k22, *, frequency, weight):
    w = mp.mpf(frequency) ** 2
    plus, minus = mp.exp(-w * (k11 + k22 - 2 * k12) / 2) / 2, weight * mp.exp(-w * (k11 + k22 + 2 * k12) / 2) / 2
    return plus + minus, w * (plus - minus)


def _sin(k12, k11, k22, frequency=1.0, phase=0.0):
    return _wave(k12, k11, k22, frequency=frequency, weight=-mp.cos(2 * mp.mpf(phase)))


def _cos(k12, k11, k22, frequency=1.0):
    return _wave(k12, k11, k22, frequency=frequency, weight=mp.mpf(1))


def _exp(k12, k11, k22):
    value = mp.exp((k11 + k22) / 2 + k12)
    return value, value


def _rbf(k12, k11, k22, gamma=1.0):
    value = mp.exp(-mp.mpf(gamma) * (k11 + k22 - 2 * k12))
    return value, 2 * mp.mpf(gamma) * value


DUALS: dict[str, Callable[..., tuple[Any, Any]]] = {
    "Relu": lambda *k: _leaky(*k, negative_slope=0),
    "ABRelu": _slopes,
    "RectifiedMonomial": _rectified_square,
    "Polynomial": _polynomial,
    "Monomial": _monomial,
    "Hermite": _hermite,
    "Gaussian": _gaussian,
    "Gabor": _gabor,
    "ExpNormalized": _exp_normalized,
    "SigmoidLike": _sigmoid_like,
    "LeakyRelu": _leaky,
    "Abs": lambda *k: _leaky(*k, negative_slope=-1),
    "Sign": lambda *k: (2 / mp.pi * mp.asin(_correlation(*k)), mp.mpf(0)),
    "Erf": _erf,
    "Gelu": _gelu,
    "Sin": _sin,
    "Cos": _cos,
    "Exp": _exp,
    "Rbf": _rbf,
}
