"""Pooling, flattening, normalisation and dropout."""

import math
import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail import nn
from widetail.compat.neural_tangents._arrays import Axes, Number, canonical_axes, masked_mean, pairs
from widetail.compat.neural_tangents._kernel import mask_pairs
from widetail.compat.neural_tangents._requirements import (
    Bool,
    Diagonal,
    layer,
    own_variances,
    requires,
    supports_masking,
)
from widetail.compat.neural_tangents._through import linear_map, mask_through
from widetail.compat.neural_tangents._windows import Padding, wrap


@layer
@supports_masking(remask_kernel=True)
def AvgPool(  # noqa: N802
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = Padding.VALID.name,
    normalize_edges: bool = False,
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> Any:
    """The mean over a window; with `normalize_edges`, over what of it is inside."""
    return _pool(True, window_shape, strides, padding, normalize_edges, batch_axis, channel_axis)


@layer
@supports_masking(remask_kernel=True)
def SumPool(  # noqa: N802
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = Padding.VALID.name,
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> Any:
    """The sum over a window."""
    return _pool(False, window_shape, strides, padding, False, batch_axis, channel_axis)


def _pool(is_mean, window_shape, strides, padding, normalize_edges, batch_axis, channel_axis) -> Any:
    window = tuple(int(size) for size in window_shape)
    steps = (1,) * len(window) if not strides else tuple(int(step) for step in strides)
    beyond = Padding(padding)
    by_count = is_mean and normalize_edges and beyond == Padding.SAME

    def over(x, axes):
        """Sums over windows along some axes."""
        if beyond == Padding.CIRCULAR:
            x = wrap(x, window, steps, axes)
        extents, strides_ = [1] * x.ndim, [1] * x.ndim
        for axis, extent, step in zip(axes, window, steps, strict=True):
            extents[axis], strides_[axis] = extent, step
        pad = "SAME" if beyond == Padding.SAME else "VALID"
        # a constant zero: of a traced one JAX would not know that this is a sum, which has a derivative
        return jax.lax.reduce_window(x, np.zeros((), x.dtype), jax.lax.add, extents, strides_, pad)

    def space_axes(ndim):
        return [axis for axis in range(ndim) if axis not in (batch_axis % ndim, channel_axis % ndim)]

    def finite(x):
        axes = space_axes(x.ndim)
        total = over(x, axes)
        if not is_mean:
            return total
        return total / over(jnp.ones_like(x), axes) if by_count else total / math.prod(window)

    def init_fn(rng, input_shape):
        known = tuple(max(size, 1) for size in input_shape)  # the number of data points may be unknown, -1
        found = jax.eval_shape(finite, jax.ShapeDtypeStruct(known, jnp.float32)).shape
        return tuple(min(new, old) if old < 0 else new for new, old in zip(found, input_shape, strict=True)), ()

    def apply_fn(params, inputs, **kwargs):
        return finite(inputs)

    @requires(batch_axis=batch_axis, channel_axis=channel_axis, diagonal_spatial=Diagonal(input=Bool.MAYBE))
    def kernel_fn(k, **kwargs):
        size = math.prod(window)

        def pool(x, batch):
            if not window:
                return x
            if k.diagonal_spatial:  # different positions have nothing in common: variances add up
                total = size * linear_map(nn.Conv(window, strides=steps, padding=beyond.name), x, batch, True)
            else:
                total = linear_map(nn.SumPool(window, strides=steps, padding=beyond.name), x, batch, False)
            if not is_mean:
                return total
            if not by_count:
                return total / size**2
            first = range(batch, x.ndim) if k.diagonal_spatial else range(batch, x.ndim, 2)
            inside = over(jnp.ones([x.shape[axis] for axis in first], x.dtype), list(range(len(window))))
            inside = inside[None]
            return total / pairs(inside, inside, 1, k.diagonal_spatial, operator.mul).reshape(
                (1,) * batch + total.shape[batch:]
            )

        return k.map(pool)

    def mask_fn(mask, input_shape):
        _one_channel(mask, channel_axis)
        if not window:
            return mask
        made = nn.SumPool(window, strides=steps, padding=beyond.name)
        return mask_through(made, mask, input_shape, batch_axis, channel_axis)

    return init_fn, apply_fn, kernel_fn, mask_fn


def _one_channel(mask, channel_axis):
    if mask.shape[channel_axis] != 1:
        raise NotImplementedError(f"pooling takes masks that are the same for all channels; got shape {mask.shape}.")


@layer
@supports_masking(remask_kernel=False)
def GlobalSumPool(batch_axis: int = 0, channel_axis: int = -1) -> Any:  # noqa: N802
    """The sum over all positions."""
    return _global_pool(False, batch_axis, channel_axis)


@layer
@supports_masking(remask_kernel=False)
def GlobalAvgPool(batch_axis: int = 0, channel_axis: int = -1) -> Any:  # noqa: N802
    """The mean over all positions."""
    return _global_pool(True, batch_axis, channel_axis)


def _global_pool(is_mean, batch_axis, channel_axis) -> Any:
    def kept(ndim):
        return batch_axis % ndim, channel_axis % ndim

    def init_fn(rng, input_shape):
        return tuple(size for axis, size in enumerate(input_shape) if axis in kept(len(input_shape))), ()

    def apply_fn(params, inputs, mask=None, **kwargs):
        axes = tuple(axis for axis in range(inputs.ndim) if axis not in kept(inputs.ndim))
        return masked_mean(inputs, axes, mask) if is_mean else jnp.sum(inputs, axes)

    @requires(
        batch_axis=batch_axis,
        channel_axis=channel_axis,
        diagonal_spatial=Diagonal(input=Bool.MAYBE, output=Bool.YES),
    )
    def kernel_fn(k, **kwargs):
        in_cov1, in_nngp, in_cov2 = mask_pairs(k, k.mask1, k.mask2)
        between = {"cov1": in_cov1, "nngp": in_nngp, "ntk": in_nngp, "cov2": in_cov2}

        def pool(name, batch):
            x = getattr(k, name)
            if x is None:
                return None
            axes = tuple(range(batch, x.ndim))
            if not is_mean:
                return jnp.sum(x, axes)
            mean = masked_mean(x, axes, between[name])
            return mean / math.prod(x.shape[batch:]) if k.diagonal_spatial else mean

        rows, channel = kept(len(k.shape1))
        own = k.batch_ndim
        return k.replace(
            cov1=pool("cov1", own),
            cov2=pool("cov2", own),
            nngp=pool("nngp", 2),
            ntk=pool("ntk", 2),
            batch_axis=0 if rows < channel else 1,
            channel_axis=1 if rows < channel else 0,
        )

    def mask_fn(mask, input_shape):
        _one_channel(mask, channel_axis)
        return jnp.all(mask, tuple(axis for axis in range(mask.ndim) if axis not in kept(mask.ndim)))

    return init_fn, apply_fn, kernel_fn, mask_fn


@layer
@supports_masking(remask_kernel=False)
def Flatten(batch_axis: int = 0, batch_axis_out: int = 0) -> Any:  # noqa: N802
    """All positions and features of a data point in one vector."""
    if batch_axis_out not in (0, 1, -1, -2):
        raise ValueError(f"batch_axis_out must be 0 or 1; got {batch_axis_out}.")
    rows_out = batch_axis_out % 2

    def flat(x):
        x = jnp.moveaxis(x, batch_axis, 0)
        x = x.reshape(x.shape[0], -1)
        return x if rows_out == 0 else x.T

    def init_fn(rng, input_shape):
        rows = batch_axis % len(input_shape)
        size = math.prod(size for axis, size in enumerate(input_shape) if axis != rows)
        return ((input_shape[rows], size) if rows_out == 0 else (size, input_shape[rows])), ()

    def apply_fn(params, inputs, **kwargs):
        return flat(inputs)

    @requires(batch_axis=batch_axis, channel_axis=None, diagonal_spatial=Diagonal(output=Bool.YES))
    def kernel_fn(k, **kwargs):
        def mean(x, batch):
            if k.diagonal_spatial:
                return jnp.mean(x, tuple(range(batch, x.ndim)))
            while x.ndim > batch:
                x = jnp.trace(x, axis1=-2, axis2=-1) / x.shape[-1]
            return x

        return k.map(
            mean,
            is_gaussian=False,
            is_reversed=False,
            batch_axis=rows_out,
            channel_axis=1 - rows_out,
            diagonal_spatial=False,
        )

    def mask_fn(mask, input_shape):
        return flat(jnp.broadcast_to(mask, input_shape))

    return init_fn, apply_fn, kernel_fn, mask_fn


@layer
@supports_masking(remask_kernel=False)
def LayerNorm(  # noqa: N802
    axis: Axes = -1, eps: Number = 1e-12, batch_axis: int = 0, channel_axis: int = -1
) -> Any:
    """Subtract the mean over some axes, those of features included, and divide by the standard deviation."""

    def init_fn(rng, input_shape):
        return input_shape, ()

    def apply_fn(params, inputs, mask=None, **kwargs):
        axes = tuple(canonical_axes(axis, inputs.ndim))
        centred = inputs - masked_mean(inputs, axes, mask, keepdims=True)
        variance = masked_mean(centred**2, axes, mask, keepdims=True)
        return centred / jnp.sqrt(eps + variance)

    @requires(batch_axis=batch_axis, channel_axis=channel_axis)
    def kernel_fn(k, **kwargs):
        if not k.is_gaussian:
            raise NotImplementedError("stax.LayerNorm must follow a layer with random weights.")
        ndim = len(k.shape1)
        axes = canonical_axes(axis, ndim)
        rows, channel = batch_axis % ndim, channel_axis % ndim
        if channel not in axes:
            raise ValueError(f"stax.LayerNorm must include the axis of channels, {channel}; got axis={axis}.")
        positions = [i for i in range(ndim) if i not in (rows, channel)]
        over = tuple([0] if rows in axes else []) + tuple(1 + positions.index(i) for i in axes if i in positions)

        def prepare(mask):
            if mask is None:
                return None
            if mask.shape[channel] != 1:
                raise NotImplementedError("stax.LayerNorm takes masks that are the same for all channels.")
            return jnp.moveaxis(mask, (rows, channel), (0, -1))[..., 0]

        def norms(variance, mask):
            if variance is None:
                return None
            shared = masked_mean(variance, over, prepare(mask), keepdims=True) if over else variance
            return jnp.sqrt(eps + jnp.broadcast_to(shared, variance.shape))

        one, other = own_variances(k)
        first, second = norms(one, k.mask1), norms(other, k.mask2)

        def divide(x, left, right, batch):
            if x is None:
                return None
            return x / pairs(left, right, batch, k.diagonal_spatial, operator.mul)

        own = k.batch_ndim
        return k.replace(
            cov1=divide(k.cov1, first, first, own),
            cov2=divide(k.cov2, second, second, own),
            nngp=divide(k.nngp, first, second, 2),
            ntk=divide(k.ntk, first, second, 2),
        )

    return init_fn, apply_fn, kernel_fn


@layer
@supports_masking(remask_kernel=False)
def Dropout(rate: Number, mode: str = "train") -> Any:  # noqa: N802
    """Keep every feature with probability `rate`, divided by it."""
    if mode not in ("test", "train"):
        raise ValueError(f"mode must be 'train' or 'test'; got {mode!r}.")
    if rate <= 0.0 or rate > 1.0:
        raise ValueError(f"rate, the probability to keep a feature, must be in (0, 1]; got {rate}.")

    def init_fn(rng, input_shape):
        return input_shape, ()

    def apply_fn(params, inputs, **kwargs):
        if mode == "test":
            return inputs
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError("stax.Dropout in training needs a key: apply_fn(params, inputs, rng=key).")
        return jnp.where(jax.random.bernoulli(rng, rate, inputs.shape), inputs / rate, 0)

    if mode == "test":
        return init_fn, apply_fn, lambda k, **kwargs: k

    @requires(use_dropout=True)
    def kernel_fn(k, **kwargs):
        if k.is_input:
            raise ValueError("stax.Dropout must not be the first layer.")

        def scale(x, batch, factor):
            """Multiply the entries of a data point and position with itself."""
            if x is None or (batch == 2 and x.shape[0] != x.shape[1]):
                return x
            at = jnp.ones((), bool)
            twice = [0] if batch == 2 else []
            twice += [] if k.diagonal_spatial else list(range(batch, x.ndim, 2))
            for axis in twice:
                eye = jnp.eye(x.shape[axis], dtype=bool)
                at = at & eye.reshape((1,) * axis + eye.shape + (1,) * (x.ndim - axis - 2))
            return jnp.where(at, x * factor, x)

        between = jnp.where(k.x1_is_x2, 1 / rate, 1.0)
        own = k.batch_ndim
        return k.replace(
            cov1=scale(k.cov1, own, 1 / rate),
            cov2=scale(k.cov2, own, 1 / rate),
            nngp=scale(k.nngp, 2, between),
            ntk=scale(k.ntk, 2, between),
            is_gaussian=False,
        )

    return init_fn, apply_fn, kernel_fn
