"""One tile on all devices of a worker, which share its rows."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from widetail.kernels import Get, Kernel, KernelValues, Rows, tile_rows
from widetail.numerics import with_rows

AXIS = "rows"


def device_count() -> int:
    """How many devices of the default kind this process has."""
    return jax.local_device_count()


class ShardedKernel:
    """A kernel evaluated by all local devices: they share the rows of one side, and all have the other.

    Nothing is exchanged between devices. What is compiled is kept with the object.

    Args:
        kernel: a network or a kernel.
        get: "nngp" or "ntk".
    """

    def __init__(self, kernel: Kernel, get: Get):
        devices = jax.local_devices()
        self.kernel, self.get = kernel, get
        self.mesh = jax.make_mesh((len(devices),), (AXIS,), devices=devices)
        cross_fn = kernel.cross_fn(get)

        def combine(rows1: Rows, rows2: Rows) -> jax.Array:
            return self._pick(cross_fn(rows1, rows2))

        self._prepare = jax.jit(kernel.rows_fn(get))
        self._prepare_shared = self._mapped(kernel.rows_fn(get), (PartitionSpec(AXIS),))
        self._combine = self._mapped(combine, (PartitionSpec(AXIS), PartitionSpec()))

    def __call__(self, x1: np.ndarray, x2: np.ndarray | None = None) -> np.ndarray:
        """The kernel between the rows of `x1` and of `x2`, shape (n1, n2), in the dtype of the inputs.

        Symmetric, with the exact diagonal, when `x2` is None.
        """
        other = x1 if x2 is None else x2
        with jax.enable_x64(x1.dtype == np.float64):
            values = self._in_steps(x1, other)
            if x2 is not None:
                return values
            diagonal = self._pick(self._prepare(jnp.asarray(x1)).diagonal)
        values = 0.5 * (values + values.T)  # products may round differently across the diagonal
        np.fill_diagonal(values, np.asarray(diagonal))
        return values

    def _in_steps(self, x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
        """Steps of one shape, in which every device has the work of one tile of the engine."""
        out = np.empty((len(x1), len(x2)), x1.dtype)
        numbers = self.kernel.numbers_per_pair(x1.shape[1:])
        rows, columns = tile_rows(numbers, -(-len(x1) // self.mesh.size)), tile_rows(numbers, len(x2))
        everywhere, shared = (NamedSharding(self.mesh, PartitionSpec(*axes)) for axes in ((), (AXIS,)))
        step = rows * self.mesh.size
        lefts = [
            (start, self._prepare_shared(jax.device_put(with_rows(x1[start : start + step], step), shared)))
            for start in range(0, len(x1), step)
        ]
        for left in range(0, len(x2), columns):
            side = self._prepare(jax.device_put(with_rows(x2[left : left + columns], columns), everywhere))
            for start, rows1 in lefts:
                target = out[start : start + step, left : left + columns]
                target[...] = np.asarray(self._combine(rows1, side))[: target.shape[0], : target.shape[1]]
        return out

    def _mapped(self, fn: Any, in_specs: Any) -> Any:
        return jax.jit(jax.shard_map(fn, mesh=self.mesh, in_specs=in_specs, out_specs=PartitionSpec(AXIS)))

    def _pick(self, values: KernelValues) -> Any:
        return values.ntk if self.get == "ntk" else values.nngp
