"""Convolutions: one filter, used at every position."""

import itertools
from typing import Any

import jax
import numpy as np

from widetail.programs._program import program
from widetail.programs.language._source import InputError


def convolve(p: Any, maps: Any, inputs: dict, window: int, weight_var: float, bias_var: float, *, of_data: bool) -> Any:
    """One convolution with zeros around (SAME): `maps` are the positions, `inputs` what is at each of them."""
    rank = len(next(iter(inputs)))
    offsets = list(itertools.product(range(-((window - 1) // 2), window // 2 + 1), repeat=rank))
    make = p.input_matrix if of_data else p.matrix
    filters = {offset: make(weight_var) for offset in offsets}
    b = p.bias(bias_var)
    scale = len(offsets) ** -0.5
    found = {}
    for position in maps:
        shifted = {offset: tuple(a + o for a, o in zip(position, offset, strict=True)) for offset in offsets}
        window_products = [filters[offset] @ inputs[there] for offset, there in shifted.items() if there in inputs]
        found[position] = scale * p.sum(window_products) + b
    return found


@program
def cnn(
    p: Any,
    xs: Any,
    *,
    depth: int = 2,
    window: int = 3,
    fn: Any = jax.nn.relu,
    weight_var: float = 2.0,
    bias_var: float = 0.1,
) -> Any:
    """Convolutions over sequences (1-D) or images (2-D), then the average over all positions.

    `nn.cnn(pooling=True)` as a program (LeCun et al., 1989; its limit: Novak et al., 2019).
    Every pair of positions has a covariance of its own: meant for some hundred positions.
    """
    if not getattr(xs, "shape", ()):
        raise InputError("cnn takes sequences (n, time, features) or images (n, height, width, channels)")
    positions = [tuple(int(i) for i in index) for index in np.ndindex(*xs.shape)]
    h = {position: xs[position] for position in positions}
    for layer in range(depth):
        g = convolve(p, positions, h, window, weight_var, bias_var, of_data=layer == 0)
        h = {position: p.nonlin(fn, g[position]) for position in positions}
    return p.mean(list(h.values()))


@program
def graph_convolution(
    p: Any,
    xs: Any,
    *,
    adjacency: Any = None,
    depth: int = 2,
    fn: Any = jax.nn.relu,
    weight_var: float = 2.0,
    bias_var: float = 0.1,
) -> Any:
    """Signals on the nodes of one graph (Kipf and Welling, 2017), averaged over the nodes.

    An input is (nodes, features). Each layer is fn(sum_j S_ij W h_j + b) with S = D^-1/2 (A + 1) D^-1/2.

    `adjacency`: rows of A, as many as there are nodes; None for a ring.
    """
    count = len(xs)
    if adjacency is None:
        A = np.roll(np.eye(count), 1, axis=1) + np.roll(np.eye(count), -1, axis=1)
    else:
        A = np.asarray(adjacency, float)
        if A.shape != (count, count):
            raise InputError(f"graph_convolution: adjacency has shape {A.shape}, but the inputs have {count} nodes")
    A = np.minimum(A, 1) if adjacency is None else A
    S = A + np.eye(count)
    S = S / np.sqrt(np.outer(S.sum(axis=1), S.sum(axis=1)))
    h = list(xs)
    for layer in range(depth):
        W = p.matrix(weight_var) if layer else p.input_matrix(weight_var)
        b = p.bias(bias_var)
        messages = [W @ value for value in h]
        h = [
            p.nonlin(fn, p.sum([float(S[i, j]) * messages[j] for j in range(count) if S[i, j]]) + b)
            for i in range(count)
        ]
    return p.mean(h)
