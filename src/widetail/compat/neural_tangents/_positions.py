"""Layers that choose, resize or mix positions by fixed rules."""

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail.compat.neural_tangents._arrays import Axes, canonical_axes
from widetail.compat.neural_tangents._requirements import Bool, Diagonal, layer, requires, supports_masking


class AggregateImplementation(enum.Enum):
    """The form of a graph: a matrix per data point, or lists of edges."""

    DENSE = "DENSE"
    SPARSE = "SPARSE"


class _Slice:
    """`Slice[1, :, 2:8]` is the index that `Index` takes."""

    def __getitem__(self, idx: Any) -> Any:
        return idx


Slice = _Slice()


@layer
@supports_masking(remask_kernel=False)
def Index(idx: Any, batch_axis: int = 0, channel_axis: int = -1) -> Any:  # noqa: N802
    """`inputs[idx]`."""

    def init_fn(rng, input_shape):
        return np.empty(input_shape, bool)[idx].shape, ()

    def apply_fn(params, inputs, **kwargs):
        return inputs[idx]

    @requires(batch_axis=batch_axis, channel_axis=channel_axis)
    def kernel_fn(k, **kwargs):
        return k[idx]

    def mask_fn(mask, input_shape):
        return mask[idx]

    return init_fn, apply_fn, kernel_fn, mask_fn


