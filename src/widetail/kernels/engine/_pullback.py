"""Gradients with respect to a kernel's parameters, tile by tile."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from widetail.kernels._values import Get, KernelValues
from widetail.kernels.engine._engine import Workers, keep_freed_memory, padded_block
from widetail.kernels.engine._tiles import Blocks, tile_rows, tiles_of
from widetail.numerics import with_rows
from widetail.progress import Progress, reporter

# A derivative keeps arrays of every layer of its tile, so its tiles are smaller.
KEPT_PER_NUMBER = 4


def pull_back(kernel: Any, cotangent: KernelValues, x1: Any, x2: Any, get: Get, *, progress: Progress = False) -> Any:
    """Pull cotangents of the kernels back to the parameters; see `Kernel.pull_back`."""
    symmetric = x2 is None
    source1 = np.asarray(x1)
    source2 = source1 if symmetric else np.asarray(x2)
    cotangent = KernelValues(*(None if g is None else np.asarray(g, source1.dtype) for g in cotangent))
    numbers = KEPT_PER_NUMBER * kernel.numbers_per_pair(x1.shape[1:])
    blocks1 = Blocks(len(source1), tile_rows(numbers, len(source1)))
    blocks2 = Blocks(len(source2), tile_rows(numbers, len(source2)))
    parameters, rest = eqx.partition(kernel, eqx.is_inexact_array_like)
    leaves, structure = jax.tree.flatten(rest)

    def tile_gradient(i: int, j: int) -> Any:
        here, there = blocks1[i], blocks2[j]
        block1, block2 = padded_block(source1, blocks1, i), padded_block(source2, blocks2, j)
        weights = KernelValues(
            *(
                None if g is None else _tile_weights(g, here, there, symmetric, blocks1.size, blocks2.size)
                for g in cotangent
            )
        )
        on_diagonal = None
        if symmetric and i == j:
            on_diagonal = KernelValues(
                *(None if g is None else with_rows(np.diagonal(g)[here], blocks1.size, "zero") for g in cotangent)
            )
        return _gradient(structure, get, parameters, leaves, block1, block2, weights, on_diagonal)

    tasks = [
        functools.partial(tile_gradient, i, j)
        for i, j in tiles_of(range(len(blocks1)), range(len(blocks2)), symmetric=symmetric)
    ]
    report = reporter(progress, "gradient")
    keep_freed_memory()
    with Workers(double=source1.dtype == np.float64) as workers:
        parts = workers.run(tasks, lambda done: report(done, len(tasks)))
    total = jax.tree.map(lambda *terms: np.sum(np.stack([np.asarray(term) for term in terms]), axis=0)[()], *parts)
    return eqx.combine(total, rest)


def check_cotangent(kernel: Any, cotangent: Any, shape: tuple[int, int]) -> Get:
    """Which kernels the cotangent is of, or an error that says what is wrong with it."""
    if not isinstance(cotangent, KernelValues):
        raise ValueError(
            f"cotangent must be widetail.kernels.KernelValues(nngp=..., ntk=...); got {type(cotangent).__name__}."
        )
    for name, g in zip(cotangent._fields, cotangent, strict=True):
        if g is not None and np.shape(g) != shape:
            raise ValueError(f"cotangent.{name} must have the kernel's shape {shape}; got {np.shape(g)}.")
    if cotangent.ntk is not None and not kernel.has_ntk:
        raise ValueError(f"cotangent.ntk must be None for {type(kernel).__name__}, which has no tangent kernel.")
    if cotangent.nngp is None and cotangent.ntk is None:
        raise ValueError("cotangent must hold an array for nngp, for ntk, or for both; both are None.")
    return "nngp" if cotangent.ntk is None else "ntk" if cotangent.nngp is None else "both"


def _tile_weights(g: np.ndarray, here: slice, there: slice, symmetric: bool, rows: int, columns: int) -> np.ndarray:
    """The weights of the entries of a tile: in the symmetric case a tile represents its mirror image too."""
    weights = g[here, there]
    if symmetric and here == there:
        weights = weights - np.diag(np.diagonal(weights))  # the diagonal is differentiated separately
    elif symmetric:
        weights = weights + g[there, here].T
    return with_rows(with_rows(weights, rows, "zero").T, columns, "zero").T  # padding has no weight


@functools.partial(jax.jit, static_argnums=(0, 1))
def _gradient(structure, get, parameters, rest, x1, x2, weights, on_diagonal):
    def weighted_sum(parameters):
        kernel = eqx.combine(parameters, jax.tree.unflatten(structure, rest))
        rows_fn = kernel.rows_fn(get)
        rows1 = rows_fn(x1)
        rows2 = rows1 if on_diagonal is not None else rows_fn(x2)
        pairs = [*zip(kernel.cross_fn(get)(rows1, rows2), weights, strict=True)]
        if on_diagonal is not None:
            pairs += zip(rows1.diagonal, on_diagonal, strict=True)
        return sum(jnp.vdot(k, g) for k, g in pairs if g is not None)

    return jax.grad(weighted_sum)(parameters)
