"""Sums of entries: over positions they are sums of vectors, along the width they are averages."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail.widening.as_program._elementwise import MAXIMUM, MULTIPLY, Combining
from widetail.widening.as_program._entries import STRIDE, Sym
from widetail.widening.as_program._symbols import Read, Vec, add_sca, add_vec, scale_sca, without_factor
from widetail.widening.as_program._windows import patches

# Positions of which a maximum is taken, at most: it is a function of so many dependent variables.
MOST_MAXIMUM = 16


class Sums(Combining):
    """What becomes of entries that are added up."""

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
                    value = self.combine(MULTIPLY, [value, self.entries[row[count + k]]])
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
            product = values[0] if other is None else self.combine(MULTIPLY, values)
            times = np.sum(np.all(np.stack([c // STRIDE for c in columns]) == np.array(entries)[:, None], axis=0))
            if isinstance(product, Vec):
                self.builder.place = self.place
                factor, product = without_factor(product)
                total.append(scale_sca(factor * float(times), self.builder.average(product)))
            else:
                total.append(scale_sca(float(times), product))
        return add_sca(*total)

    def _max(self, value: Any, axes: tuple[int, ...]) -> Any:
        """A maximum of scalars, as in softmax, or of a few positions."""
        ids = np.moveaxis(self.sym(value).ids, axes, range(-len(axes), 0))
        kept = ids.shape[: ids.ndim - len(axes)]
        return self._largest(ids.reshape(*kept, -1))

    def _window_max(self, params: dict[str, Any], value: Any) -> Any:
        sym = self.sym(value)
        under = patches(sym.ids, params["window_dimensions"], params["window_strides"], params["padding"])
        if any(d != 1 for d in (*params["base_dilation"], *params["window_dilation"])):
            raise self.refuse("pooling with dilation is not understood")
        under = under.reshape(*under.shape[: sym.ids.ndim], -1)
        under = np.where(under < 0, np.max(under, axis=-1, keepdims=True), under)  # what is outside adds nothing
        return self._largest(under)

    def _largest(self, ids: np.ndarray) -> Sym:
        """The maximum along the last axis."""
        shape, count = ids.shape[:-1], ids.shape[-1]
        rows = ids.reshape(-1, count)
        if self._lies_along(rows):
            raise self.refuse("a maximum across the width grows with it; a mean has a limit")
        if count > MOST_MAXIMUM and np.any(self._are_wide(rows)):
            raise self.refuse(
                f"a maximum of {count} positions is a nonlinearity of {count} dependent variables; at most "
                f"{MOST_MAXIMUM} are understood. A mean has a limit of any length"
            )
        result = Sym(rows[:, 0])
        for k in range(1, count):
            group, members, along = self.grouped([result.ids, rows[:, k]])
            made = [
                pair[0] if pair[0] == pair[1] else self.entry(self.combine(MAXIMUM, [self.entries[e] for e in pair]))
                for pair in members
            ]
            result = Sym(np.array(made, np.int64)[group] * STRIDE + along)
        return Sym(result.ids.reshape(shape))

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
        under = patches(sym.ids, params["window_dimensions"], params["window_strides"], params["padding"])
        if any(d != 1 for d in (*params["base_dilation"], *params["window_dilation"])):
            raise self.refuse("pooling with dilation is not understood")
        zero = self.entry(0.0) * STRIDE
        under = np.where(under < 0, zero, under)
        return self._added_up(under.reshape(*under.shape[: sym.ids.ndim], -1), None)
