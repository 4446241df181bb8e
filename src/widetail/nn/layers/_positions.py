"""Layers that choose, resize, mix or mark positions."""

import functools
import math
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from widetail.checks import as_parameter, check_number, check_variance
from widetail.files import savable
from widetail.nn._base import LinearLeaf, draw_weight, scaled_weight
from widetail.nn._covariance import Covariance
from widetail.nn._signal import Signal


class _Positions(LinearLeaf):
    """A fixed linear map of positions, the same for every feature: no parameters."""

    def init(self, key, signal, parametrisation):
        return {}

    def _check_positions(self, signal: Signal) -> None:
        if not signal.space:
            raise ValueError(f"nn.{type(self).__name__} expects sequences or images, but it receives vectors")


@savable("nn.Slice", positional="indices")
class Slice(_Positions):
    """Some of the positions: `nn.Slice(slice(1, None), 0)` is `h[:, 1:, 0]`.

    Args:
        *indices: one per axis of positions, from the first on: a `slice`, or an integer, which removes its axis.
            Axes without an index stay whole.
    """

    indices: tuple[Any, ...] = eqx.field(static=True)

    def __init__(self, *indices: Any):
        for index in indices:
            if not isinstance(index, (int, slice, tuple, list)) or isinstance(index, bool):
                raise ValueError(f"nn.Slice: an index must be an integer or a slice; got {index!r}.")
        if not indices:
            raise ValueError("nn.Slice needs an index, such as nn.Slice(slice(0, 10)).")
        # slices cannot be part of a compiled function on every Python, so they are kept as (start, stop, step)
        self.indices = tuple(
            (index.start, index.stop, index.step)
            if isinstance(index, slice)
            else index
            if isinstance(index, int)
            else tuple(index)
            for index in indices
        )

    def _index(self) -> tuple[Any, ...]:
        return tuple(slice(*index) if isinstance(index, tuple) else index for index in self.indices)

    def __repr__(self) -> str:
        return f"nn.Slice({', '.join(map(repr, self._index()))})"

    def needs_distances(self, wanted: bool) -> bool:
        return wanted

    def signal(self, signal: Signal) -> Signal:
        self._check_positions(signal)
        if len(self.indices) > len(signal.space):
            raise ValueError(f"{self!r} has more indices than the {len(signal.space)} axes of positions {signal.space}")
        try:
            space = np.empty(signal.space, bool)[self._index()].shape
        except IndexError:
            raise ValueError(f"{self!r} lies outside of the positions {signal.space}") from None
        if 0 in space:
            raise ValueError(f"{self!r} leaves no position of {signal.space}")
        return signal.replace(space=space)

    def limit(self, k: Covariance) -> Covariance:
        index = (*self._index(), *(slice(None),) * (k.rank - len(self.indices)))
        kept = sum(isinstance(one, slice) for one in index)
        chosen = k.map_all(lambda v: v[index * 2] if k.all_pairs else v[index])
        return Covariance(chosen.nngp, chosen.ntk, kept, k.all_pairs, chosen.apart)

    def mask_after(self, mask):
        return mask[self._index()]

    def apply(self, parameters, x, parametrisation, key):
        return x[(slice(None), *self._index())]


METHODS = ("nearest", "linear", "cubic", "lanczos3", "lanczos5")


