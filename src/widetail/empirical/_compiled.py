"""A model, and what was compiled for it."""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from widetail.empirical._arguments import doubles_allowed
from widetail.empirical._methods import WAYS, ByStructure, Way
from widetail.empirical._models import Apply
from widetail.empirical._outputs import Layout


class Compiled:
    """A model, and what was compiled for it: one entry per way, layout of outputs, and kind of input."""

    def __init__(self, apply: Apply):
        self.apply = apply
        self.ways: dict[Any, Way] = {}

    def row(self, params: Any, row: Any) -> Any:
        """The model's output for one row, without the axis of rows."""
        y = self.apply(params, jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], row))
        if not isinstance(y, jax.Array) or y.ndim < 1 or y.shape[0] != 1:
            shape = getattr(y, "shape", type(y).__name__)
            raise ValueError(
                f"model must return one array with a row for every row of x; for one row it returned {shape}."
            )
        return y[0]

    def output_shape(self, params: Any, row: Any) -> tuple[int, ...]:
        """The shape of what the model returns for one row."""
        return jax.eval_shape(self.row, params, row).shape

    def way(self, name: str, params: Any, row: Any, layout: Layout) -> Way:
        """One way, made for inputs like `row`."""
        leaves, structure = jax.tree.flatten((params, row))
        kinds = tuple((leaf.shape, jnp.result_type(leaf).name) for leaf in leaves)
        key = (name, layout, structure, kinds, doubles_allowed())
        if key not in self.ways:
            way = WAYS[name](self.row, params, row, layout)
            if isinstance(way, ByStructure) and way.walk.meetings.constant_outputs:
                way = WAYS["jacobian"](self.row, params, row, layout)  # no layer stands between parameters and result
            self.ways[key] = way
        return self.ways[key]


@functools.partial(jax.jit, static_argnums=0)
def pull_back(compiled: Compiled, params: Any, x: Any, vector: Any) -> Any:
    y, back = jax.vjp(lambda p: compiled.apply(p, x), params)
    return back(jnp.asarray(vector, y.dtype))[0]


@functools.partial(jax.jit, static_argnums=0)
def push_forward(compiled: Compiled, params: Any, x: Any, tangent: Any) -> Any:
    return jax.jvp(lambda p: compiled.apply(p, x), (params,), (tangent,))[1]
