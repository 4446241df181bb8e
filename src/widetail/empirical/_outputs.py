"""Which pairs of outputs a kernel is of."""

import dataclasses
import math
from typing import Any

import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class Layout:
    """The outputs of one row, sorted by what becomes of them in the kernel.

    Attributes:
        shape: of the output of one row.
        diagonal: axes of which only equal entries of both sides are paired, and kept.
        traced: axes of which equal entries are paired and averaged.
    """

    shape: tuple[int, ...]
    diagonal: tuple[int, ...] = ()
    traced: tuple[int, ...] = ()

    @classmethod
    def of(cls, outputs: Any, shape: tuple[int, ...]) -> "Layout":
        """The layout that a user's word means."""
        if isinstance(outputs, Layout):
            return outputs
        every = tuple(range(len(shape)))
        if outputs == "mean":
            return cls(shape, traced=every)
        if outputs == "each":
            return cls(shape, diagonal=every)
        if outputs == "all":
            return cls(shape)
        raise ValueError(f"outputs must be one of 'mean', 'each', 'all', or a Layout; got {outputs!r}.")

    @property
    def free(self) -> tuple[int, ...]:
        """Axes of which all pairs of entries are kept."""
        return tuple(axis for axis in range(len(self.shape)) if axis not in self.diagonal + self.traced)

    def _sizes(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self.shape[axis] for axis in axes)

    @property
    def groups(self) -> tuple[int, int, int]:
        """How many entries there are of each kind: diagonal, traced, free."""
        diagonal, traced, free = (math.prod(self._sizes(axes)) for axes in (self.diagonal, self.traced, self.free))
        return diagonal, traced, free

    def sort(self, y: Any) -> Any:
        """The output of one row, shape (diagonal, traced, free)."""
        return jnp.transpose(y, self.diagonal + self.traced + self.free).reshape(self.groups)

    @property
    def kernel_shape(self) -> tuple[int, ...]:
        """Axes of the kernel after those of the rows: of each output axis one if diagonal, two if free, in order."""
        shape = []
        for axis, size in enumerate(self.shape):
            shape += [] if axis in self.traced else [size] if axis in self.diagonal else [size, size]
        return tuple(shape)

    def restore(self, k: Any) -> Any:
        """A kernel (..., diagonal, free, free) with the axes of `kernel_shape`; any array with transpose will do."""
        lead = k.shape[:-3]
        split = k.reshape(*lead, *self._sizes(self.diagonal), *self._sizes(self.free), *self._sizes(self.free))
        first, count = len(lead) + len(self.diagonal), len(self.free)
        order = list(range(len(lead)))
        for axis in range(len(self.shape)):
            if axis in self.diagonal:
                order.append(len(lead) + self.diagonal.index(axis))
            elif axis in self.free:
                place = self.free.index(axis)
                order += [first + place, first + count + place]
        return split.transpose(order)
