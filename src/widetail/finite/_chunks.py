"""Computations for thousands of networks, in chunks that fit into memory."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from widetail.finite._network import ScaledNetwork
from widetail.kernels import available_memory
from widetail.progress import Progress, reporter

# Larger chunks are not faster: they do not fit into the cache.
MOST_BYTES = 256e6


def chunk_size(
    network: ScaledNetwork, input_shape: tuple[int, ...], rows: int, *, copies: float = 1.0, memory: float | None = None
) -> int:
    """How many networks to work on at once.

    Args:
        network: one of them.
        input_shape: shape of one input.
        rows: inputs that every network is evaluated at.
        copies: how many arrays of the size of the parameters are alive at once, such as gradients.
        memory: bytes to stay below; by default 256 MB, or a quarter of what is free if that is less.
    """
    if memory is None:
        memory = min(MOST_BYTES, available_memory() / 4)
    elif isinstance(memory, bool) or not memory > 0:
        raise ValueError(f"memory must be a positive number of bytes, such as 1e9, or None; got {memory!r}.")
    key = jax.eval_shape(lambda: jax.random.key(0))
    parameters = jax.eval_shape(lambda k: network.init(k, input_shape, 1.0), key)
    x = jax.ShapeDtypeStruct((rows, *input_shape), jnp.float32)
    # every intermediate array of a forward pass: more than are alive at once, and what a backward pass keeps
    traced = jax.make_jaxpr(lambda p, x: network.apply(p, 1.0, x))(parameters, x)
    activations = sum(math.prod(out.aval.shape) for equation in traced.jaxpr.eqns for out in equation.outvars)
    weights = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(parameters))
    # random bits take as much again as the weights made from them
    per_network = 4.0 * ((1 + copies) * weights + (1 + copies) * activations)
    return max(1, int(memory // per_network))


def network_key(key: PRNGKeyArray, number: Any) -> PRNGKeyArray:
    """The key of network `number`: the same however many there are, and however they are cut into chunks."""
    return jax.random.fold_in(key, number)


def over_chunks(
    fn: Callable[[Any, Any], Any],
    key: PRNGKeyArray,
    scales: np.ndarray,
    size: int,
    *,
    progress: Progress,
    label: str,
) -> Any:
    """Results of `fn(keys, scales)` on chunks of networks, put together along their first axis, as NumPy.

    The last chunk is filled up, so that one compiled function serves all of them.
    """
    report = reporter(progress, label)
    count = len(scales)
    size = min(size, count)
    results = []
    for start in range(0, count, size):
        report(start, count)
        numbers = np.minimum(np.arange(start, start + size), count - 1)
        keys = jax.vmap(lambda number: network_key(key, number))(jnp.asarray(numbers, jnp.uint32))
        part = fn(keys, jnp.asarray(scales[numbers], jnp.float32))
        kept = min(size, count - start)
        results.append(jax.tree.map(lambda leaf, kept=kept: np.asarray(leaf)[:kept], part))
    report(count, count)
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *results)