@savable("nn.Resize")
class Resize(_Positions):
    """Images (or sequences) resized by interpolation, as `jax.image.resize` does.

    Args:
        space: the new size of every axis of positions.
        method: "nearest", "linear", "cubic", "lanczos3" or "lanczos5".
        antialias: smooth before an axis gets shorter.
    """

    space: tuple[int, ...] = eqx.field(static=True)
    method: Literal["nearest", "linear", "cubic", "lanczos3", "lanczos5"] = eqx.field(static=True, default="linear")
    antialias: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        if not isinstance(self.space, tuple) or not all(isinstance(s, int) and s >= 1 for s in self.space):
            raise ValueError(
                f"nn.Resize: space must be a tuple of positive integers, such as (14, 14); got {self.space!r}."
            )
        if self.method not in METHODS:
            raise ValueError(f"nn.Resize: method must be one of {', '.join(map(repr, METHODS))}; got {self.method!r}.")

    def needs_all_pairs(self, wanted: bool) -> bool:
        return True

    def signal(self, signal: Signal) -> Signal:
        self._check_positions(signal)
        if len(self.space) != len(signal.space):
            raise ValueError(f"nn.Resize has {len(self.space)} sizes, but it receives positions {signal.space}")
        return signal.replace(space=self.space)

    def mask_after(self, mask):
        return (self._resize(mask, (*self.space, mask.shape[-1])) > 0).astype(mask.dtype)

    def _resize(self, x, shape):
        return jax.image.resize(x, shape, self.method, self.antialias)

    def limit(self, k: Covariance) -> Covariance:
        return k.map(lambda v: self._resize(v, (*self.space, *self.space, *v.shape[2 * k.rank :])))

    def apply(self, parameters, x, parametrisation, key):
        return self._resize(x, (x.shape[0], *self.space, x.shape[-1]))


@savable("nn.Aggregate")
class Aggregate(_Positions):
    r"""Every position becomes a weighted sum of positions, $h'_p = \sum_q A_{pq} h_q$: aggregation over a graph.

    $K' = A K A^\top$. The graph is the same for all inputs. Images are taken as one long sequence of positions.

    Args:
        matrix: $A$, shape (positions out, positions in), such as a normalised adjacency matrix; an array, or a matrix
            of `scipy.sparse`, whose zeros then cost nothing.

    Example:
        >>> import numpy as np
        >>> from widetail import nn
        >>> ring = (np.eye(4) + np.roll(np.eye(4), 1, 0) + np.roll(np.eye(4), -1, 0)) / 3
        >>> net = nn.Sequential(nn.Aggregate(ring), nn.Conv(1), nn.Relu(), nn.GlobalAvgPool())
        >>> net.kernel(np.ones((2, 4, 3))).nngp.shape
        (2, 2)
    """

    values: Any
    rows: tuple[int, ...] | None = eqx.field(static=True)
    columns: tuple[int, ...] | None = eqx.field(static=True)
    shape: tuple[int, int] = eqx.field(static=True)

    def __init__(self, matrix: Any):
        if scipy.sparse.issparse(matrix):
            matrix = scipy.sparse.coo_array(matrix)
            matrix.sum_duplicates()
            self.rows, self.columns = tuple(map(int, matrix.row)), tuple(map(int, matrix.col))
            values = np.asarray(matrix.data, float)
        else:
            matrix = np.asarray(matrix, float)
            self.rows = self.columns = None
            values = matrix
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise ValueError(f"nn.Aggregate: matrix must have shape (positions out, positions in); got {matrix.shape}.")
        if not np.all(np.isfinite(values)):
            raise ValueError("nn.Aggregate: matrix must be finite; it has NaN or infinite entries.")
        self.values, self.shape = values, (int(matrix.shape[0]), int(matrix.shape[1]))

    def saved_fields(self) -> dict[str, Any]:
        """What a file keeps: the entries, and where they are."""
        dense = self.rows is None
        places = [] if dense else [np.asarray(self.rows), np.asarray(self.columns)]
        return {"values": np.asarray(self.values), "places": places, "shape": self.shape}

    @classmethod
    def from_saved(cls, fields: dict[str, Any]) -> "Aggregate":
        """The layer again."""
        values, places, shape = fields["values"], fields["places"], tuple(fields["shape"])
        return cls(scipy.sparse.coo_array((values, tuple(places)), shape) if places else values)

    def __repr__(self) -> str:
        kind = "" if self.rows is None else f", {len(self.rows)} entries"
        return f"nn.Aggregate(<{self.shape[0]} x {self.shape[1]}{kind}>)"

    def needs_all_pairs(self, wanted: bool) -> bool:
        return True

    def signal(self, signal: Signal) -> Signal:
        self._check_positions(signal)
        if signal.positions != self.shape[1]:
            raise ValueError(f"{self!r} takes {self.shape[1]} positions, but it receives {signal.space}")
        return signal.replace(space=(self.shape[0],))

    def mask_after(self, mask):
        if mask.ndim != 2 or self.shape[0] != self.shape[1]:
            raise ValueError(f"{self!r} inside of nn.Masked must give the positions of the sequence that it receives.")
        return mask

    def _mix(self, v, axis: int):
        """The weighted sums along one axis."""
        v = jnp.moveaxis(v, axis, 0)
        values = jnp.asarray(self.values, v.dtype)
        if self.rows is None:
            v = jnp.tensordot(values, v, 1)
        else:
            terms = values.reshape(-1, *(1,) * (v.ndim - 1)) * v[np.asarray(self.columns)]
            v = jax.ops.segment_sum(terms, np.asarray(self.rows), self.shape[0])
        return jnp.moveaxis(v, 0, axis)

    def limit(self, k: Covariance) -> Covariance:
        positions = self.shape[1]
        flat = k.map(lambda v: v.reshape(positions, positions, *v.shape[2 * k.rank :]))
        mixed = flat.map(lambda v: self._mix(self._mix(v, 0), 1))
        return Covariance(mixed.nngp, mixed.ntk, 1, True)

    def apply(self, parameters, x, parametrisation, key):
        return self._mix(x.reshape(x.shape[0], -1, x.shape[-1]), 1)


