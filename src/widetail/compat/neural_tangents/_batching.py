"""Kernel functions block by block."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail.compat.neural_tangents._empirical import no_second
from widetail.compat.neural_tangents._kernel import Kernel


def batch(
    kernel_fn: Callable[..., Any], batch_size: int = 0, device_count: int = -1, store_on_device: bool = True
) -> Callable[..., Any]:
    """The kernel function compiled, and computed in blocks of `batch_size` rows of either set.

    The number of rows need not be a multiple of `batch_size`. Blocks are computed one after the other on one device,
    whatever `device_count` says; asking for several gives a warning. `store_on_device=False` puts every block into host
    memory.
    """
    if device_count > 1:
        warnings.warn(
            f"nt.batch computes on one device here, not on device_count={device_count}; the result is the same.",
            stacklevel=2,
        )
    compiled = _compiled(kernel_fn)
    if not batch_size:
        return compiled

    def store(block):
        return block if store_on_device else jax.device_put(block, jax.devices("cpu")[0])

    @functools.wraps(kernel_fn)
    def batched(x1_or_kernel, x2=None, *args, **kwargs):
        pair_options = {name: value for name, value in kwargs.items() if _is_pair(value)}
        rest = {name: value for name, value in kwargs.items() if name not in pair_options and name != "rng"}
        rng = kwargs.get("rng")
        if _is_tree_of(x1_or_kernel, Kernel):
            if not no_second(x2):
                raise ValueError("x2 must be None when a Kernel is given.")
            first = _first(x1_or_kernel)
            n1, n2, alone = *first.nngp.shape[:2], first.cov2 is None
        elif _is_tree_of(x1_or_kernel, (np.ndarray, jax.Array)):
            alone = no_second(x2)
            n1 = _first(x1_or_kernel).shape[0]
            n2 = n1 if alone else _first(x2).shape[0]
        else:
            raise TypeError(f"a batched kernel function takes arrays or Kernels; got {type(x1_or_kernel).__name__}.")
        blocks = []
        for i, start in enumerate(range(0, n1, batch_size)):
            rows1 = slice(start, min(start + batch_size, n1))
            blocks.append([])
            for j, begin in enumerate(range(0, n2, batch_size)):
                rows2 = slice(begin, min(begin + batch_size, n2))
                own = {name: (v[0][rows1], v[1][rows2]) for name, v in pair_options.items()}
                if rng is not None:
                    own["rng"] = _block_keys(rng, i, j)
                if isinstance(_first(x1_or_kernel), Kernel):
                    part = jax.tree.map(
                        lambda k, a=rows1, b=rows2: k.slice(a, b), x1_or_kernel, is_leaf=lambda k: isinstance(k, Kernel)
                    )
                    block = compiled(part, *args, **rest, **own)
                else:
                    one = jax.tree.map(lambda x, a=rows1: x[a], x1_or_kernel)
                    two = jax.tree.map(lambda x, b=rows2: x[b], x1_or_kernel if alone else x2)
                    block = compiled(one, two, *args, **rest, **own)
                blocks[-1].append(store(block))
        return _assemble(blocks, alone)

    return batched


def _block_keys(rng: Any, i: int, j: int) -> Any:
    one, other = rng if isinstance(rng, tuple) else (rng, rng)
    return jax.random.fold_in(one, i), jax.random.fold_in(other, j)


def _first(x: Any) -> Any:
    return _first(x[0]) if type(x) in (list, tuple) else x


def _is_tree_of(x: Any, kind: Any) -> bool:
    if type(x) in (list, tuple):
        return all(_is_tree_of(one, kind) for one in x)
    return isinstance(x, kind)


def _is_array(x: Any) -> bool:
    return isinstance(x, (np.ndarray, jax.Array))


def _is_pair(value: Any) -> bool:
    return type(value) is tuple and len(value) == 2 and all(_is_array(one) for one in value)


def _compiled(kernel_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled for arrays and kernels; words, numbers and functions among the arguments are part of the function."""

    @functools.lru_cache(64)
    def with_fixed(structure, fixed):
        def run(leaves):
            parts = iter(leaves)
            whole = [next(parts) if is_free else value for is_free, value in fixed]
            args, kwargs = jax.tree.unflatten(structure, whole)
            return kernel_fn(*args, **kwargs)

        return jax.jit(run)

    @functools.wraps(kernel_fn)
    def compiled(*args, **kwargs):
        leaves, structure = jax.tree.flatten((args, kwargs))
        fixed = tuple((True, None) if _is_array(leaf) else (False, leaf) for leaf in leaves)
        return with_fixed(structure, fixed)([leaf for leaf in leaves if _is_array(leaf)])

    return compiled


def _assemble(blocks: list[list[Any]], alone: bool) -> Any:
    """One result from a grid of results."""
    head = blocks[0][0]
    if isinstance(head, Kernel):
        return _assemble_kernels(blocks, alone)
    if hasattr(head, "_fields"):
        parts = [_assemble([[getattr(b, name) for b in row] for row in blocks], alone) for name in head._fields]
        return type(head)(*parts)
    if type(head) in (list, tuple):
        return type(head)(_assemble([[b[i] for b in row] for row in blocks], alone) for i in range(len(head)))
    return jnp.concatenate([jnp.concatenate(row, 1) for row in blocks], 0)


def _assemble_kernels(blocks: list[list[Kernel]], alone: bool) -> Kernel:
    head = blocks[0][0]
    if not head.diagonal_batch:
        raise NotImplementedError("nt.batch needs kernels with diagonal_batch=True.")

    def grid(name) -> Any:
        if getattr(head, name) is None:
            return None
        return jnp.concatenate([jnp.concatenate([getattr(b, name) for b in row], 1) for row in blocks], 0)

    def side(name, parts):
        return None if getattr(head, name) is None else jnp.concatenate([getattr(b, name) for b in parts], 0)

    def longer(shape, count):
        return (*shape[: head.batch_axis], count, *shape[head.batch_axis + 1 :])

    column, row = [one[0] for one in blocks], blocks[0]
    nngp = grid("nngp")
    is_same = [b.x1_is_x2 for i, one in enumerate(blocks) for j, b in enumerate(one) if i == j]
    square = nngp.shape[0] == nngp.shape[1]
    return head.replace(
        nngp=nngp,
        ntk=grid("ntk"),
        cov1=side("cov1", column),
        cov2=None if alone else side("cov2", row),
        mask1=side("mask1", column),
        mask2=None if alone else side("mask2", row),
        x1_is_x2=jnp.all(jnp.stack([jnp.asarray(one) for one in is_same])) if square else jnp.asarray(False),
        shape1=longer(head.shape1, nngp.shape[0]),
        shape2=longer(head.shape2, nngp.shape[1]),
    )
