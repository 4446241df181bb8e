"""A model as a tensor program: every entry of every array is a vector across the width, a scalar, or a number.

An array is held as an array of integers of the shape that it has at one width: which vector an entry belongs to, and
which of its entries it is. Rearrangements act on the integers as they act on the array. Whatever combines entries must
find whole vectors, in step; otherwise it is refused. So nothing has to be assumed of the order of axes.
"""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail.programs import statements as st
from widetail.widening._builder import Builder
from widetail.widening._functions import Instructions, apply_op
from widetail.widening._laws import Leaf
from widetail.widening._primitives import ELEMENTWISE, REFUSED, STRUCTURAL, SUMS
from widetail.widening._prologue import Narrow
from widetail.widening._symbols import (
    Base,
    Fn,
    Lin,
    Op,
    Read,
    Sca,
    ScaFn,
    Vec,
    add_sca,
    add_vec,
    as_lin,
    scale_sca,
    scale_vec,
)
from widetail.widening._walk import Walk

STRIDE = 1 << 32
Cuts = dict[tuple[int, int], frozenset[Fraction]]
# Sums with several summands into one output, at most: each is a kernel of its own.
MOST_PARTS = 256


class NeedCutError(Exception):
    """A part of a vector is used by itself: its parameters are to be taken apart."""

    def __init__(self, vec: Vec, places: set[int]):
        super().__init__()
        self.vec, self.places = vec, places


class Sym:
    """An array of entries, by number: `STRIDE` x expression + index across the width."""

    def __init__(self, ids: np.ndarray):
        self.ids = ids

    @property
    def shape(self) -> tuple[int, ...]:
        return self.ids.shape


class Par:
    """A random parameter, or a part of it, rearranged: element numbers, and a factor."""

    def __init__(self, leaf: int, elements: np.ndarray, factor: float = 1.0):
        self.leaf, self.elements, self.factor = leaf, elements, factor

    @property
    def shape(self) -> tuple[int, ...]:
        return self.elements.shape