@savable("nn.DotGeneral")
class DotGeneral(_Positions):
    r"""Sums over some axes of positions with a constant array: `tensordot(h, constant, axes)` of every feature.

    The axes of positions that are left come first, those of the constant that are left after them:
    $h'_{rs} = \sum_p h_{pr} C_{ps}$, hence $K' = C^\top K C$.

    Args:
        constant: $C$, an array whose first axes are summed over.
        axes: which axes of positions are summed over, counted from 0, in the order of the constant's first axes.

    Example:
        >>> import numpy as np
        >>> from widetail import nn
        >>> halves = np.kron(np.eye(2), np.ones((3, 1)) / 3)  # the means of the halves of six positions
        >>> net = nn.Sequential(nn.Conv(3), nn.Relu(), nn.DotGeneral(halves), nn.Flatten())
        >>> net.kernel(np.ones((4, 6, 2))).nngp.shape
        (4, 4)
    """

    constant: Any
    axes: tuple[int, ...] = eqx.field(static=True, default=(0,))

    def __init__(self, constant: Any, axes: tuple[int, ...] = (0,)):
        self.constant, self.axes = np.asarray(constant, float), axes
        is_tuple = isinstance(axes, tuple) and all(isinstance(axis, int) and axis >= 0 for axis in axes)
        if not is_tuple or not axes or len(set(axes)) < len(axes):
            raise ValueError(f"nn.DotGeneral: axes must be a tuple of different axes from 0 on; got {axes!r}.")
        if self.constant.ndim < len(axes) or not np.all(np.isfinite(self.constant)):
            raise ValueError(
                f"nn.DotGeneral: constant must be a finite array with an axis for each of axes={axes}; got shape "
                f"{self.constant.shape}."
            )

    def needs_all_pairs(self, wanted: bool) -> bool:
        return True

    def signal(self, signal: Signal) -> Signal:
        self._check_positions(signal)
        count = len(self.axes)
        summed, made = self.constant.shape[:count], self.constant.shape[count:]
        if max(self.axes) >= len(signal.space) or tuple(signal.space[axis] for axis in self.axes) != summed:
            raise ValueError(
                f"nn.DotGeneral sums over axes {self.axes} of sizes {summed}, but it receives positions {signal.space}"
            )
        kept = (size for axis, size in enumerate(signal.space) if axis not in self.axes)
        return signal.replace(space=(*kept, *made))

    def _dot(self, v, start: int, rank: int, constant: Any = None):
        """The sums over the axes of positions from `start` on."""
        summed = [start + axis for axis in self.axes]
        constant = jnp.asarray(self.constant if constant is None else constant, v.dtype)
        v = jnp.tensordot(v, constant, (summed, list(range(len(summed)))))
        made = constant.ndim - len(summed)
        new = range(v.ndim - made, v.ndim)
        return jnp.moveaxis(v, new, range(start + rank - len(summed), start + rank - len(summed) + made))

    def limit(self, k: Covariance) -> Covariance:
        mixed = k.map(lambda v: self._dot(self._dot(v, k.rank, k.rank), 0, k.rank))
        rank = k.rank - 2 * len(self.axes) + self.constant.ndim
        return Covariance(mixed.nngp, mixed.ntk, rank, rank > 0)

    def mask_after(self, mask):
        reached = self._dot(mask, 0, mask.ndim - 1, jnp.not_equal(self.constant, 0))
        return (reached > 0).astype(mask.dtype)

    def apply(self, parameters, x, parametrisation, key):
        return self._dot(x, 1, x.ndim - 2)


