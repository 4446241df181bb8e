"""Kernels in high-precision arithmetic: slow, plain, and independent of both libraries.

Every pair of positions of every pair of inputs is carried along, in arrays of shape (*space, *space, n, n) whose
entries are mpmath numbers, with the formulas as they stand in textbooks.
"""

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
        joined = _sum([_through(branch, k) for branch in inside])
        return joined if a["combine"] == "sum" else _map(lambda v: v / len(inside), joined)
    if name in DUALS:
        return _activate(lambda *args: DUALS[name](*args, **a), k)
    return LINEAR[name](k, **a)


def _map(fn: Callable[[Exact], Exact], k: Pair) -> Pair:
    return fn(k[0]), fn(k[1])


def _sum(ends: list[Pair]) -> Pair:
    return sum(end[0] for end in ends), sum(end[1] for end in ends)


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


def _layer_norm(k: Pair) -> Pair:
    root = np.frompyfunc(lambda a, b: mp.sqrt(a * b), 2, 1)(*_variances(k))
    return _map(lambda v: v / root, k)


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
    "Flatten": _flatten,
    "LayerNorm": _layer_norm,
    "Dropout": _dropout,
    "SelfAttention": _attention,
}


def _correlation(k12, k11, k22):
    return max(-mp.mpf(1), min(mp.mpf(1), k12 / mp.sqrt(k11 * k22)))


def _leaky(k12, k11, k22, negative_slope):
    s, c = mp.mpf(negative_slope), _correlation(k12, k11, k22)
    angle = mp.acos(c)
    ramp = (mp.sqrt((1 - c) * (1 + c)) + (mp.pi - angle) * c) / mp.pi
    weight = (1 - s) ** 2 / 2
    return mp.sqrt(k11 * k22) * (weight * ramp + s * c), weight * (mp.pi - angle) / mp.pi + s


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
