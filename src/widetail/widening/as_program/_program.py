"""A model as a tensor program: every entry of every array is a vector across the width, a scalar, or a number.

An array is held as an array of integers of the shape that it has at one width: which vector an entry belongs to, and
which of its entries it is. Rearrangements act on the integers as they act on the array. Whatever combines entries must
find whole vectors, in step; otherwise it is refused. So nothing has to be assumed of the order of axes.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail.programs import statements as st
from widetail.widening._primitives import ELEMENTWISE, REFUSED, STRUCTURAL, SUMS
from widetail.widening._prologue import Narrow
from widetail.widening.as_program._entries import STRIDE, Par, Sym
from widetail.widening.as_program._functions import Instructions
from widetail.widening.as_program._products import Products
from widetail.widening.as_program._symbols import Base, Op, Read


class ProgramWalk(Products):
    """Writes a tensor program down, at one width."""

    def equation(self, equation: Any, name: str, arguments: list[Any]) -> list[Any]:
        params = equation.params
        arguments = self._with_constants(name, arguments)
        if all(isinstance(argument, (np.ndarray, Narrow)) for argument in arguments):
            return self._step(equation, arguments)
        if name in ELEMENTWISE:
            return [self._elementwise(equation, Op(name, equation.primitive, params), arguments)]
        if name in STRUCTURAL:
            return self._structural(equation, name, arguments)
        if name in SUMS:
            return [SUM_METHODS[name](self, equation, *arguments)]
        if name == "reduce_max":
            return [self._max(arguments[0], tuple(map(int, params["axes"])))]
        if name == "reduce_window_max":
            return [self._window_max(params, arguments[0])]
        if name == "optimization_barrier":
            return list(arguments)
        raise self.refuse(
            f"{name} is not understood" + (f": {REFUSED[name]}" if name in REFUSED else " in a wide model")
        )

    def _with_constants(self, name: str, arguments: list[Any]) -> list[Any]:
        """Parameters without a wide axis as numbers, but for the bias of a readout, which is left out."""
        fixed = [isinstance(a, Par) and self.leaves[a.leaf].is_constant for a in arguments]
        if not any(fixed) or (name in STRUCTURAL and len(arguments) == 1):
            return arguments
        others = [a for a, is_fixed in zip(arguments, fixed, strict=True) if not is_fixed]
        if name in ("add", "add_any") and len(others) == 1 and isinstance(others[0], Sym):
            numbers = np.unique(others[0].ids // STRIDE)
            if all(isinstance(self.entries[number], Read) for number in numbers):
                self.roles[arguments[fixed.index(True)].leaf] = "readout bias"
                return [a if not is_fixed else np.zeros(a.shape) for a, is_fixed in zip(arguments, fixed, strict=True)]
        values = []
        for argument, is_fixed in zip(arguments, fixed, strict=True):
            if is_fixed:
                self.roles.setdefault(argument.leaf, "constant")
                constant = np.asarray(self.leaves[argument.leaf].constant).reshape(-1)
                argument = constant[argument.elements] * argument.factor
            values.append(argument)
        return values

    def at(self, value: Any, index: int) -> Any:
        return Sym(value.ids[index]) if isinstance(value, Sym) else Par(value.leaf, value.elements[index], value.factor)

    def stacked(self, values: list[Any]) -> Any:
        return Sym(np.stack([self.sym(value).ids for value in values]))

    def _structural(self, equation: Any, name: str, arguments: list[Any]) -> list[Any]:
        """A rearrangement, of the numbers of entries in place of the entries."""
        pars = [argument for argument in arguments if isinstance(argument, Par)]
        is_index = {"gather": (1,), "dynamic_slice": tuple(range(1, len(arguments)))}.get(name, ())
        for k in is_index:
            if isinstance(arguments[k], Narrow) and name == "gather" and isinstance(arguments[0], Par):
                return [self._lookup(equation, *arguments)]
            if not isinstance(arguments[k], np.ndarray):
                raise self.refuse(f"{name} at places that depend on the data is not understood, but for embeddings")
        if pars and all(isinstance(a, Par) or k in is_index for k, a in enumerate(arguments)) and len(pars) == 1:
            results = self._rearranged(equation, [p.elements if p is pars[0] else p for p in arguments])
            if name == "gather" and any(np.any(result < 0) for result in results):
                raise self.refuse("gather reads outside of the array")
            return [Par(pars[0].leaf, result, pars[0].factor) for result in results]
        moved = [a if k in is_index else self.sym(a).ids for k, a in enumerate(arguments)]
        return [Sym(result) for result in self._rearranged(equation, moved)]

    def _rearranged(self, equation: Any, arguments: list[Any]) -> list[np.ndarray]:
        params = equation.params
        if "fill_value" in params:  # what lies outside becomes -1, which no entry is
            params = params | {"fill_value": -1}
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            results = equation.primitive.bind(*(jnp.asarray(argument) for argument in arguments), **params)
        results = results if equation.primitive.multiple_results else [results]
        results = [np.asarray(result) for result in results]
        if any(np.any(result < 0) for result in results):
            raise self.refuse(f"{equation.primitive.name} reads outside of the array")
        return results

    def _lookup(self, equation: Any, par: Par, indices: Narrow) -> Any:
        """Rows of a table at places that the input gives: a product of the table with ones and zeros."""
        numbers, params = equation.params["dimension_numbers"], equation.params
        shape, sizes = equation.outvars[0].aval.shape, tuple(params["slice_sizes"])
        clips = params["mode"] == jax.lax.GatherScatterMode.CLIP
        starts = tuple(numbers.start_index_map)
        # an axis that is read as a whole begins at zero, whatever is asked for
        along = tuple(axis for axis in starts if sizes[axis] < par.shape[axis]) if clips else starts
        simple = (
            len(par.shape) == 2
            and len(along) == 1
            and sizes == tuple(1 if axis == along[0] else size for axis, size in enumerate(par.shape))
            and tuple(numbers.collapsed_slice_dims) in (along, ())
            and tuple(numbers.offset_dims) == tuple(range(len(indices.shape) - 1, len(shape)))
        )
        if not simple:
            raise self.refuse("this way of looking up rows of a table is not understood; table[index] is")
        count, column = par.shape[along[0]], starts.index(along[0])

        def one_hot(index: Any) -> Any:
            index = index[..., column]
            if clips:
                index = jnp.clip(index, 0, count - 1)
            found = (index[..., None] == jnp.arange(count, dtype=index.dtype)).astype(jnp.float64)
            return found if clips else jnp.where(((index >= 0) & (index < count))[..., None], found, jnp.nan)

        hot = self._narrow(one_hot, indices)
        leaf = self.leaves[par.leaf]
        var = 1.0 if leaf.var is None else leaf.var
        table = Par(par.leaf, np.moveaxis(par.elements, along[0], 0), par.factor)
        return Sym(self._input_product(hot, table, var, ()).ids.reshape(shape))


# What becomes of the primitives of `SUMS`.
SUM_METHODS: dict[str, Callable[..., Any]] = {
    "dot_general": lambda walk, equation, *values: walk._dot(equation.params["dimension_numbers"], *values),
    "reduce_sum": lambda walk, equation, value: walk._sum(value, tuple(map(int, equation.params["axes"]))),
    "conv_general_dilated": lambda walk, equation, *values: walk._convolution(equation.params, *values),
    "reduce_window_sum": lambda walk, equation, value: walk._window_sum(equation.params, value),
    "cumsum": lambda walk, equation, value: walk._cumsum(value, equation.params["axis"], equation.params["reverse"]),
    "scatter-add": ProgramWalk._scatter_add,
}


def instructions_of(fn: Any) -> tuple[Any, ...]:
    """What the walk makes of a function of entries."""
    with jax.enable_x64(True):
        closed = jax.make_jaxpr(fn)(jax.ShapeDtypeStruct((2,), np.float64))
    walk = ProgramWalk((1, 1), [], [], {})
    walk.builder.graph.add_random("z", "bias", 1.0)
    base = Base(2, frozenset(), walk.builder.add(st.BiasVector("z")), True)
    (result,) = walk.run(closed, [Sym(walk.entry(base) * STRIDE + np.arange(2))])
    instructions = Instructions(walk.builder)
    instructions.of(walk.entries[int(result.ids[0]) // STRIDE])
    return instructions.function().lines
