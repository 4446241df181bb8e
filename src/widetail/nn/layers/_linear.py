"""Layers with random weights: Dense and Conv."""

import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from widetail.checks import as_parameter, check_variance, is_zero
from widetail.files import savable
from widetail.nn._base import Layer, LinearLeaf, draw_weight, scaled_weight
from widetail.nn._covariance import Apart, Covariance, Inputs, resolve
from widetail.nn._signal import Signal
from widetail.nn.layers._windows import (
    Padding,
    centre_mask,
    check_window,
    pad_window,
    per_axis,
    window_positions,
    window_sum,
)

Variance = Any  # a float, or an array of shape () or (features,); inside transformations, what they make of it


@savable("nn.Dense")
class Dense(LinearLeaf):
    r"""A fully connected layer, $W h + b$.

    Weights are $N(0, \sigma_w^2 / \text{fan in})$, biases $N(0, \sigma_b^2)$.

    In the limit $\Sigma = \sigma_w^2 K + \sigma_b^2$ and $\Theta' = \Sigma + \sigma_w^2 \Theta$.

    Args:
        weight_var: variance $\sigma_w^2$ of the weights times the fan-in. In the first layer it may be a
            vector with one variance per input feature (automatic relevance determination).
        bias_var: variance $\sigma_b^2$ of the biases; 0 for none.
    """

    weight_var: Variance = eqx.field(default=1.0, converter=as_parameter)
    bias_var: Variance = eqx.field(default=0.0, converter=as_parameter)
    is_elementwise = True

    def __init__(self, *positional: Any, weight_var: Variance = 1.0, bias_var: Variance = 0.0):
        refuse_positional("nn.Dense", "nn.Dense(weight_var=2.0, bias_var=0.1)", positional)
        self.weight_var = weight_var
        self.bias_var = bias_var

    def __check_init__(self):
        check_variance("weight_var", self.weight_var, positive=True, may_be_vector=True)
        check_variance("bias_var", self.bias_var)

    def _is_ard(self) -> bool:
        return jnp.ndim(self.weight_var) == 1

    def input_weights(self) -> Any:
        return self.weight_var if self._is_ard() else None

    def needs_distances(self, wanted: bool) -> bool:
        return wanted

    def signal(self, signal: Signal) -> Signal:
        if signal.space:
            raise ValueError(
                f"nn.Dense expects vectors, but it receives {signal.kind} with positions {signal.space}; "
                f"put nn.Flatten() before it, or use nn.Conv"
            )
        if self._is_ard():
            count = jnp.shape(self.weight_var)[0]
            if not signal.is_input:
                shared = " together with other layers" if signal.multiple == 0 else ""
                raise ValueError(
                    f"nn.Dense with one weight_var per feature must be the first layer and receive the inputs alone; "
                    f"here it receives {signal.source}{shared}"
                )
            if signal.features != count:
                raise ValueError(f"weight_var has {count} entries, but the inputs have {signal.features} features")
        return signal.weighted()

    def limit(self, k: Covariance) -> Covariance:
        # with one variance per feature, the inputs are scaled by them where the network begins
        weight_var = 1.0 if self._is_ard() else self.weight_var
        return affine(k, weight_var, self.bias_var)

    def init(self, key, signal, parametrisation):
        features, width = signal.sizes
        return draw_affine(key, (features,), self, width, parametrisation)

    def apply(self, parameters, x, parametrisation, key):
        weight = scaled_weight(parameters["weight"], self.weight_var, x.shape[-1], parametrisation)
        return add_bias(x @ weight.astype(x.dtype), parameters, self, parametrisation)


class WindowLayer(Layer):
    """What layers with a window of weights have in common: their arguments."""

    window: int | tuple[int, ...] = eqx.field(static=True)
    weight_var: Variance = eqx.field(default=1.0, converter=as_parameter)
    bias_var: Variance = eqx.field(default=0.0, converter=as_parameter)
    strides: int | tuple[int, ...] = eqx.field(static=True, default=1)
    padding: Padding = eqx.field(static=True, default="SAME")

    def __init__(
        self,
        window: int | tuple[int, ...],
        *positional: Any,
        weight_var: Variance = 1.0,
        bias_var: Variance = 0.0,
        strides: int | tuple[int, ...] = 1,
        padding: Padding = "SAME",
    ):
        refuse_positional(self.name, f"{self.name}(3, weight_var=2.0, bias_var=0.1)", positional)
        self.window = window
        self.weight_var = weight_var
        self.bias_var = bias_var
        self.strides = strides
        self.padding = padding

    def __check_init__(self):
        check_window(self.name, self.window, self.strides, self.padding)
        check_variance("weight_var", self.weight_var, positive=True)
        check_variance("bias_var", self.bias_var)

    def mask_after(self, mask):
        return centre_mask(mask, self.window, self.strides, self.padding)

    @property
    def name(self) -> str:
        """As messages call the layer."""
        return f"nn.{type(self).__name__}"