@layer
@supports_masking(remask_kernel=True)
def ImageResize(  # noqa: N802
    shape: Sequence[int],
    method: Any,
    antialias: bool = True,
    precision: Any = jax.lax.Precision.HIGHEST,
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> Any:
    """Interpolation to another shape; -1 keeps an axis."""
    ndim = len(shape)
    rows, channel = batch_axis % ndim, channel_axis % ndim
    space = [axis for axis in range(ndim) if axis not in (rows, channel)]

    def filled(input_shape):
        return tuple(size if size != -1 else input_shape[axis] for axis, size in enumerate(shape))

    def resize(x, target):
        return jax.image.resize(x, target, method, antialias, precision)

    def init_fn(rng, input_shape):
        return filled(input_shape), ()

    def apply_fn(params, inputs, **kwargs):
        return resize(inputs, filled(inputs.shape))

    @requires(
        batch_axis=batch_axis,
        channel_axis=channel_axis,
        diagonal_batch=shape[rows] == -1,
        diagonal_spatial=Diagonal(input=Bool.YES if all(shape[axis] == -1 for axis in space) else Bool.NO),
    )
    def kernel_fn(k, **kwargs):
        kind = jax.image.ResizeMethod.from_string(method) if isinstance(method, str) else method
        if kind not in (jax.image.ResizeMethod.LINEAR, jax.image.ResizeMethod.NEAREST):
            raise NotImplementedError(f"stax.ImageResize has kernels for 'linear' and 'nearest'; got {method!r}.")
        if shape[channel] != -1:
            raise ValueError("stax.ImageResize must keep the axis of channels: shape[channel_axis] must be -1.")

        def step(x, batch, one, other):
            if x is None:
                return None
            target = [one[rows]] + ([other[rows]] if batch == 2 else [])
            for axis in space:
                target += [one[axis]] if k.diagonal_spatial else [one[axis], other[axis]]
            return resize(x, target)

        one, other = filled(k.shape1), filled(k.shape2)
        own = k.batch_ndim
        return k.replace(
            cov1=step(k.cov1, own, one, one),
            cov2=step(k.cov2, own, other, other),
            nngp=step(k.nngp, 2, one, other),
            ntk=step(k.ntk, 2, one, other),
        )

    def mask_fn(mask, input_shape):
        kept = [1 if size == 1 else filled(input_shape)[axis] for axis, size in enumerate(mask.shape)]
        return ~(resize((~mask).astype(jnp.float32), kept) > 0)

    return init_fn, apply_fn, kernel_fn, mask_fn


@layer
@supports_masking(remask_kernel=False)
def DotGeneral(  # noqa: N802
    *,
    lhs: Any = None,
    rhs: Any = None,
    dimension_numbers: Any = (((), ()), ((), ())),
    precision: Any = None,
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> Any:
    """`jax.lax.dot_general` of the inputs with a constant on the left or on the right; neither is the identity."""
    if rhs is not None and lhs is not None:
        raise ValueError("stax.DotGeneral takes lhs or rhs, not both: the other factor is the input.")
    is_lhs = rhs is None
    is_identity = rhs is None and lhs is None
    other = jnp.asarray(1.0) if is_identity else jnp.asarray(lhs if is_lhs else rhs)

    def dot(x):
        if is_identity:
            return x
        constant = other.astype(x.dtype)
        one, two = (constant, x) if is_lhs else (x, constant)
        return jax.lax.dot_general(one, two, dimension_numbers, precision)

    def init_fn(rng, input_shape):
        return jax.eval_shape(dot, jax.ShapeDtypeStruct(tuple(input_shape), jnp.float32)).shape, ()

    def apply_fn(params, inputs, **kwargs):
        return dot(inputs)

    summed = tuple(dimension_numbers[0][1 if is_lhs else 0])

    @requires(
        diagonal_batch=batch_axis not in summed or is_identity,
        diagonal_spatial=Diagonal(input=Bool.YES if summed in ((), (batch_axis,)) or is_identity else Bool.NO),
        batch_axis=batch_axis,
        channel_axis=channel_axis,
    )
    def kernel_fn(k, **kwargs):
        return k if is_identity else k.dot_general(other, other, is_lhs, dimension_numbers)

    def mask_fn(mask, input_shape):
        if is_identity:
            return mask
        wide = list(input_shape)
        wide[channel_axis] = mask.shape[channel_axis]
        reached = jnp.broadcast_to(~mask, wide).astype(jnp.float32)
        ones = (other != 0).astype(jnp.float32)
        one, two = (ones, reached) if is_lhs else (reached, ones)
        return ~(jax.lax.dot_general(one, two, dimension_numbers, precision) > 0)

    return init_fn, apply_fn, kernel_fn, mask_fn


@layer
@supports_masking(remask_kernel=True)
def Aggregate(  # noqa: N802
    aggregate_axis: Axes | None = None,
    batch_axis: int = 0,
    channel_axis: int = -1,
    to_dense: Callable[[Any], Any] | None = lambda p: p,
    implementation: str = AggregateImplementation.DENSE.value,
) -> Any:
    """Sums over the neighbours in a graph of each data point, given as `pattern` to `apply_fn` and `kernel_fn`."""
    is_sparse = AggregateImplementation(implementation) == AggregateImplementation.SPARSE

    def axes_of(ndim):
        rows, channel = batch_axis % ndim, channel_axis % ndim
        if aggregate_axis is None:
            return [axis for axis in range(ndim) if axis not in (rows, channel)], rows, channel
        given = [aggregate_axis] if isinstance(aggregate_axis, int) else list(aggregate_axis)
        canonical_axes(given, ndim)
        return [axis % ndim for axis in given], rows, channel

    def as_matrices(pattern, shape, count):
        """(data points, *positions in, *positions out)."""
        if not is_sparse:
            return to_dense(pattern) if to_dense is not None else pattern
        if pattern.shape[-1] != 2:
            raise ValueError(f"pattern must end in an axis of 2, senders and receivers; got shape {pattern.shape}.")
        if len(shape) == 1 and pattern.ndim == 3:
            pattern = pattern[..., None, :]
        if pattern.ndim != 4 or pattern.shape[2] != len(shape) or pattern.shape[0] != count:
            raise ValueError(
                f"pattern must have shape (data points, edges, {len(shape)}, 2) with {count} data points; "
                f"got {pattern.shape}."
            )
        size = math.prod(shape)

        def flat(ends):  # negative indices are padding
            index = jnp.ravel_multi_index(tuple(jnp.moveaxis(ends, -1, 0)), shape, mode="wrap")
            return index, jnp.all(ends >= 0, axis=-1)

        senders, is_sender = flat(pattern[..., 0])
        receivers, is_receiver = flat(pattern[..., 1])
        counts = (is_sender & is_receiver).astype(jnp.float32)
        rows = jnp.arange(count)[:, None]
        dense = jnp.zeros((count, size, size), counts.dtype).at[rows, senders, receivers].add(counts)
        return dense.reshape(count, *shape, *shape)

    def init_fn(rng, input_shape):
        return input_shape, ()

    def apply_fn(params, inputs, *, pattern=None, **kwargs):
        if pattern is None:
            return inputs
        axes, rows, _ = axes_of(inputs.ndim)
        shape = tuple(inputs.shape[axis] for axis in axes)
        graph = as_matrices(pattern, shape, inputs.shape[rows]).astype(inputs.dtype)
        names, ends = list(range(inputs.ndim)), [inputs.ndim + i for i in range(len(axes))]
        out = list(names)
        for axis, end in zip(axes, ends, strict=True):
            out[axis] = end
        return jnp.einsum(inputs, names, graph, [rows, *axes, *ends], out)

    @requires(batch_axis=batch_axis, channel_axis=channel_axis, diagonal_spatial=Diagonal(Bool.NO, Bool.NO))
    def kernel_fn(k, *, pattern=(None, None), **kwargs):
        one, other = pattern
        if one is None and other is None:
            return k
        if one is None or other is None:
            raise NotImplementedError("stax.Aggregate needs pattern for both sets of inputs, or for neither.")
        axes, rows, channel = axes_of(len(k.shape1))
        positions = [axis for axis in range(len(k.shape1)) if axis not in (rows, channel)]
        places = [positions.index(axis) for axis in axes]
        graphs = [
            as_matrices(p, tuple(shape[axis] for axis in axes), shape[rows])
            for p, shape in ((one, k.shape1), (other, k.shape2))
        ]

        def step(x, batch, left, right):
            if x is None:
                return None
            names = list(range(x.ndim))
            out = list(names)
            operands: list[Any] = [x, names]
            for side, graph in enumerate((left, right)):
                into = [batch + 2 * place + side for place in places]
                ends = [x.ndim + 2 * place + side for place in places]
                for before, after in zip(into, ends, strict=True):
                    out[before] = after
                operands += [graph.astype(x.dtype), [0 if batch == 1 else side, *into, *ends]]
            return jnp.einsum(*operands, out)

        own = k.batch_ndim
        return k.replace(
            cov1=step(k.cov1, own, graphs[0], graphs[0]),
            cov2=step(k.cov2, own, graphs[1], graphs[1]),
            nngp=step(k.nngp, 2, graphs[0], graphs[1]),
            ntk=step(k.ntk, 2, graphs[0], graphs[1]),
        )

    return init_fn, apply_fn, kernel_fn
