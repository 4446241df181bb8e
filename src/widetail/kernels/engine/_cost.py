"""Estimates of time and memory."""

import dataclasses
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail.kernels._inputs import check_array
from widetail.kernels._values import Get, KernelValues
from widetail.kernels.engine._memory import kernel_bytes
from widetail.kernels.engine._tiles import PANEL_BYTES, Blocks, tile_rows, worker_count
from widetail.numerics import cores


@dataclasses.dataclass(frozen=True)
class Cost:
    """An estimate of what one kernel evaluation takes.

    Attributes:
        seconds: wall time on this machine's cores, compilation not included.
        output_bytes: memory of the result.
        workspace_bytes: memory used besides the result, an upper bound.
        tiles: how many tiles would be evaluated.
    """

    seconds: float
    output_bytes: int
    workspace_bytes: int
    tiles: int

    def __str__(self) -> str:
        return (
            f"about {self.seconds:.3g} s in {self.tiles} tiles; {self.output_bytes / 1e9:.3g} GB for the result "
            f"and up to {self.workspace_bytes / 1e9:.3g} GB beside it"
        )


def estimate(kernel: Any, x1: Any, x2: Any, get: Get) -> Cost:
    """Time one tile and count the others; see `Kernel.cost`."""
    shape1, dtype = _shape_and_dtype("x1", x1)
    shape2, _ = (shape1, dtype) if x2 is None else _shape_and_dtype("x2", x2)
    kernel.check_shape("x1", shape1[1:])
    if shape2[1:] != shape1[1:]:
        raise ValueError(f"x1 and x2 must agree in all axes but the first; got shapes {shape1} and {shape2}.")
    numbers = kernel.numbers_per_pair(shape1[1:])
    blocks1 = Blocks(shape1[0], tile_rows(numbers, shape1[0]))
    blocks2 = Blocks(shape2[0], tile_rows(numbers, shape2[0]))
    pairs = len(blocks1) * len(blocks2)
    tiles = len(blocks1) * (len(blocks1) + 1) // 2 if x2 is None else pairs
    wanted = KernelValues(get != "ntk" or None, (get != "nngp" and kernel.has_ntk) or None)
    seconds = _time_tile(kernel, blocks1.size, blocks2.size, shape1[1:], dtype, get)
    tile_bytes = blocks1.size * blocks2.size * numbers * dtype.itemsize
    return Cost(
        seconds=seconds * tiles / min(cores(), tiles),
        output_bytes=kernel_bytes((shape1[0], shape2[0]), wanted, dtype),
        # inputs and outputs of a step for both kernels, and as much again for what a step keeps inside
        workspace_bytes=2 * PANEL_BYTES + worker_count() * 8 * tile_bytes,
        tiles=tiles,
    )


def _shape_and_dtype(name: str, x: Any) -> tuple[tuple[int, ...], np.dtype]:
    if isinstance(x, tuple) and all(isinstance(size, int) for size in x):
        if len(x) < 2 or min(x) < 1:
            raise ValueError(f"{name} must be inputs or their shape, (n, d) or (n, ..., channels); got {x}.")
        return x, np.dtype(np.float64)
    x = check_array(name, x)
    return x.shape, np.dtype(x.dtype)


def _time_tile(kernel: Any, rows1: int, rows2: int, input_shape: tuple[int, ...], dtype: np.dtype, get: Get) -> float:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(max(rows1, rows2), *input_shape)).astype(dtype)
    with jax.enable_x64(dtype == np.float64):
        rows_fn, cross_fn = kernel.rows_fn(get), kernel.cross_fn(get)
        prepared1, prepared2 = rows_fn(jnp.asarray(x[:rows1])), rows_fn(jnp.asarray(x[:rows2]))
        best = float("inf")
        for _ in range(3):  # the first one compiles
            start = time.perf_counter()
            jax.block_until_ready(cross_fn(prepared1, prepared2))
            best = min(best, time.perf_counter() - start)
    return best
