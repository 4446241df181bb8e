"""Layers with random weights: Dense and the convolutions."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from widetail import nn
from widetail.compat.neural_tangents._arrays import Number
from widetail.compat.neural_tangents._requirements import Bool, Diagonal, layer, requires, supports_masking
from widetail.compat.neural_tangents._through import linear_map, mask_through
from widetail.compat.neural_tangents._windows import Padding, default_dimension_numbers, fold, wrap


def _parameterization(word: str) -> str:
    word = word.lower()
    if word not in ("ntk", "standard"):
        raise ValueError(f"parameterization must be 'ntk' or 'standard'; got {word!r}.")
    return word


@layer
@supports_masking(remask_kernel=False)
def Identity() -> Any:  # noqa: N802
    """The input as it is."""

    def init_fn(rng, input_shape):
        return input_shape, ()

    def apply_fn(params, inputs, **kwargs):
        return inputs

    return init_fn, apply_fn, lambda k, **kwargs: k


def affine(k: Any, linear: Any, ones: Any, W_std: Number, b_std: Number, fan_in: Number) -> Any:
    """Random weights on top of a linear map of covariances.

    Args:
        k: the kernel.
        linear: the map, `linear(array, axes of data points)`.
        ones: where a bias is felt, `ones(array after the map, axes of data points)`.
        W_std, b_std: standard deviations.
        fan_in: of the standard parameterization, in which gradients of weights are that much larger; None for "ntk".
    """
    bias = 0.0 if b_std is None else b_std**2

    def step(x, batch):
        mapped = W_std**2 * linear(x, batch)
        return mapped if b_std is None else mapped + bias * ones(mapped, batch)

    own = k.batch_ndim
    cov1 = step(k.cov1, own)
    cov2 = None if k.cov2 is None else step(k.cov2, own)
    mapped = linear(k.nngp, 2)
    felt = None if b_std is None else ones(mapped, 2)
    nngp = W_std**2 * mapped if felt is None else W_std**2 * mapped + bias * felt
    ntk = None
    if k.ntk is not None:
        ntk = W_std**2 * linear(k.ntk, 2)
        gradients = nngp if fan_in is None else fan_in * mapped + (0.0 if felt is None else felt)
        ntk = ntk + gradients
    return k.replace(cov1=cov1, cov2=cov2, nngp=nngp, ntk=ntk, is_gaussian=True, is_input=False)


@layer
@supports_masking(remask_kernel=True)
def Dense(  # noqa: N802
    out_dim: int,
    W_std: Number = 1.0,
    b_std: Number = None,
    batch_axis: int = 0,
    channel_axis: int = -1,
    parameterization: str = "ntk",
    s: tuple[int, int] = (1, 1),
) -> Any:
    """A fully connected layer of features, the same at every position."""
    kind = _parameterization(parameterization)
    width = out_dim if kind == "ntk" else out_dim * s[1]

    def init_fn(rng, input_shape):
        axis = channel_axis % len(input_shape)
        fan_in = input_shape[axis]
        key_w, key_b = jax.random.split(rng)
        weight = jax.random.normal(key_w, (fan_in, width))
        bias = None
        if b_std is not None:
            shape = [1] * len(input_shape)
            shape[axis] = width
            bias = jax.random.normal(key_b, shape)
        if kind == "standard":
            weight = weight * (W_std / (fan_in / s[0]) ** 0.5)
            bias = None if bias is None or b_std is None else b_std * bias
        return (*input_shape[:axis], width, *input_shape[axis + 1 :]), (weight, bias)

    def apply_fn(params, inputs, **kwargs):
        weight, bias = params
        y = jnp.moveaxis(jnp.tensordot(weight, inputs, (0, channel_axis)), 0, channel_axis)
        y = y * (W_std / inputs.shape[channel_axis] ** 0.5) if kind == "ntk" else y / s[0] ** 0.5
        if bias is None:
            return y
        return y + (bias if b_std is None or kind == "standard" else b_std * bias)

    @requires(batch_axis=batch_axis, channel_axis=channel_axis, diagonal_spatial=Diagonal())
    def kernel_fn(k, **kwargs):
        fan_in = None if kind == "ntk" else k.shape1[channel_axis] / s[0]
        return affine(k, lambda x, batch: x, lambda x, batch: jnp.ones_like(x), W_std, b_std, fan_in)

    def mask_fn(mask, input_shape):
        return jnp.all(mask, axis=channel_axis, keepdims=True)

    return init_fn, apply_fn, kernel_fn, mask_fn


@layer
@supports_masking(remask_kernel=True)
def Conv(  # noqa: N802
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = Padding.VALID.name,
    W_std: Number = 1.0,
    b_std: Number = None,
    dimension_numbers: tuple[str, str, str] | None = None,
    parameterization: str = "ntk",
    s: tuple[int, int] = (1, 1),
) -> Any:
    """A convolution with any number of axes of positions."""
    return _convolution(
        out_chan, filter_shape, strides, padding, W_std, b_std, dimension_numbers, parameterization, s, "shared"
    )


@layer
@supports_masking(remask_kernel=True)
def ConvTranspose(  # noqa: N802
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = Padding.VALID.name,
    W_std: Number = 1.0,
    b_std: Number = None,
    dimension_numbers: tuple[str, str, str] | None = None,
    parameterization: str = "ntk",
    s: tuple[int, int] = (1, 1),
) -> Any:
    """A transposed convolution, which spreads positions out."""
    return _convolution(
        out_chan, filter_shape, strides, padding, W_std, b_std, dimension_numbers, parameterization, s, "transposed"
    )


@layer
@supports_masking(remask_kernel=True)
def ConvLocal(  # noqa: N802
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = Padding.VALID.name,
    W_std: Number = 1.0,
    b_std: Number = None,
    dimension_numbers: tuple[str, str, str] | None = None,
    parameterization: str = "ntk",
    s: tuple[int, int] = (1, 1),
) -> Any:
    """A convolution with weights of its own at every position."""
    return _convolution(
        out_chan, filter_shape, strides, padding, W_std, b_std, dimension_numbers, parameterization, s, "local"
    )


def _convolution(
    out_chan, filter_shape, strides, padding, W_std, b_std, dimension_numbers, parameterization, s, how
) -> Any:
    kind = _parameterization(parameterization)
    filters = tuple(int(size) for size in filter_shape)
    steps = (1,) * len(filters) if not strides else tuple(int(step) for step in strides)
    beyond = Padding(padding)
    circular = beyond == Padding.CIRCULAR
    numbers = default_dimension_numbers(len(filters)) if dimension_numbers is None else dimension_numbers
    spec_in, spec_w, spec_out = numbers
    width = out_chan if kind == "ntk" else out_chan * s[1]
    letters = [c for c in spec_w if c not in "IO"]

    def fan_in_of(shape):
        return shape[spec_in.index("C")] * math.prod(filters)

    def run(x, weight, pad):
        if how == "transposed":
            return jax.lax.conv_transpose(x, weight, steps, pad, dimension_numbers=numbers)
        if how == "local":
            return jax.lax.conv_general_dilated_local(x, weight, steps, pad, filters, dimension_numbers=numbers)
        return jax.lax.conv_general_dilated(x, weight, steps, pad, dimension_numbers=numbers)

    def plain_shapes(input_shape):
        """The shape of the weights of an ordinary convolution, and of its output."""
        if len(input_shape) != len(spec_in):
            raise ValueError(
                f"a convolution with filter_shape={filters} takes inputs with axes {spec_in}; got shape "
                f"{tuple(input_shape)}."
            )
        sizes = iter(filters)
        shape = [width if c == "O" else input_shape[spec_in.index("C")] if c == "I" else next(sizes) for c in spec_w]
        pad = "SAME" if circular else beyond.name

        def ordinary(x, w):
            if how == "transposed":
                return jax.lax.conv_transpose(x, w, steps, pad, dimension_numbers=numbers)
            return jax.lax.conv_general_dilated(x, w, steps, pad, dimension_numbers=numbers)

        # the number of data points may be unknown, -1
        x = jax.ShapeDtypeStruct(tuple(max(size, 1) for size in input_shape), jnp.float32)
        found = jax.eval_shape(ordinary, x, jax.ShapeDtypeStruct(tuple(shape), jnp.float32)).shape
        rows = input_shape[spec_in.index("N")]
        return tuple(shape), tuple(rows if c == "N" else size for c, size in zip(spec_out, found, strict=True))

    def init_fn(rng, input_shape):
        shape, output_shape = plain_shapes(input_shape)
        bias_shape = tuple(width if c == "C" else 1 for c in spec_out)
        if how == "local":
            into = math.prod(shape) // width
            shape = tuple(width if c == "O" else into if c == "I" else output_shape[spec_out.index(c)] for c in spec_w)
            bias_shape = tuple(1 if c == "N" else output_shape[i] for i, c in enumerate(spec_out))
        key_w, key_b = jax.random.split(rng)
        weight = jax.random.normal(key_w, shape)
        bias = None if b_std is None else jax.random.normal(key_b, bias_shape)
        if kind == "standard":
            weight = weight * (W_std / (fan_in_of(input_shape) / s[0]) ** 0.5)
            bias = None if bias is None or b_std is None else b_std * bias
        return output_shape, (weight, bias)

    def apply_fn(params, inputs, **kwargs):
        weight, bias = params
        norm = W_std / fan_in_of(inputs.shape) ** 0.5 if kind == "ntk" else 1.0 / s[0] ** 0.5
        if circular and how != "transposed":
            inputs = wrap(inputs, filters, steps, [spec_in.index(c) for c in letters])
        y = norm * run(inputs, weight, "VALID" if circular else beyond.name)
        if circular and how == "transposed":
            _, shape = plain_shapes(inputs.shape)
            axes = [spec_out.index(c) for c in letters]
            y = fold(y, axes, [shape[axis] for axis in axes])
        if bias is None:
            return y
        return y + (bias if b_std is None or kind == "standard" else b_std * bias)

    @requires(
        batch_axis=spec_in.index("N"),
        channel_axis=spec_in.index("C"),
        diagonal_spatial=Diagonal(output=Bool.MAYBE if how == "local" else Bool.NO),
    )
    def kernel_fn(k, **kwargs):
        inside = [c for c in spec_in if c not in "NC"]
        window = tuple(filters[letters.index(c)] for c in inside)
        step = tuple(steps[letters.index(c)] for c in inside)
        make = {"transposed": nn.ConvTranspose, "local": nn.LocalConv, "shared": nn.Conv}[how]
        pad = "VALID" if circular and how == "transposed" else beyond.name
        made = make(window, strides=step, padding=pad) if window else nn.Identity()
        _, shape = plain_shapes(k.shape1)
        sizes = [shape[spec_out.index(c)] for c in inside]

        def linear(x, batch):
            y = linear_map(made, x, batch, k.diagonal_spatial)
            if circular and how == "transposed":
                count = 1 if k.diagonal_spatial else 2
                y = fold(y, range(batch, y.ndim), [size for size in sizes for _ in range(count)])
            return y

        def ones(y, batch):
            if how != "local" or k.diagonal_spatial:
                return jnp.ones_like(y)
            same = jnp.ones((), y.dtype)
            for place in range(batch, y.ndim, 2):
                eye = jnp.eye(y.shape[place], dtype=y.dtype)
                same = same * eye.reshape((1,) * (place) + eye.shape + (1,) * (y.ndim - place - 2))
            return same

        fan_in = None if kind == "ntk" else fan_in_of(k.shape1) / s[0]
        out = affine(k, linear, ones, W_std, b_std, fan_in)
        outside = [c for c in spec_out if c not in "NC"]
        return out.transpose([inside.index(c) for c in outside]).replace(
            batch_axis=spec_out.index("N"), channel_axis=spec_out.index("C")
        )

    def mask_fn(mask, input_shape):
        rows, channel = spec_in.index("N"), spec_in.index("C")
        mask = jnp.all(mask, axis=channel, keepdims=True)
        inside = [c for c in spec_in if c not in "NC"]
        if inside:
            window = tuple(filters[letters.index(c)] for c in inside)
            step = tuple(steps[letters.index(c)] for c in inside)
            make = nn.ConvTranspose if how == "transposed" else nn.Conv
            made = make(window, strides=step, padding="SAME" if circular else beyond.name)
            mask = mask_through(made, mask, input_shape, rows, channel)
        order = [spec_in.index(c) for c in spec_out]
        return jnp.transpose(mask, order)

    return init_fn, apply_fn, kernel_fn, mask_fn
