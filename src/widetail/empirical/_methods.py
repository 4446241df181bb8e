"""The three ways to compute a tangent kernel; each prepares rows and combines prepared rows."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from widetail.empirical._outputs import Layout
from widetail.empirical._structured import ORDER, Structured
from widetail.empirical._tape import Meetings, Tape

METHODS = ("structured", "jacobian", "products")


class Way:
    """What all ways share: the model on one row, its size and its cost.

    `row_function(params, row)` gives the output of one row, `layout` says what becomes of it.
    """

    def __init__(self, row_function: Callable[[Any, Any], Any], params: Any, row: Any, layout: Layout):
        self.layout = layout
        self.function = lambda p, x: layout.sort(row_function(p, x))
        self.outputs = math.prod(layout.groups)
        self.size = sum(leaf.size for leaf in jax.tree.leaves(params))
        self.dtype = jnp.result_type(*jax.tree.leaves(params), *jax.tree.leaves(row))
        tape = Tape(self.function, params, row)
        self.forward_flops = tape.flops()
        own = Meetings(tape, len(jax.tree.leaves(params))).from_row  # the weights are there once for all rows
        sizes = [math.prod(tape.shapes[slot].shape) for slot in own]
        # forward values are kept for the way back, which holds a few arrays for every output at a time
        self.passing_numbers = sum(sizes) + 2 * self.outputs * max(sizes, default=1)
        self.rows = jax.jit(self._rows)
        self.cross = jax.jit(self._cross)
        self.aligned = jax.jit(self._aligned)

    row_flops: float
    pair_flops: float
    row_numbers: int
    pair_numbers: int
    one_row_numbers: int = 0  # while one row of the first side meets a row of the second

    def _rows(self, params: Any, x: Any) -> Any:
        raise NotImplementedError

    def _cross(self, params: Any, rows1: Any, rows2: Any) -> Any:
        raise NotImplementedError

    def _aligned(self, params: Any, rows1: Any, rows2: Any) -> Any:
        """Row i of one side with row i of the other: (n, diagonal, free, free)."""

        def one(row1: Any, row2: Any) -> Any:
            first, second = (jax.tree.map(lambda leaf: leaf[None], row) for row in (row1, row2))
            return self._cross(params, first, second)[0, 0]

        return jax.vmap(one)(rows1, rows2)

    def block(self, params: Any, rows1: Any, rows2: Any) -> np.ndarray:
        """The tangent kernel of prepared rows as NumPy, (n1, n2, diagonal, free, free)."""
        return np.asarray(self.cross(params, rows1, rows2))

    def nngp(self, rows1: Any, rows2: Any) -> Any:
        """Products of the outputs, in the shape of the tangent kernel."""
        return jnp.einsum("idtf,jdtg->ijdfg", rows1[0], rows2[0]) / self.layout.groups[1]

    def nngp_aligned(self, rows1: Any, rows2: Any) -> Any:
        """The same of row i with row i."""
        return jnp.einsum("idtf,idtg->idfg", rows1[0], rows2[0]) / self.layout.groups[1]


class ByStructure(Way):
    """Layer by layer; see `Structured`."""

    def __init__(self, row_function: Callable[[Any, Any], Any], params: Any, row: Any, layout: Layout):
        super().__init__(row_function, params, row, layout)
        self.walk = Structured(row_function, params, row, layout)
        self.row_flops = self.walk.row_flops()
        self.pair_flops = self.walk.pair_flops()
        self.row_numbers = self.walk.row_numbers()
        self.pair_numbers = self.walk.pair_numbers()
        self.one_row_numbers = self.walk.position_numbers()
        self._products = jax.jit(self.walk.products_of_rows)

    def _rows(self, params: Any, x: Any) -> Any:
        return self.walk.rows(params, x)

    def _cross(self, params: Any, rows1: Any, rows2: Any) -> Any:
        return self.walk.cross(rows1, rows2)

    def block(self, params: Any, rows1: Any, rows2: Any) -> np.ndarray:
        """NumPy changes the order of axes while the block is copied to its place, which XLA would do for itself."""
        return np.asarray(self._products(rows1, rows2)).transpose(ORDER)


class ByJacobian(Way):
    """The gradients of all outputs in all parameters, and their inner products."""

    def __init__(self, row_function: Callable[[Any, Any], Any], params: Any, row: Any, layout: Layout):
        super().__init__(row_function, params, row, layout)
        diagonal, traced, free = layout.groups
        self.row_flops = self.forward_flops * (1 + 2 * self.outputs)
        self.pair_flops = 2.0 * diagonal * traced * free**2 * self.size
        self.row_numbers = self.outputs * (self.size + 1)
        self.pair_numbers = 3 * diagonal * free**2

    def _rows(self, params: Any, x: Any) -> Any:
        def one(row: Any) -> Any:
            y, back = jax.vjp(lambda p: self.function(p, row), params)
            (gradients,) = jax.vmap(back)(jnp.eye(y.size, dtype=y.dtype).reshape(y.size, *y.shape))
            parts = [gradient.reshape(y.size, -1) for gradient in jax.tree.leaves(gradients)]
            return y, jnp.concatenate(parts, axis=1).reshape(*y.shape, -1)

        return jax.vmap(one)(x)

    def _cross(self, params: Any, rows1: Any, rows2: Any) -> Any:
        return jnp.einsum("idtfp,jdtgp->ijdfg", rows1[1], rows2[1]) / self.layout.groups[1]


class ByProducts(Way):
    """The kernel times unit vectors: back through one side, forward through the other, a row at a time."""

    def __init__(self, row_function: Callable[[Any, Any], Any], params: Any, row: Any, layout: Layout):
        super().__init__(row_function, params, row, layout)
        diagonal, _, free = layout.groups
        self.row_flops = self.forward_flops
        self.pair_flops = 2 * self.outputs * self.forward_flops
        self.row_numbers = self.outputs + sum(leaf.size for leaf in jax.tree.leaves(row))
        self.pair_numbers = 3 * diagonal * free**2
        self.one_row_numbers = self.outputs * (self.outputs + self.size // 8 + self.passing_numbers)

    def _rows(self, params: Any, x: Any) -> Any:
        return jax.vmap(lambda row: self.function(params, row))(x), x

    def _cross(self, params: Any, rows1: Any, rows2: Any) -> Any:
        def outputs_of_second(p: Any) -> Any:
            return jax.vmap(lambda row: self.function(p, row))(rows2[1])

        def one(row: Any) -> Any:
            y, back = jax.vjp(lambda p: self.function(p, row), params)
            (gradients,) = jax.vmap(back)(jnp.eye(y.size, dtype=y.dtype).reshape(y.size, *y.shape))
            along = jax.vmap(lambda tangent: jax.jvp(outputs_of_second, (params,), (tangent,))[1])(gradients)
            return jnp.einsum("dtfjdtg->jdfg", along.reshape(*y.shape, *along.shape[1:]))

        return lax.map(one, rows1[1]) / self.layout.groups[1]


WAYS: dict[str, type[Way]] = {"structured": ByStructure, "jacobian": ByJacobian, "products": ByProducts}
