"""Products with random matrices: of vectors across the width, of features of the input, and to outputs."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from widetail.programs import statements as st
from widetail.widening._prologue import Narrow
from widetail.widening.as_program._entries import STRIDE, NeedCutError, Par, Sym
from widetail.widening.as_program._sums import Sums
from widetail.widening.as_program._symbols import Base, Read, Vec, add_vec, number_of, scale_vec
from widetail.widening.as_program._windows import window_index

# Sums with several summands into one output, at most: each is a kernel of its own.
MOST_PARTS = 256


class Products(Sums):
    """What becomes of entries that a random matrix is applied to."""

    def _dot(self, numbers: Any, lhs: Any, rhs: Any) -> Any:
        (left, right), (left_batch, right_batch) = numbers
        if isinstance(lhs, Par) and isinstance(rhs, Par):
            raise self.refuse(
                "two random matrices are multiplied with each other; multiply the vector by one after the other"
            )
        if isinstance(lhs, Par) or isinstance(rhs, Par):
            if any(lhs.shape[axis] > 1 for axis in left_batch):
                return self._for_every_place(numbers, lhs, rhs)
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

    def _for_every_place(self, numbers: Any, lhs: Any, rhs: Any) -> Sym:
        """A matrix for every position, or for every member of an ensemble: as many products."""
        (left, right), (left_batch, right_batch) = numbers
        sizes = tuple(lhs.shape[axis] for axis in left_batch)

        def rest(axes: Any, batch: Any) -> tuple[int, ...]:
            return tuple(axis - sum(b < axis for b in batch) for axis in axes)

        without = (rest(left, left_batch), rest(right, right_batch)), ((), ())
        found = [
            self._dot(without, self._picked(lhs, left_batch, place), self._picked(rhs, right_batch, place)).ids
            for place in np.ndindex(*sizes)
        ]
        return Sym(np.stack(found).reshape(*sizes, *found[0].shape))

    def _picked(self, value: Any, axes: Any, place: tuple[int, ...]) -> Any:
        """One place along some axes, which are gone then."""
        at: list[Any] = [slice(None)] * len(value.shape)
        for axis, index in zip(axes, place, strict=True):
            at[axis] = index
        if isinstance(value, Par):
            return Par(value.leaf, value.elements[tuple(at)], value.factor)
        if isinstance(value, Narrow):
            return self._narrow(lambda v: v[tuple(at)], value)
        return Sym(self.sym(value).ids[tuple(at)])

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
            places = np.stack([coordinates[axis] for axis in free], axis=1) if free else np.zeros((1, 0), int)
            return [(f"{place.tolist()}", np.array([k]), first[[k]], None) for k, place in enumerate(places)]
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
                # a vector that stands there several times meets another part of the matrix each time
                each = places[np.argsort(row[places], kind="stable")].reshape(value.length, -1).T
                summands += [(value, one) for one in each]
            elif isinstance(value, Read):
                raise self._of_outputs_refused()
            elif not (isinstance(value, float) and value == 0):
                summands += [(value, places[[k]]) for k in range(len(places))]
        self.builder.place = self.place
        if self._vanishes(summands):  # in the limit the wide ones are all of the fan-in
            count -= sum(not isinstance(value, Vec) for value, _ in summands)
            summands = [(value, places) for value, places in summands if isinstance(value, Vec)]
        for name, columns, _, origins in outputs:
            if origins is None:
                result[columns] = self.entry(self._readout(table, flat, name, columns, summands, count)) * STRIDE
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
                    number, inner = number_of(value)  # so that 1/sqrt(n) and sqrt(n) cancel
                    product = self.builder.add(st.MatMul(block, self.builder.base(inner).index))
                    terms.append(scale_vec(factor * number, Base(len(columns), origins, product, True)))
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

    def _readout(
        self, table: Par, flat: np.ndarray, name: str, columns: np.ndarray, summands: list[Any], count: int
    ) -> Any:
        """A wide-to-narrow product: an output, of variance one whatever was told."""
        parts: dict[tuple[int, str, str], tuple[float, Vec]] = {}
        self.roles[table.leaf] = "readout"
        for value, places in summands:
            if not isinstance(value, Vec):
                raise self.refuse("an output that is random, but made of nothing wide, has no average over the width")
            column = f"{self.leaves[table.leaf].path}{name}"
            rows = self._block(table.leaf, column, flat[np.ix_(places, columns)]).removeprefix(column)
            parts[table.leaf, name, rows] = len(places) / count, scale_vec(self._factor(table), value)
        if len(parts) > MOST_PARTS:
            raise self.refuse(
                f"the readout sees {len(parts)} vectors side by side; at most {MOST_PARTS} are understood"
            )
        return Read(parts) if parts else 0.0

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

    def _convolution(self, params: dict[str, Any], lhs: Any, rhs: Any) -> Any:
        """A product of a parameter with what lies under its windows."""
        if not isinstance(rhs, Par):
            raise self.refuse("a convolution with something that is not a parameter is not understood")
        if params["batch_group_count"] != 1:
            raise self.refuse("a convolution in groups of the batch is not understood")
        numbers, groups = params["dimension_numbers"], params["feature_group_count"]
        if groups > 1:
            return self._in_groups(params, lhs, rhs, groups)
        under, back = self._under_windows(params, lhs, rhs)
        out, into, *window = numbers.rhs_spec
        count = math.prod(under.shape[-2:])
        if isinstance(under, Sym):
            value: Any = Sym(under.ids.reshape(*under.shape[:-2], count))
        else:
            value = self._narrow(lambda v: v.reshape(*v.shape[:-2], count), under)
        elements = np.transpose(rhs.elements, (*window, into, out)).reshape(count, -1)
        result = self._times_matrix(value, Par(rhs.leaf, elements, rhs.factor)).ids
        return Sym(np.transpose(result, back))

    def _under_windows(self, params: dict[str, Any], lhs: Any, rhs: Par) -> tuple[Any, np.ndarray]:
        """What lies under every window, (batch, *out, window, channels), and the order of the axes of the result."""
        numbers = params["dimension_numbers"]
        lhs_spec, out_spec = numbers.lhs_spec, numbers.out_spec
        space = tuple(lhs.shape[axis] for axis in lhs_spec[2:])
        window = tuple(rhs.shape[axis] for axis in numbers.rhs_spec[2:])
        index = window_index(
            space, window, params["window_strides"], params["padding"], params["rhs_dilation"], params["lhs_dilation"]
        )
        outer = index.shape[: len(space)]
        index = index.reshape(*outer, -1)
        outside, places = (index < 0)[None, ..., None], np.maximum(index, 0).reshape(-1)

        def patches(v: Any, xp: Any, nothing: Any) -> Any:
            v = xp.transpose(v, (lhs_spec[0], *lhs_spec[2:], lhs_spec[1]))
            v = v.reshape(v.shape[0], math.prod(space), v.shape[-1])
            return xp.where(outside, nothing, v[:, places].reshape(v.shape[0], *index.shape, v.shape[-1]))

        back = np.argsort((out_spec[0], *out_spec[2:], out_spec[1]))
        if isinstance(lhs, Narrow):
            return self._narrow(lambda v: patches(v, jnp, 0.0), lhs), back
        return Sym(patches(self.sym(lhs).ids, np, self.entry(0.0) * STRIDE)), back

    def _in_groups(self, params: dict[str, Any], lhs: Any, rhs: Par, groups: int) -> Sym:
        """Every group by itself, where it is wide or of the input; a filter per channel; nothing between the two."""
        numbers = params["dimension_numbers"]
        (_, channels, *_), (out, into, *_) = numbers.lhs_spec, numbers.rhs_spec
        if isinstance(lhs, Narrow) or self._is_wide_along(rhs, into):
            size, results = rhs.shape[into], []
            for group, elements in enumerate(np.split(rhs.elements, groups, axis=out)):
                part = slice(group * size, (group + 1) * size)
                at = tuple(part if axis == channels else slice(None) for axis in range(len(lhs.shape)))
                own = (
                    self._narrow(lambda v, at=at: v[at], lhs) if isinstance(lhs, Narrow) else Sym(self.sym(lhs).ids[at])
                )
                par = Par(rhs.leaf, elements, rhs.factor)
                results.append(self._convolution(params | {"feature_group_count": 1}, own, par).ids)
            return Sym(np.concatenate(results, axis=numbers.out_spec[1]))
        if rhs.shape[into] != 1 or rhs.shape[out] != groups:
            raise self.refuse(
                f"a convolution in {groups} groups, a number that follows the width, of {rhs.shape[into]} channels "
                f"into {rhs.shape[out] // groups}: so few do not average out. Understood are a number of groups that "
                f"stays while their channels grow, and one filter per channel"
            )
        under, back = self._under_windows(params, lhs, rhs)
        coordinates = np.unravel_index(rhs.elements.reshape(-1), self.shapes[rhs.leaf])
        wide = self.leaves[rhs.leaf].wide
        summed = tuple(k for k, places in enumerate(coordinates) if not wide[k] and len(np.unique(places)) > 1)
        self._set_role(rhs.leaf, summed, "filter")
        leaf, count = self.leaves[rhs.leaf], under.shape[-2]
        var = 1.0 if leaf.var is None else leaf.var
        filters = self._gaussian(rhs, var if leaf.by_entry else var / count).ids
        filters = np.moveaxis(filters, (out, into), (0, 1)).reshape(groups, count)
        entries = np.moveaxis(under.ids, -2, -1)
        return Sym(np.transpose(self._added_up(entries, np.broadcast_to(filters, entries.shape)).ids, back))

    def _is_wide_along(self, par: Par, axis: int) -> bool:
        """Whether an axis of a rearranged parameter is a wide one of it."""
        first, last = (np.take(par.elements, k, axis=axis).reshape(-1)[0] for k in (0, -1))
        places = zip(*(np.unravel_index(int(e), self.shapes[par.leaf]) for e in (first, last)), strict=True)
        return any(a != b and self.leaves[par.leaf].wide[k] for k, (a, b) in enumerate(places))