class ProgramWalk(Walk):
    """Writes a tensor program down, at one width."""

    def __init__(self, input_shape: tuple[int, ...], leaves: list[Leaf], shapes: list[tuple[int, ...]], cuts: Cuts):
        super().__init__(input_shape)
        self.leaves, self.shapes, self.cuts = leaves, shapes, cuts
        self.entries: list[Any] = []
        self._numbers_known: dict[float, int] = {}
        self._blocks: dict[Any, str] = {}
        self._assigned = [np.full((math.prod(shape), 3), -1, np.int64) for shape in shapes]
        self._block_numbers: dict[str, int] = {}
        self.fan_ins: dict[int, tuple[int, ...]] = {}  # by parameter: its axes that are summed over
        self.roles: dict[int, str] = {}
        self.rows: list[tuple[Any, Any]] = []  # vectors of the prologue that input matrices are applied to
        self._row_numbers: dict[Any, int] = {}
        self.builder = Builder((1 << 20, 1))

    # Entries.

    def entry(self, value: Any) -> int:
        """The number of an expression."""
        if isinstance(value, float):
            if value not in self._numbers_known:
                self.entries.append(value)
                self._numbers_known[value] = len(self.entries) - 1
            return self._numbers_known[value]
        self.entries.append(value)
        self.builder.made.setdefault(id(value), self.place)
        return len(self.entries) - 1

    def sym(self, value: Any, shape: tuple[int, ...] | None = None) -> Sym:
        """Any value as an array of entries."""
        if isinstance(value, Sym):
            return value
        if isinstance(value, Par):
            return self._as_vectors(value)
        if isinstance(value, Narrow):
            raise self.refuse(
                "an array that depends on the input alone meets a wide one without a random matrix between them; only "
                "products of the input with random matrices are understood"
            )
        array = np.asarray(value, float)
        unique, inverse = np.unique(array, return_inverse=True)
        numbers = np.array([self.entry(float(number)) for number in unique], np.int64)
        return Sym((numbers[inverse.reshape(-1)] * STRIDE).reshape(array.shape))

    def _as_vectors(self, par: Par) -> Sym:
        """A parameter that is not multiplied by: a bias, or a table of them."""
        leaf, shape = self.leaves[par.leaf], self.shapes[par.leaf]
        var = leaf.var if leaf.var is not None else 1.0 if leaf.is_table else 0.0
        self._set_role(par.leaf, (), "table" if leaf.is_table else "bias")
        if var == 0:
            return self.sym(np.zeros(par.shape))
        ids = np.empty(math.prod(shape), np.int64)
        for block, elements, rows in self._vectors_of(par.leaf, tuple(range(len(shape)))):
            name = self._assign(par.leaf, f"{leaf.path}{block}", elements[:, None])
            self._random(name, "bias", var * par.factor**2)
            index = self.builder.add(st.BiasVector(name))
            ids[elements] = self.entry(Base(len(elements), rows, index, True)) * STRIDE + np.arange(len(elements))
        return Sym(ids[par.elements])

    def _vectors_of(self, leaf: int, axes: tuple[int, ...]) -> list[tuple[str, np.ndarray, Any]]:
        """The vectors that some axes of a parameter make up: name, elements (the others at zero), origins."""
        shape, wide = self.shapes[leaf], self.leaves[leaf].wide
        wides = [axis for axis in axes if wide[axis]]
        if len(wides) != 1:
            raise self.refuse(
                f"{self.leaves[leaf].path!r} has {len(wides)} wide axes here where one is expected: arrays that are "
                f"wide in two axes at once are matrices, and only their products with vectors have a limit"
            )
        (along,) = wides
        size = shape[along]
        places = [0, *sorted(int(size * cut) for cut in self.cuts.get((leaf, along), ())), size]
        narrow = [axis for axis in axes if axis != along]
        found = []
        for place in np.ndindex(*(shape[axis] for axis in narrow)):
            for number, (start, stop) in enumerate(itertools.pairwise(places)):
                index: list[Any] = [0] * len(shape)
                for axis, at in zip(narrow, place, strict=True):
                    index[axis] = at
                coordinates = [np.full(stop - start, at) for at in index]
                coordinates[along] = np.arange(start, stop)
                parts = [str(at) for axis, at in zip(narrow, place, strict=True) if shape[axis] > 1]
                parts += [f"part {number}"] if len(places) > 2 else []
                elements = np.ravel_multi_index(coordinates, shape)
                origins = frozenset([(leaf, along, start)])
                found.append((f"[{', '.join(parts)}]" if parts else "", elements, origins))
        return found

    def _assign(self, leaf: int, name: str, elements: np.ndarray) -> str:
        """Enter the elements of a parameter as a matrix; an element that plays two parts is refused."""
        number = self._block_numbers.setdefault(name, len(self._block_numbers))
        rows, columns = np.indices(elements.shape)
        wanted = np.stack([np.full(elements.shape, number), rows, columns], axis=-1).reshape(-1, 3)
        there = self._assigned[leaf][elements.reshape(-1)]
        if np.any((there[:, 0] >= 0) & np.any(there != wanted, axis=1)):
            raise self.refuse(
                f"{self.leaves[leaf].path!r} is used in two ways, as a matrix and as its transpose or in other parts; "
                f"the limit of a product of a matrix with its own transpose needs a correction that is not computed"
            )
        self._assigned[leaf][elements.reshape(-1)] = wanted
        return name

    def _random(self, name: str, kind: Any, var: float) -> None:
        there = self.builder.graph.randoms.get(name)
        if there is None:
            self.builder.graph.add_random(name, kind, float(var), self.place)
        elif there.kind != kind or abs(there.var - var) > 1e-9 * abs(var):
            raise self.refuse(f"{name!r} is used with two scalings or in two ways: {there.kind} and {kind}")

    def _set_role(self, leaf: int, axes: tuple[int, ...], role: str) -> None:
        if self.fan_ins.setdefault(leaf, axes) != axes:
            raise self.refuse(
                f"{self.leaves[leaf].path!r} is summed over different axes in different places (a matrix and its "
                f"transpose, or a table and a matrix), which have different fan-ins"
            )
        self.roles.setdefault(leaf, role)

    # Checks that entries make up whole vectors.

    def _whole(self, number: int, indices: np.ndarray) -> None:
        """That these indices are all of a vector's, each equally often."""
        vec = self.entries[number]
        counts = np.bincount(indices, minlength=vec.length)
        if len(counts) == vec.length and np.all(counts == counts[0]):
            return
        there = np.flatnonzero(counts > 0)
        if np.all(np.diff(there) == 1) and (there[0] > 0 or there[-1] < vec.length - 1):
            raise NeedCutError(vec, {int(there[0]), int(there[-1]) + 1} - {0, vec.length})
        raise self.refuse("entries of the width are picked out one by one; only whole parts of it have a limit")

    def grouped(self, columns: list[np.ndarray]) -> tuple[np.ndarray, list[tuple[int, ...]], np.ndarray]:
        """Equal combinations of entries: the group of each place, the entries of each group, indices over the width.

        Vectors that stand together must be in step and whole.
        """
        numbers = np.stack([column.reshape(-1) // STRIDE for column in columns], axis=1)
        indices = np.stack([column.reshape(-1) % STRIDE for column in columns], axis=1)
        unique, group = np.unique(numbers, axis=0, return_inverse=True)
        group = group.reshape(-1)
        order = np.argsort(group, kind="stable")
        ends = np.cumsum(np.bincount(group, minlength=len(unique)))
        along = np.zeros(len(group), np.int64)
        start = 0
        for number, end in enumerate(ends.tolist()):
            members = order[start:end]
            start = end
            wide = [k for k, entry in enumerate(unique[number]) if isinstance(self.entries[entry], Vec)]
            if not wide:
                continue
            for k in wide:
                self._whole(int(unique[number][k]), indices[members, k])
            first = indices[members, wide[0]]
            for k in wide[1:]:
                if np.any(indices[members, k] != first):
                    raise self.refuse("two wide arrays meet with their widths out of step (one of them is rearranged)")
            along[members] = first
        return group, [tuple(int(entry) for entry in row) for row in unique], along

    # Equations.

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

    def _elementwise(self, equation: Any, op: Op, arguments: list[Any]) -> Any:
        if op.name in ("convert_element_type", "copy", "stop_gradient", "copy_p") and not isinstance(arguments[0], Sym):
            return arguments[0]
        pars = [argument for argument in arguments if isinstance(argument, Par)]
        numbers = [argument for argument in arguments if isinstance(argument, np.ndarray)]
        if op.name in ("mul", "div", "neg") and len(pars) == 1 and len(pars) + len(numbers) == len(arguments):
            # a matrix that is scaled before it is used
            factors = np.unique(np.asarray(numbers[0], float)) if numbers else np.array([-1.0])
            if len(factors) == 1 and (op.name != "div" or arguments[0] is pars[0]):
                factor = 1 / float(factors[0]) if op.name == "div" else float(factors[0])
                return Par(pars[0].leaf, pars[0].elements, pars[0].factor * factor)
        shape = equation.outvars[0].aval.shape
        columns = [np.broadcast_to(self.sym(argument).ids, shape) for argument in arguments]
        group, members, along = self.grouped(columns)
        made = np.array([self._made(op, [self.entries[e] for e in row]) for row in members], np.int64)
        return Sym((made[group] * STRIDE + along).reshape(shape))

    def _made(self, op: Op, values: list[Any]) -> int:
        return self.entry(self.combine(op, values))

    def combine(self, op: Op, values: list[Any]) -> Any:
        """An elementwise operation of entries."""
        name = op.name
        if all(isinstance(value, float) for value in values):
            with jax.enable_x64(True), jax.ensure_compile_time_eval():
                return float(apply_op(op, [jnp.asarray(value, jnp.float64) for value in values], jnp.float64))
        if name == "select_n" and isinstance(values[0], float):
            return values[1 + int(values[0])]
        if any(isinstance(value, Read) for value in values):
            return self._of_outputs(name, values)
        is_cast = name == "convert_element_type" and jnp.issubdtype(op.params["new_dtype"], jnp.floating)
        if name in ("copy", "stop_gradient", "copy_p") or is_cast:
            return values[0]
        is_vector = any(isinstance(value, Vec) for value in values)
        if name in ("mul", "div", "neg") or not all(self.builder.is_gaussian(v) for v in values if isinstance(v, Vec)):
            values = [self._settled(value) for value in values]
        add, scale = (add_vec, scale_vec) if is_vector else (add_sca, scale_sca)
        if name in ("add", "add_any"):
            return add(*values)
        if name == "neg":
            return scale(-1.0, values[0])
        if name == "sub":
            second = values[1]
            return add(values[0], scale_vec(-1.0, second) if isinstance(second, Vec) else scale_sca(-1.0, second))
        if name == "div" and isinstance(values[1], float):
            return scale(1 / values[1], values[0])
        if name == "div" and isinstance(values[1], Sca) and is_vector:
            return self._times(ScaFn(op, (1.0, values[1])), values[0])
        if name == "mul":
            first, second = values
            if isinstance(first, float) or isinstance(second, float):
                number, other = (first, second) if isinstance(first, float) else (second, first)
                return scale(number, other)
            if isinstance(first, Sca) != isinstance(second, Sca):
                return self._times(*((first, second) if isinstance(first, Sca) else (second, first)))
        if not is_vector:
            return ScaFn(op, tuple(values))
        vecs = [value for value in values if isinstance(value, Vec)]
        origins = frozenset().union(*(vec.origins for vec in vecs))
        return Fn(vecs[0].length, origins, op, tuple(values))

    def _settled(self, value: Any) -> Any:
        """A sum of Gaussian variables as one variable, so that its multiples are functions of it alone."""
        if isinstance(value, Lin) and len(value.terms) > 1 and self.builder.is_gaussian(value):
            self.builder.place = self.place
            return self.builder.base(value)
        return value

    def _times(self, sca: Sca, vec: Vec) -> Any:
        """A scalar times a vector."""
        lin = as_lin(vec)
        terms = tuple((c, sca if s is None else self._product(sca, s), v) for c, s, v in lin.terms)
        constant = 0.0
        if isinstance(lin.constant, Sca):
            constant = self._product(sca, lin.constant)
        elif lin.constant:
            constant = scale_sca(lin.constant, sca)
        return Lin(lin.length, lin.origins, terms, constant)

    def _product(self, first: Any, second: Any) -> Any:
        return ScaFn(_MULTIPLY, (first, second))

    def _of_outputs(self, name: str, values: list[Any]) -> Any:
        if name in ("copy", "stop_gradient", "convert_element_type", "copy_p"):
            return values[0]
        numbers = [value for value in values if isinstance(value, float)]
        reads = [value for value in values if isinstance(value, Read)]
        if len(numbers) + len(reads) == len(values):
            if name == "neg":
                return _scaled(-1.0, reads[0])
            if name == "mul" and len(reads) == 1:
                return _scaled(numbers[0], reads[0])
            if name == "div" and len(reads) == 1 and isinstance(values[0], Read):
                return _scaled(1 / numbers[0], reads[0])
            if name in ("add", "add_any", "sub") and all(number == 0 for number in numbers):
                signs = (1.0, -1.0 if name == "sub" else 1.0)
                parts = [_scaled(s, v) for s, v in zip(signs, values, strict=True) if isinstance(v, Read)]
                return self._added(parts)
        raise self.refuse(
            f"{name} is applied to outputs: what comes after the last wide-to-narrow product must be linear in it, "
            f"with nothing added. A narrow layer in the middle of a model (a bottleneck) has no Gaussian limit; for a "
            f"classifier, return the logits"
        )

    def _added(self, reads: list[Read]) -> Read:
        if any(read.column != reads[0].column for read in reads):
            raise self.refuse("different outputs are added to each other; return them one by one")
        parts: dict[str, tuple[float, Vec]] = {}
        for read in reads:
            for name, (share, vec) in read.parts.items():
                parts[name] = (share, add_vec(parts[name][1], vec) if name in parts else vec)
        return Read(reads[0].column, parts)

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
        rank = len(par.shape)
        sizes = tuple(params["slice_sizes"])
        along = tuple(numbers.start_index_map)
        simple = (
            len(along) == 1
            and sizes == tuple(1 if axis == along[0] else size for axis, size in enumerate(par.shape))
            and tuple(numbers.collapsed_slice_dims) == along
            and rank == 2
            and indices.shape[-1] == 1
            and tuple(numbers.offset_dims) == (len(indices.shape) - 1,)
        )
        if not simple:
            raise self.refuse("this way of looking up rows of a table is not understood; table[index] is")
        count = par.shape[along[0]]

        def one_hot(index: Any) -> Any:
            return (index[..., 0, None] == jnp.arange(count)).astype(jnp.float64)

        hot = self._narrow(one_hot, indices)
        leaf = self.leaves[par.leaf]
        var = 1.0 if leaf.var is None else leaf.var
        table = Par(par.leaf, np.moveaxis(par.elements, along[0], 0), par.factor)
        return self._input_product(hot, table, var, ())

    # Sums.

    def _sum(self, value: Any, axes: tuple[int, ...]) -> Any:
        ids = np.moveaxis(self.sym(value).ids, axes, range(-len(axes), 0))
        kept = ids.shape[: ids.ndim - len(axes)]
        return self._added_up(ids.reshape(*kept, -1), None)

    def _added_up(self, ids: np.ndarray, weights: np.ndarray | None) -> Any:
        """Sums along the last axis, of entries or of their products with others."""
        shape, count = ids.shape[:-1], ids.shape[-1]
        rows = ids.reshape(-1, count)
        other = None if weights is None else weights.reshape(-1, count)
        if not len(rows):
            raise self.refuse("a sum over nothing")
        # a wide vector that lies along the sum is averaged; one that lies across it is a summand
        if self._lies_along(rows) or (other is not None and self._lies_along(other)):
            found = [self._inner(row, None if other is None else other[k]) for k, row in enumerate(rows)]
            return Sym((np.array([self.entry(value) for value in found], np.int64) * STRIDE).reshape(shape))
        columns = [rows[:, k] for k in range(count)] + ([] if other is None else [other[:, k] for k in range(count)])
        group, members, along = self.grouped(columns)
        made = []
        for row in members:
            summands = []
            for k in range(count):
                value = self.entries[row[k]]
                if other is not None:
                    value = self.combine(_MULTIPLY, [value, self.entries[row[count + k]]])
                if not (isinstance(value, float) and value == 0):
                    summands.append(value)
            made.append(self.entry(self._total(summands)))
        return Sym((np.array(made, np.int64)[group] * STRIDE + along).reshape(shape))

    def _total(self, summands: list[Any]) -> Any:
        if not summands:
            return 0.0
        if any(isinstance(value, Read) for value in summands):
            if all(isinstance(value, Read) for value in summands):
                return self._added(summands)
            raise self.refuse("outputs are added to something that is not an output")
        is_vector = any(isinstance(value, Vec) for value in summands)
        return add_vec(*summands) if is_vector else add_sca(*summands)

    def _are_wide(self, ids: np.ndarray) -> np.ndarray:
        table = np.array([isinstance(entry, Vec) for entry in self.entries])
        return table[ids // STRIDE]

    def _lies_along(self, rows: np.ndarray) -> bool:
        """Whether the same vector occurs more than once in a row, at different indices."""
        row = rows[0]
        wide = self._are_wide(row)
        numbers = row[wide] // STRIDE
        return len(np.unique(row[wide])) > len(np.unique(numbers))

    def _inner(self, row: np.ndarray, other: np.ndarray | None) -> Any:
        """A sum over the width of one vector, or of the product of two: as many times the average."""
        columns = [row] if other is None else [row, other]
        _, members, _ = self.grouped(columns)
        total = []
        for entries in members:
            values = [self.entries[e] for e in entries]
            product = values[0] if other is None else self.combine(_MULTIPLY, values)
            times = np.sum(np.all(np.stack([c // STRIDE for c in columns]) == np.array(entries)[:, None], axis=0))
            if isinstance(product, Vec):
                self.builder.place = self.place
                total.append(scale_sca(float(times), self.builder.average(product)))
            else:
                total.append(scale_sca(float(times), product))
        return add_sca(*total)

    def _max(self, value: Any, axes: tuple[int, ...]) -> Any:
        """A maximum of scalars, as in softmax."""
        ids = np.moveaxis(self.sym(value).ids, axes, range(-len(axes), 0))
        kept = ids.shape[: ids.ndim - len(axes)]
        rows = ids.reshape(-1, math.prod(ids.shape[len(kept) :]))
        if np.any(self._are_wide(rows)):
            raise self.refuse(f"reduce_max is not understood here: {REFUSED['reduce_max']}")
        found = []
        for row in rows:
            result = self.entries[row[0] // STRIDE]
            for entry in row[1:]:
                result = self.combine(_MAXIMUM, [result, self.entries[entry // STRIDE]])
            found.append(self.entry(result) * STRIDE)
        return Sym(np.array(found, np.int64).reshape(kept))

    def _cumsum(self, value: Any, axis: int, reverse: bool) -> Any:
        ids = np.moveaxis(self.sym(value).ids, axis, 0)
        steps = range(len(ids))[::-1] if reverse else range(len(ids))
        results: list[Any] = [None] * len(ids)
        for count, step in enumerate(steps, 1):
            chosen = list(steps)[:count]
            results[step] = self._added_up(np.moveaxis(ids[chosen], 0, -1), None).ids
        return Sym(np.moveaxis(np.stack(results), 0, axis))

    def _scatter_add(self, equation: Any, operand: Any, indices: Any, updates: Any) -> Any:
        """Entries that are added up at given places, as in sums over the edges of a graph."""
        if not isinstance(indices, np.ndarray):
            raise self.refuse("scatter-add at places that depend on the data is not understood")
        base, added = self.sym(operand).ids, self.sym(updates).ids

        def scatter(numbers: Any) -> Any:
            start = jnp.zeros(base.shape, numbers.dtype)
            return equation.primitive.bind(start, jnp.asarray(indices), numbers, **equation.params)

        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            # the slope of a sum of (place x entry) in an entry is where that entry goes; 0 for those that are dropped
            _, back = jax.vjp(scatter, jnp.zeros(added.shape))
            (goes,) = back(jnp.arange(1.0, base.size + 1).reshape(base.shape))
        goes = np.asarray(goes).reshape(-1).astype(int) - 1
        chosen = np.flatnonzero(goes >= 0)
        chosen = chosen[np.argsort(goes[chosen], kind="stable")]
        counts = np.bincount(goes[chosen], minlength=base.size)
        table = np.full((base.size, 1 + counts.max(initial=0)), self.entry(0.0) * STRIDE)
        table[:, 0] = base.reshape(-1)
        starts = np.cumsum(counts) - counts
        table[goes[chosen], 1 + np.arange(len(chosen)) - starts[goes[chosen]]] = added.reshape(-1)[chosen]
        return self._added_up(table.reshape(*base.shape, -1), None)

    def _window_sum(self, params: dict[str, Any], value: Any) -> Any:
        sym = self.sym(value)
        patches = _patches(sym.ids, params["window_dimensions"], params["window_strides"], params["padding"])
        if any(d != 1 for d in (*params["base_dilation"], *params["window_dilation"])):
            raise self.refuse("pooling with dilation is not understood")
        zero = self.entry(0.0) * STRIDE
        patches = np.where(patches < 0, zero, patches)
        return self._added_up(patches.reshape(*patches.shape[: sym.ids.ndim], -1), None)

    # Products.

    def _dot(self, numbers: Any, lhs: Any, rhs: Any) -> Any:
        (left, right), (left_batch, right_batch) = numbers
        if isinstance(lhs, Par) and isinstance(rhs, Par):
            raise self.refuse(
                "two random matrices are multiplied with each other; multiply the vector by one after the other"
            )
        if isinstance(lhs, Par) or isinstance(rhs, Par):
            if left_batch and any(lhs.shape[axis] > 1 for axis in left_batch):
                raise self.refuse("a random matrix for every position (a batch of matrices) is not understood")
            par, value, par_axes, axes = (lhs, rhs, left, right) if isinstance(lhs, Par) else (rhs, lhs, right, left)
            batch, par_batch = (right_batch, left_batch) if isinstance(lhs, Par) else (left_batch, right_batch)
            result, free, par_free = self._matrix_product(par, value, tuple(par_axes), tuple(axes), par_batch, batch)
            if isinstance(lhs, Par):  # batch axes (of size one), free axes of the left side, of the right side
                count = len(batch)
                order = [*range(count), *range(count + free, count + free + par_free), *range(count, count + free)]
                return Sym(np.transpose(result.ids, order))
            return result
        first, second = self.sym(lhs).ids, self.sym(rhs).ids
        first_free = [axis for axis in range(first.ndim) if axis not in (*left, *left_batch)]
        second_free = [axis for axis in range(second.ndim) if axis not in (*right, *right_batch)]
        first = np.transpose(first, (*left_batch, *first_free, *left))
        second = np.transpose(second, (*right_batch, *second_free, *right))
        batch = first.shape[: len(left_batch)]
        rows, columns = first.shape[len(batch) : len(batch) + len(first_free)], second.shape[len(batch) :]
        columns = columns[: len(second_free)]
        first = first.reshape(*batch, math.prod(rows), 1, -1)
        second = second.reshape(*batch, 1, math.prod(columns), first.shape[-1])
        first, second = np.broadcast_arrays(first, second)
        result = self._added_up(first, second)
        return Sym(result.ids.reshape(*batch, *rows, *columns))

    def _matrix_product(
        self, par: Par, value: Any, par_axes: tuple[int, ...], axes: tuple[int, ...], par_batch: Any, batch: Any
    ) -> tuple[Sym, int, int]:
        """A parameter times a value, summed over some axes of both; free axes of the value come first."""
        par_free = [axis for axis in range(len(par.shape)) if axis not in (*par_axes, *par_batch)]
        elements = np.transpose(par.elements, (*par_batch, *par_axes, *par_free))
        count = math.prod(par.shape[axis] for axis in par_axes)
        outputs = tuple(par.shape[axis] for axis in par_free)
        table = Par(par.leaf, elements.reshape(count, *outputs), par.factor)
        free = [axis for axis in range(len(value.shape)) if axis not in (*axes, *batch)]
        order = (*batch, *free, *axes)
        kept = tuple(value.shape[axis] for axis in (*batch, *free))
        if isinstance(value, Narrow):
            value = self._narrow(lambda v: jnp.transpose(v, order).reshape(*kept, count), value)
        elif isinstance(value, Sym):
            value = Sym(np.transpose(value.ids, order).reshape(*kept, count))
        else:
            value = np.transpose(value, order).reshape(*kept, count)
        return self._times_matrix(value, table), len(free), len(par_free)

    def _times_matrix(self, value: Any, table: Par) -> Sym:
        """What has its summed axis last, times a parameter that has it first."""
        leaf = self.leaves[table.leaf]
        var = 1.0 if leaf.var is None else leaf.var
        fan_axes = self._summed_axes(table)
        self._set_role(table.leaf, fan_axes, "matrix")
        if isinstance(value, Narrow):
            return self._input_product(value, table, var / table.shape[0], fan_axes)
        rows = self.sym(value).ids
        kept, count = rows.shape[:-1], rows.shape[-1]
        rows = rows.reshape(-1, count)
        outputs = self._outputs_of(table)
        flat = table.elements.reshape(count, -1)
        result = np.empty((len(rows), flat.shape[1]), np.int64)
        known: dict[bytes, Any] = {}
        for number, row in enumerate(rows):
            key = row.tobytes()
            if key not in known:
                known[key] = self._row_product(row, flat, table, var, outputs)
            result[number] = known[key]
        return Sym(result.reshape(*kept, *table.shape[1:]))

    def _summed_axes(self, table: Par) -> tuple[int, ...]:
        """The axes of the parameter that a product sums over; their sizes must multiply to the number of summands."""
        shape = self.shapes[table.leaf]
        flat = table.elements.reshape(table.shape[0], -1)
        coordinates = np.unravel_index(flat[:, 0], shape)
        axes = tuple(axis for axis, places in enumerate(coordinates) if len(np.unique(places)) > 1)
        if math.prod(shape[axis] for axis in axes) != table.shape[0]:
            raise self.refuse(f"a part of {self.leaves[table.leaf].path!r} is summed over, so its fan-in is not clear")
        return axes

    def _outputs_of(self, table: Par) -> list[tuple[str, np.ndarray, np.ndarray, Any]]:
        """The vectors (or, where no free axis is wide, the outputs) of a product: name, columns, elements, origins."""
        shape, wide = self.shapes[table.leaf], self.leaves[table.leaf].wide
        summed = self.fan_ins[table.leaf]
        free = tuple(axis for axis in range(len(shape)) if axis not in summed)
        first = table.elements.reshape(table.shape[0], -1)[0]
        coordinates = np.unravel_index(first, shape)
        zeroed = [np.zeros_like(c) if axis in summed else c for axis, c in enumerate(coordinates)]
        columns_by_element = {int(e): k for k, e in enumerate(np.asarray(np.ravel_multi_index(zeroed, shape)).tolist())}
        if len(columns_by_element) != len(first):
            raise self.refuse(f"{self.leaves[table.leaf].path!r} is repeated before it is used as a matrix")
        if not any(wide[axis] for axis in free):
            return [(f"[{k}]", np.array([k]), first[[k]], None) for k in range(len(first))]
        found = []
        for name, elements, origins in self._vectors_of(table.leaf, free):
            columns = [columns_by_element.get(int(element), -1) for element in elements]
            if all(column < 0 for column in columns):
                continue
            if any(column < 0 for column in columns):  # a part of the rows is used by itself
                there = [k for k, column in enumerate(columns) if column >= 0]
                vec = Base(len(elements), origins, -1, True)
                raise NeedCutError(vec, {there[0], there[-1] + 1} - {0, len(elements)})
            found.append((name, np.array(columns), elements, origins))
        return found

    def _row_product(self, row: np.ndarray, flat: np.ndarray, table: Par, var: float, outputs: Any) -> np.ndarray:
        leaf, count = self.leaves[table.leaf], len(row)
        result = np.empty(flat.shape[1], np.int64)
        numbers = row // STRIDE
        summands: list[tuple[Any, np.ndarray]] = []
        for number in np.unique(numbers):
            places = np.flatnonzero(numbers == number)
            value = self.entries[number]
            if isinstance(value, Vec):
                self._whole(int(number), row[places] % STRIDE)
                if len(places) != value.length:
                    raise self.refuse("a vector is repeated before it is multiplied by a random matrix")
                summands.append((value, places[np.argsort(row[places])]))
            elif isinstance(value, Read):
                raise self._of_outputs_refused()
            elif not (isinstance(value, float) and value == 0):
                summands += [(value, places[[k]]) for k in range(len(places))]
        self.builder.place = self.place
        for name, columns, _, origins in outputs:
            if origins is None:
                result[columns] = self.entry(self._readout(table, flat, columns, summands, count)) * STRIDE
                continue
            terms = []
            for value, places in summands:
                wide = isinstance(value, Vec)
                elements = flat[np.ix_(places, columns)]
                block = self._block(table.leaf, f"{leaf.path}{name}", elements)
                if wide:
                    # a model that divides by the root of its fan-in does so before the product or after it
                    factor = self._factor(table) if leaf.by_entry else 1.0
                    share = var * (1.0 if leaf.by_entry else table.factor**2) * len(places) / count
                    self._random(block, "matrix", share)
                    product = self.builder.add(st.MatMul(block, self.builder.base(value).index))
                    terms.append(scale_vec(factor, Base(len(columns), origins, product, True)))
                elif self._vanishes(summands):
                    continue
                else:
                    self._random(block, "bias", var * table.factor**2 / count)
                    vector = Base(len(columns), origins, self.builder.add(st.BiasVector(block)), True)
                    terms.append(scale_vec(value, vector) if isinstance(value, float) else self._times(value, vector))
            total = add_vec(*terms) if terms else 0.0
            result[columns] = self.entry(total) * STRIDE + (np.arange(len(columns)) if terms else 0)
        return result

    def _vanishes(self, summands: list[Any]) -> bool:
        """Beside a wide part, the few narrow features of a sum with one fan-in have no weight in the limit."""
        return any(isinstance(value, Vec) for value, _ in summands)

    def _of_outputs_refused(self) -> Exception:
        return self.refuse(
            "a product with a random matrix is applied to outputs of few features: a narrow layer in the middle of a "
            "model (a bottleneck) has no Gaussian limit"
        )

    def _readout(self, table: Par, flat: np.ndarray, columns: np.ndarray, summands: list[Any], count: int) -> Any:
        """A wide-to-narrow product: an output, of variance one whatever was told."""
        parts: dict[str, tuple[float, Vec]] = {}
        self.roles[table.leaf] = "readout"
        for value, places in summands:
            if not isinstance(value, Vec):
                if self._vanishes(summands):
                    continue
                raise self.refuse("an output that is random, but made of nothing wide, has no average over the width")
            column = int(columns[0])
            block = self._block(table.leaf, f"{self.leaves[table.leaf].path}[{column}]", flat[np.ix_(places, columns)])
            parts[block.removeprefix(f"{self.leaves[table.leaf].path}[{column}]")] = (
                len(places) / count,
                scale_vec(self._factor(table), value),
            )
        if len(parts) > MOST_PARTS:
            raise self.refuse(
                f"the readout sees {len(parts)} vectors side by side; at most {MOST_PARTS} are understood"
            )
        return Read(int(columns[0]), parts) if parts else 0.0

    def _factor(self, table: Par) -> float:
        """What a product with entries of variance one over fan-in is multiplied by."""
        return table.factor * math.sqrt(table.shape[0]) if self.leaves[table.leaf].by_entry else table.factor

    def _block(self, leaf: int, name: str, elements: np.ndarray) -> str:
        """A matrix by the elements of the parameter that it is made of."""
        rows = np.unravel_index(elements[:, 0], self.shapes[leaf])
        key = leaf, name, tuple(rows[axis].tobytes() for axis in self.fan_ins[leaf])
        if key not in self._blocks:
            same = sum(known[:2] == (leaf, name) for known in self._blocks)
            self._blocks[key] = f"{name}@{same}" if same else name
        full = self._blocks[key]
        return self._assign(leaf, full, elements)

    def _input_product(self, value: Narrow, table: Par, var: float, fan_axes: tuple[int, ...]) -> Sym:
        """A random matrix times features of the input; `var` is the variance of its entries."""
        leaf = self.leaves[table.leaf]
        self._set_role(table.leaf, fan_axes, "input")
        self.fan_ins.setdefault(table.leaf, fan_axes)
        flat = table.elements.reshape(table.shape[0], -1)
        summed = fan_axes or self._summed_axes(table)
        kept = self.fan_ins[table.leaf]
        self.fan_ins[table.leaf] = summed
        outputs = self._outputs_of(table)
        self.fan_ins[table.leaf] = kept
        shape = value.shape[:-1]
        result = np.empty((math.prod(shape), flat.shape[1]), np.int64)
        self.builder.place = self.place
        for name, columns, _, origins in outputs:
            if origins is None:
                raise self.refuse(
                    f"{leaf.path!r} takes the input to a fixed number of features and has no wide axis to average over"
                )
            block = self._assign(table.leaf, f"{leaf.path}{name}", flat[:, columns])
            # the program divides by the number of features of its inputs, which is known at the end
            self._random(block, "input_matrix", var * table.factor**2)
            for number, place in enumerate(list(np.ndindex(*shape))):
                position = self._row(value, place)
                vector = self.builder.add(st.InputProduct(block, position))
                entry = self.entry(Base(len(columns), origins, vector, True))
                result[number, columns] = entry * STRIDE + np.arange(len(columns))
        return Sym(result.reshape(*shape, *table.shape[1:]))

    def _row(self, value: Narrow, place: tuple[int, ...]) -> int:
        """The position, among the inputs of the program, of one vector of features."""
        key = value.reference, place
        if key not in self._row_numbers:
            self._row_numbers[key] = len(self.rows)
            self.rows.append((value, place))
        return self._row_numbers[key]

    def _convolution(self, params: dict[str, Any], lhs: Any, rhs: Any) -> Any:
        numbers = params["dimension_numbers"]
        if not isinstance(rhs, Par):
            raise self.refuse("a convolution with something that is not a parameter is not understood")
        if params["feature_group_count"] != 1 or params["batch_group_count"] != 1:
            raise self.refuse("a convolution in groups is not understood: a group of few channels does not average out")
        if any(d != 1 for d in params["lhs_dilation"]):
            raise self.refuse("a transposed convolution is not understood")
        lhs_spec, rhs_spec, out_spec = numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec
        space = tuple(lhs.shape[axis] for axis in lhs_spec[2:])
        window = tuple(rhs.shape[axis] for axis in rhs_spec[2:])
        index = _window_index(space, window, params["window_strides"], params["padding"], params["rhs_dilation"])
        count = math.prod(window) * lhs.shape[lhs_spec[1]]
        outside = index < 0
        flat_index = np.where(outside, 0, index)
        outer, inner = index.shape[: len(space)], index.shape[len(space) :]
        positions = math.prod(space)

        def patches(v: Any, xp: Any) -> Any:
            """(batch, out positions..., window x channels), zeros outside."""
            v = xp.transpose(v, (lhs_spec[0], *lhs_spec[2:], lhs_spec[1]))
            v = v.reshape(v.shape[0], positions, v.shape[-1])
            return v[:, flat_index.reshape(-1)].reshape(v.shape[0], *outer, math.prod(inner), v.shape[-1])

        mask = outside.reshape(1, *outer, math.prod(inner), 1)
        if isinstance(lhs, Narrow):
            value: Any = self._narrow(
                lambda v: jnp.where(mask, 0.0, patches(v, jnp)).reshape(v.shape[lhs_spec[0]], *outer, count), lhs
            )
        else:
            taken = np.where(mask, self.entry(0.0) * STRIDE, patches(self.sym(lhs).ids, np))
            value = Sym(taken.reshape(taken.shape[0], *outer, count))
        elements = np.transpose(rhs.elements, (*rhs_spec[2:], rhs_spec[1], rhs_spec[0])).reshape(count, -1)
        result = self._times_matrix(value, Par(rhs.leaf, elements, rhs.factor)).ids
        back = np.argsort((out_spec[0], *out_spec[2:], out_spec[1]))
        return Sym(np.transpose(result, back))


# What becomes of the primitives of `SUMS`.
SUM_METHODS: dict[str, Callable[..., Any]] = {
    "dot_general": lambda walk, equation, *values: walk._dot(equation.params["dimension_numbers"], *values),
    "reduce_sum": lambda walk, equation, value: walk._sum(value, tuple(map(int, equation.params["axes"]))),
    "conv_general_dilated": lambda walk, equation, *values: walk._convolution(equation.params, *values),
    "reduce_window_sum": lambda walk, equation, value: walk._window_sum(equation.params, value),
    "cumsum": lambda walk, equation, value: walk._cumsum(value, equation.params["axis"], equation.params["reverse"]),
    "scatter-add": ProgramWalk._scatter_add,
}


def _scaled(number: float, read: Read) -> Read:
    return Read(read.column, {name: (share, scale_vec(number, vec)) for name, (share, vec) in read.parts.items()})


def _window_index(space: Any, window: Any, strides: Any, padding: Any, dilation: Any) -> np.ndarray:
    """For every output position and place in the window, the input position, or -1: (*out, *window)."""
    places = []
    for size, extent, stride, (before, after), spread in zip(space, window, strides, padding, dilation, strict=True):
        out = (size + before + after - spread * (extent - 1) - 1) // stride + 1
        place = np.arange(out)[:, None] * stride + np.arange(extent)[None, :] * spread - before
        places.append(np.where((place < 0) | (place >= size), -1, place))
    rank = len(space)
    total = np.zeros((1,) * (2 * rank), np.int64)
    outside = np.zeros((1,) * (2 * rank), bool)
    for axis, place in enumerate(places):
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = place.shape
        total = total * space[axis] + np.maximum(place, 0).reshape(shape)
        outside = outside | (place < 0).reshape(shape)
    return np.where(outside, -1, total)


def _patches(ids: np.ndarray, window: Any, strides: Any, padding: Any) -> np.ndarray:
    """The entries under a window, -1 outside: (*out, *window)."""
    index = _window_index(ids.shape, window, strides, padding, (1,) * ids.ndim)
    return np.where(index < 0, -1, ids.reshape(-1)[np.maximum(index, 0)])


def _primitive(fn: Any, name: str) -> Op:
    for equation in jax.make_jaxpr(fn)(jax.ShapeDtypeStruct((), np.float32), jax.ShapeDtypeStruct((), np.float32)).eqns:
        if equation.primitive.name == name:
            return Op(name, equation.primitive, equation.params)
    raise RuntimeError(f"JAX makes no {name} of it any more")


_MULTIPLY = _primitive(jax.lax.mul, "mul")
_MAXIMUM = _primitive(jax.lax.max, "max")


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