@savable("nn.PositionalEmbedding")
class PositionalEmbedding(LinearLeaf):
    r"""Add a trained random vector to every position: $h_p + e_p$ with $E[e_p e_q] = \sigma^2 R_{pq}$.

    $K'_{pq} = K_{pq} + \sigma^2 R_{pq}$: what attention lacks to tell positions apart.

    Args:
        weight_var: the variance $\sigma^2$.
        length: embeddings of positions at distance $d$ have correlation $R = e^{-(d / \text{length})^2 / 2}$; None
            for independent ones.
    """

    weight_var: float = eqx.field(default=1.0, converter=as_parameter)
    length: float | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        check_variance("weight_var", self.weight_var, positive=True)
        if self.length is not None:
            check_number("length", self.length, positive=True)

    def signal(self, signal: Signal) -> Signal:
        if not signal.space:
            raise ValueError("nn.PositionalEmbedding expects sequences or images, but it receives vectors")
        if signal.multiple == 0:
            raise ValueError(
                "nn.PositionalEmbedding must come after the first nn.Conv: random vectors of the inputs' few features "
                "do not average out as the width grows (nn.Conv(1) is a layer at every position by itself)"
            )
        return signal.replace(is_fresh=False)

    def limit(self, k: Covariance) -> Covariance:
        space = k.nngp.shape[: k.rank]
        ends = (1,) * (k.nngp.ndim - k.rank * (1 + k.all_pairs))
        weight_var = jnp.asarray(self.weight_var, k.nngp.dtype)
        if k.all_pairs:
            added = weight_var * _correlations(space, self.length).reshape(*space, *space, *ends).astype(k.nngp.dtype)
        else:
            added = weight_var
        return k.map(lambda v: v + added)

    def init(self, key, signal, parametrisation):
        shape = (signal.positions, signal.sizes[0])
        return {"table": draw_weight(key, shape, self.weight_var, 1, parametrisation)}

    def apply(self, parameters, x, parametrisation, key):
        space = x.shape[1:-1]
        table = scaled_weight(parameters["table"], self.weight_var, 1, parametrisation).astype(x.dtype)
        return x + (jnp.asarray(_root(space, self.length), x.dtype) @ table).reshape(*space, -1)


@functools.lru_cache
def _correlations(space: tuple[int, ...], length: float | None) -> np.ndarray:
    """The matrix R of all positions."""
    if length is None:
        return np.eye(math.prod(space))
    places = np.indices(space).reshape(len(space), -1)
    return np.exp(-0.5 * np.sum((places[:, :, None] - places[:, None, :]) ** 2, axis=0) / length**2)


@functools.lru_cache
def _root(space: tuple[int, ...], length: float | None) -> np.ndarray:
    """The symmetric root of R, which may be singular."""
    values, vectors = np.linalg.eigh(_correlations(space, length))
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
