"""What layers of `stax` pass to each other in the infinite-width limit."""

import dataclasses
import functools
import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail.compat.neural_tangents._arrays import Number, canonical_index, masked, pairs, unzip_axes, zip_axes

STATIC = (
    "is_gaussian", "is_reversed", "is_input", "diagonal_batch", "diagonal_spatial", "shape1", "shape2",
    "batch_axis", "channel_axis",
)  # fmt: skip


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=("nngp", "ntk", "cov1", "cov2", "x1_is_x2", "mask1", "mask2"),
    meta_fields=STATIC,
)
@dataclasses.dataclass(frozen=True)
class Kernel:
    """Covariances of a layer's outputs, for two sets of inputs of n1 and n2 rows.

    Attributes:
        nngp: between the two sets: (n1, n2), followed by every axis of positions twice, (height, height, width, width),
            or once when `diagonal_spatial`.
        ntk: the tangent kernel of everything below in the same layout, or None when it was not asked for.
        cov1: of the first set with itself: each row by itself, (n1, ...), when `diagonal_batch`, else (n1, n1, ...).
        cov2: of the second set; None when there is no second set.
        x1_is_x2: whether the two sets are equal.
        is_gaussian: whether the outputs are a Gaussian process, which a nonlinearity needs.
        is_reversed: whether the axes of positions are in the opposite order. Layers here take it, but never do it.
        is_input: whether these are inputs that no layer has touched.
        diagonal_batch, diagonal_spatial: the layout, see above.
        shape1, shape2: of the (finite) outputs.
        batch_axis, channel_axis: where these shapes have data points and features.
        mask1, mask2: True where there is nothing, in the shapes of the outputs with one feature; or None.
    """

    nngp: Any
    ntk: Any
    cov1: Any
    cov2: Any
    x1_is_x2: Any
    is_gaussian: bool = dataclasses.field(metadata={"pytree_node": False})
    is_reversed: bool = dataclasses.field(metadata={"pytree_node": False})
    is_input: bool = dataclasses.field(metadata={"pytree_node": False})
    diagonal_batch: bool = dataclasses.field(metadata={"pytree_node": False})
    diagonal_spatial: bool = dataclasses.field(metadata={"pytree_node": False})
    shape1: Any = dataclasses.field(metadata={"pytree_node": False})
    shape2: Any = dataclasses.field(metadata={"pytree_node": False})
    batch_axis: int = dataclasses.field(metadata={"pytree_node": False})
    channel_axis: int = dataclasses.field(metadata={"pytree_node": False})
    mask1: Any = None
    mask2: Any = None

    @property
    def batch_ndim(self) -> int:
        """How many axes of data points `cov1` and `cov2` have."""
        return 1 if self.diagonal_batch else 2

    def replace(self, **changes: Any) -> "Kernel":
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def asdict(self) -> dict[str, Any]:
        """Fields by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def astuple(self) -> tuple[Any, ...]:
        """The values of all fields."""
        return tuple(self.asdict().values())

    def map(self, fn: Any, **changes: Any) -> "Kernel":
        """Apply `fn(array, axes of data points)` to all four arrays."""
        own = self.batch_ndim
        arrays = {"cov1": (self.cov1, own), "cov2": (self.cov2, own), "nngp": (self.nngp, 2), "ntk": (self.ntk, 2)}
        found = {name: None if value is None else fn(value, batch) for name, (value, batch) in arrays.items()}
        return self.replace(**(found | changes))

    def slice(self, n1_slice: slice, n2_slice: slice) -> "Kernel":
        """Some rows of either set."""
        if not self.diagonal_batch:
            raise NotImplementedError("Kernel.slice needs a kernel with diagonal_batch=True.")
        cov1, cov2 = self.cov1[n1_slice], (self.cov1 if self.cov2 is None else self.cov2)[n2_slice]
        return self.replace(
            cov1=cov1,
            cov2=cov2,
            nngp=self.nngp[n1_slice, n2_slice],
            ntk=None if self.ntk is None else self.ntk[n1_slice, n2_slice],
            shape1=_with_rows(self.shape1, self.batch_axis, cov1.shape[0]),
            shape2=_with_rows(self.shape2, self.batch_axis, cov2.shape[0]),
            mask1=None if self.mask1 is None else self.mask1[n1_slice],
            mask2=None if self.mask2 is None else self.mask2[n2_slice],
        )

    def reverse(self) -> "Kernel":
        """The axes of positions in the opposite order."""
        rank = len(self.shape1) - 2

        def turn(x, batch):
            return _reorder(x, batch, self.diagonal_spatial, tuple(range(rank))[::-1])

        return self.map(turn, is_reversed=not self.is_reversed)

    def transpose(self, axes: Sequence[int] | None = None) -> "Kernel":
        """The axes of positions in another order; masks and shapes stay."""
        order = tuple(range(len(self.shape1) - 2)) if axes is None else tuple(axes)
        return self.map(lambda x, batch: _reorder(x, batch, self.diagonal_spatial, order))

    def mask(self, mask1: Any, mask2: Any) -> "Kernel":
        """Zeros where either side is masked."""
        between = mask_pairs(self, mask1, mask2)
        return self.replace(
            cov1=masked(self.cov1, between[0]),
            nngp=masked(self.nngp, between[1]),
            ntk=masked(self.ntk, between[1]),
            cov2=masked(self.cov2, between[2]),
            mask1=mask1,
            mask2=mask2,
        )

    def dot_general(self, other1: Any, other2: Any, is_lhs: bool, dimension_numbers: Any) -> "Kernel":
        """The kernel after `jax.lax.dot_general` of the outputs with constants, which may differ between the sets."""
        if other1 is None and other2 is None:
            return self
        return _dot_general(self, other1, other2, is_lhs, dimension_numbers)

    def __mul__(self, other: Number) -> "Kernel":
        return self.map(lambda x, batch: other**2 * x)

    __rmul__ = __mul__

    def __add__(self, other: Number) -> "Kernel":
        moved = self.map(lambda x, batch: x + other**2)
        return moved.replace(ntk=self.ntk)

    __sub__ = __add__

    def __truediv__(self, other: Number) -> "Kernel":
        return self * (1.0 / other)

    def __neg__(self) -> "Kernel":
        return self

    __pos__ = __neg__

    def __getitem__(self, idx: Any) -> "Kernel":
        idx = canonical_index(idx, len(self.shape1))
        if idx[self.channel_axis] != slice(None):
            raise NotImplementedError(f"Indexing the (infinite) channel axis {self.channel_axis} is not supported.")
        rows = idx[self.batch_axis]
        if isinstance(rows, int):
            raise NotImplementedError(
                f"An integer index removes its axis, but the batch axis {self.batch_axis} must stay; use a slice."
            )
        positions = tuple(one for axis, one in enumerate(idx) if axis not in (self.batch_axis, self.channel_axis))
        if self.is_reversed:
            positions = positions[::-1]
        if not self.diagonal_spatial:
            positions = tuple(one for pair in zip(positions, positions, strict=True) for one in pair)
        gone = [axis for axis, one in enumerate(idx) if isinstance(one, int)]
        return self.map(
            lambda x, batch: x[((rows,) * batch) + positions],
            batch_axis=self.batch_axis - sum(axis < self.batch_axis for axis in gone),
            channel_axis=self.channel_axis - sum(axis < self.channel_axis for axis in gone),
            shape1=np.empty(self.shape1, bool)[idx].shape,
            shape2=np.empty(self.shape2, bool)[idx].shape,
            mask1=None if self.mask1 is None else self.mask1[idx],
            mask2=None if self.mask2 is None else self.mask2[idx],
        )


def _with_rows(shape: tuple[int, ...], axis: int, count: int) -> tuple[int, ...]:
    return (*shape[:axis], count, *shape[axis + 1 :])


def _reorder(x: Any, batch: int, diagonal: bool, order: Sequence[int]) -> Any:
    """Transpose the axes of positions."""
    if diagonal:
        return jnp.transpose(x, (*range(batch), *(batch + axis for axis in order)))
    x = unzip_axes(x, batch)
    rank = (x.ndim - batch) // 2
    both = (*(batch + axis for axis in order), *(batch + rank + axis for axis in order))
    return zip_axes(jnp.transpose(x, (*range(batch), *both)), batch)


def mask_pairs(k: Kernel, mask1: Any, mask2: Any) -> tuple[Any, Any, Any]:
    """Where a pair is masked: in cov1, in nngp and in cov2."""

    def prepare(m):
        if m is None:
            return None
        if m.shape[k.channel_axis] != 1:
            raise NotImplementedError(
                f"masks that differ between channels are not supported in the infinite-width limit; got a mask of "
                f"shape {m.shape} with channel_axis={k.channel_axis}."
            )
        m = jnp.moveaxis(m, (k.batch_axis, k.channel_axis), (0, -1))[..., 0]
        return jnp.transpose(m, (0, *range(m.ndim - 1, 0, -1))) if k.is_reversed else m

    first, second = prepare(mask1), prepare(mask2)

    def between(one, other, batch):
        if one is None and other is None:
            return None
        one = jnp.zeros((1,) * other.ndim, bool) if one is None else one
        other = jnp.zeros((1,) * one.ndim, bool) if other is None else other
        return pairs(one, other, batch, k.diagonal_spatial, operator.or_)

    own = between(first, first, k.batch_ndim)
    if k.cov2 is None:
        return own, between(first, first, 2), None
    return own, between(first, second, 2), between(second, second, k.batch_ndim)


def _dot_general(k: Kernel, other1: Any, other2: Any, is_lhs: bool, dimension_numbers: Any) -> Kernel:
    if k.is_reversed:
        k = k.reverse()
    contracting, batching = dimension_numbers
    ours, theirs = (1, 0) if is_lhs else (0, 1)
    ndim, other_ndim = len(k.shape1), (other1 if other1 is not None else other2).ndim

    def axes(numbers, side, count):
        return [int(axis) % count for axis in numbers[side]]

    our_sum, our_batch = axes(contracting, ours, ndim), axes(batching, ours, ndim)
    their_sum, their_batch = axes(contracting, theirs, other_ndim), axes(batching, theirs, other_ndim)
    if k.channel_axis in our_sum + our_batch:
        raise ValueError(
            f"dimension_numbers must not name the channel axis, {k.channel_axis}; got {dimension_numbers}."
        )
    met = dict(zip(their_batch + their_sum, our_batch + our_sum, strict=True))
    # axes of the result in the order of dot_general: ("x", our axis) or ("o", axis of the constant)
    free = [("x", axis) for axis in range(ndim) if axis not in our_sum + our_batch]
    constant = [("o", axis) for axis in range(other_ndim) if axis not in met]
    result = [("x", axis) for axis in our_batch] + (constant + free if is_lhs else free + constant)
    rows = ("x", k.batch_axis) if k.batch_axis not in our_sum else constant[0]
    positions = [name for name in result if name not in (rows, ("x", k.channel_axis))]

    def label(name, side, batch):
        """One integer per axis; both sides share it where the layout keeps equal entries only."""
        kind, axis = name
        is_row = name == ("x", k.batch_axis) or name == rows
        shared = batch == 1 if is_row else k.diagonal_spatial
        return 2 * (axis + (0 if kind == "x" else ndim)) + (0 if shared else side)

    def both(name, batch):
        first, second = label(name, 0, batch), label(name, 1, batch)
        return [first] if first == second else [first, second]

    def dot(x, batch, one, other):
        names = [("x", k.batch_axis)]
        names += [("x", axis) for axis in range(ndim) if axis not in (k.batch_axis, k.channel_axis)]
        operands = [x, [place for name in names for place in both(name, batch)]]
        for side, constant_array in enumerate((one, other)):
            if constant_array is not None:
                meets = [("x", met[axis]) if axis in met else ("o", axis) for axis in range(other_ndim)]
                operands += [constant_array.astype(x.dtype), [label(name, side, batch) for name in meets]]
        return jnp.einsum(*operands, [place for name in (rows, *positions) for place in both(name, batch)])

    own = k.batch_ndim
    return k.replace(
        cov1=dot(k.cov1, own, other1, other1),
        cov2=None if k.cov2 is None else dot(k.cov2, own, other2, other2),
        nngp=dot(k.nngp, 2, other1, other2),
        ntk=None if k.ntk is None else dot(k.ntk, 2, other1, other2),
        batch_axis=result.index(rows),
        channel_axis=result.index(("x", k.channel_axis)),
    )