@savable("nn.Conv")
class Conv(WindowLayer):
    r"""A convolution over sequences or images, channels last.

    In the limit the covariances of a window are averaged: with window offsets $o$,
    $\Sigma_{pq} = \sigma_w^2 \, \mathrm{mean}_o K_{p+o,\,q+o} + \sigma_b^2$.

    Args:
        window: extent of the filter: an integer for every axis, or one per axis.
        weight_var: variance of the weights times the fan-in (window size times channels).
        bias_var: variance of the biases; 0 for none.
        strides: steps of the window: an integer, or one per axis.
        padding: "SAME" (zeros around), "VALID", "CIRCULAR", or zeros before and after along each axis,
            ((1, 1), (1, 1)).
    """

    def signal(self, signal: Signal) -> Signal:
        return signal.weighted(window_positions(self.name, signal, self.window, self.strides, self.padding))

    def needs_distances(self, wanted: bool) -> bool:
        return wanted

    def _propagate_fn(self):
        # Two compiled functions: fused into one, every read of the sum would ask whether it is in the padding.
        padded = functools.partial(pad, self.window, self.strides, self.padding)
        average = functools.partial(window_average, self.window, self.strides, self.weight_var, self.bias_var)
        return lambda k: average(padded(k))

    def propagate_rows_fn(self, all_pairs):
        propagate = self._propagate_fn()
        return lambda k: (propagate(k), None)

    def propagate_cross_fn(self, all_pairs):
        propagate = self._propagate_fn()
        return lambda k, statistics1, statistics2: propagate(k)

    def init(self, key, signal, parametrisation):
        features, width = signal.sizes
        windows = per_axis(self.window, len(signal.space))
        return draw_affine(key, (*windows, features), self, width, parametrisation)

    def apply(self, parameters, x, parametrisation, key):
        rank = x.ndim - 2
        windows, strides = per_axis(self.window, rank), per_axis(self.strides, rank)
        weight = scaled_weight(parameters["weight"], self.weight_var, math.prod(windows) * x.shape[-1], parametrisation)
        if self.padding == "CIRCULAR":
            for axis in range(rank):
                x = pad_window(x, (axis + 1,), windows[axis], strides[axis], "CIRCULAR")
        around = "VALID" if self.padding == "CIRCULAR" else self.padding
        letters = "HWD"[:rank]
        y = jax.lax.conv_general_dilated(
            x,
            weight.astype(x.dtype),
            strides,
            around,
            dimension_numbers=(f"N{letters}C", f"{letters}IO", f"N{letters}C"),
        )
        return add_bias(y, parameters, self, parametrisation)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def pad(window, strides, padding, k: Covariance | Inputs) -> Covariance:
    """The covariance with the zeros or repeated positions around it that a window needs."""
    k = resolve(k)
    if k.all_pairs and padding not in (
        "VALID",
        "CIRCULAR",
    ):  # an input's distance to the zeros beyond an edge is not zero
        k = k.with_values(k.nngp, k.ntk)
    both = zip(k.space_axes(), per_axis(window, k.rank), per_axis(strides, k.rank), strict=True)
    for place, (axes, size, stride) in enumerate(both):
        add = functools.partial(pad_window, axes=axes, window=size, stride=stride, padding=padding, place=place)
        k = k.map_all(add)
    return k


@functools.partial(jax.jit, static_argnums=(0, 1))
def window_average(window, strides, weight_var, bias_var, k: Covariance) -> Covariance:
    """The mean over a window that moves both positions together, and the affine map of random weights."""
    windows = per_axis(window, k.rank)
    for axes, size, stride in zip(k.space_axes(), windows, per_axis(strides, k.rank), strict=True):
        k = k.map_all(lambda v, axes=axes, size=size, stride=stride: window_sum(v, axes, size, stride))
    return affine(k, jnp.asarray(weight_var, k.nngp.dtype) / math.prod(windows), bias_var)


def refuse_positional(owner: str, example: str, positional: tuple[Any, ...]) -> None:
    """The habit of other libraries, a number of features first, must not end as a variance."""
    if positional:
        raise ValueError(
            f"{owner} takes variances by keyword, {example}; got {', '.join(map(repr, positional))} without a name. "
            f"There is no width in a description: it is infinite, or given to net.at_width(512)."
        )


def affine(k: Covariance, weight_var: Any, bias_var: Any) -> Covariance:
    """Covariance and tangent kernel after random weights and biases."""
    dtype = k.nngp.dtype
    weight_var, bias_var = jnp.asarray(weight_var, dtype), jnp.asarray(bias_var, dtype)
    nngp = weight_var * k.nngp + bias_var
    apart = None
    if k.apart is not None:  # a bias moves both inputs by the same
        minus, plus, difference = (weight_var * v for v in k.apart)
        apart = Apart(minus, plus + 4 * bias_var, difference)
    return k.with_values(nngp, None if k.ntk is None else weight_var * k.ntk + nngp, apart)


def draw_affine(key, into: tuple[int, ...], layer: Any, width: int, parametrisation) -> dict[str, Array]:
    """Weights of shape (*into, width), and biases unless their variance is zero."""
    weight_key, bias_key = jax.random.split(key)
    parameters = {"weight": draw_weight(weight_key, (*into, width), layer.weight_var, math.prod(into), parametrisation)}
    if not is_zero(layer.bias_var):
        parameters["bias"] = draw_weight(bias_key, (width,), layer.bias_var, 1, parametrisation)
    return parameters


def add_bias(y, parameters: dict[str, Array], layer: Any, parametrisation):
    """The output with its biases, where the layer has some."""
    if "bias" not in parameters:
        return y
    return y + scaled_weight(parameters["bias"], layer.bias_var, 1, parametrisation).astype(y.dtype)
