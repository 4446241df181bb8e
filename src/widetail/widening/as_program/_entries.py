"""Arrays of a model as integers: which vector an entry belongs to, and which of its entries it is."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from widetail.programs import statements as st
from widetail.widening._parameters import Leaf
from widetail.widening._prologue import Narrow
from widetail.widening._walk import Walk
from widetail.widening.as_program._builder import Builder
from widetail.widening.as_program._symbols import Base, ScaBase, Vec

STRIDE = 1 << 32
# Numbers of one array of the input that meet something wide one by one, at most.
MOST_FEATURES = 4096
Cuts = dict[tuple[int, int], frozenset[Fraction]]


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


class Entries(Walk):
    """The arrays of a model, as numbers of expressions."""

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
        self.builder = Builder((1 << 20, 1 << 20))  # of a shape that is known at the end

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
            return self._features(value)
        array = np.asarray(value, float)
        unique, inverse = np.unique(array, return_inverse=True)
        numbers = np.array([self.entry(float(number)) for number in unique], np.int64)
        return Sym((numbers[inverse.reshape(-1)] * STRIDE).reshape(array.shape))

    def _features(self, value: Narrow) -> Sym:
        """What depends on the input alone, where it meets something wide: scalars, such as masks and distances."""
        classes = self.prologue.classes(value.reference)
        _, first, inverse = np.unique(classes, return_index=True, return_inverse=True)
        if len(first) > MOST_FEATURES:
            raise self.refuse(
                f"{len(first)} numbers that depend on the input alone meet a wide array one by one, without a random "
                f"matrix between them; at most {MOST_FEATURES} are understood"
            )
        chosen = self._narrow(lambda v: v.reshape(-1)[first], value)
        position = self._row(chosen, ())
        features = [self.builder.add(st.InputFeature(position, place)) for place in range(len(first))]
        numbers = np.array([self.entry(ScaBase(feature)) for feature in features], np.int64)
        return Sym((numbers[inverse.reshape(-1)] * STRIDE).reshape(value.shape))

    def _row(self, value: Narrow, place: tuple[int, ...]) -> int:
        """The position, among the inputs of the program, of one vector of features."""
        key = value.reference, place
        if key not in self._row_numbers:
            self._row_numbers[key] = len(self.rows)
            self.rows.append((value, place))
        return self._row_numbers[key]

    def _as_vectors(self, par: Par) -> Sym:
        """A parameter that is not multiplied by: a bias, or a table of them."""
        leaf = self.leaves[par.leaf]
        var = leaf.var if leaf.var is not None else 1.0 if leaf.is_table else 0.0
        self._set_role(par.leaf, (), "table" if leaf.is_table else "bias")
        return self._gaussian(par, var)

    def _gaussian(self, par: Par, var: float) -> Sym:
        """A parameter as vectors of independent entries of a variance."""
        leaf, shape = self.leaves[par.leaf], self.shapes[par.leaf]
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
