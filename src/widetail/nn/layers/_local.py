"""Convolutions whose weights differ from position to position, and convolutions that spread positions out."""

import math

import jax
import jax.numpy as jnp

from widetail.checks import is_zero
from widetail.files import savable
from widetail.nn._base import LinearLeaf, draw_weight, scaled_weight
from widetail.nn._covariance import Covariance, resolve
from widetail.nn._signal import Signal
from widetail.nn.layers._linear import WindowLayer, add_bias, affine, draw_affine, pad, window_average
from widetail.nn.layers._windows import pad_window, per_axis, window_positions, window_sum


@savable("nn.LocalConv")
class LocalConv(WindowLayer):
    r"""A convolution with weights and biases of its own at every position (a locally connected layer).

    In the limit different positions are independent; at equal ones
    $\Sigma_{pp} = \sigma_w^2 \, \mathrm{mean}_o K_{p+o,\,p+o} + \sigma_b^2$ as in `Conv`.

    Args:
        window: extent: an integer for every axis, or one per axis.
        weight_var: variance of the weights times the fan-in.
        bias_var: variance of the biases; 0 for none.
        strides: steps of the window: an integer, or one per axis.
        padding: "SAME" (zeros around), "VALID" or "CIRCULAR".
    """

    def signal(self, signal: Signal) -> Signal:
        return signal.weighted(window_positions(self.name, signal, self.window, self.strides, self.padding))

    def needs_all_pairs(self, wanted: bool) -> bool:
        return False

    def _propagate(self, k, all_pairs: bool) -> Covariance:
        equal = pad(self.window, self.strides, self.padding, resolve(k).equal_positions())
        equal = window_average(self.window, self.strides, self.weight_var, self.bias_var, equal)
        return equal.with_independent_positions() if all_pairs else equal

    def propagate_rows_fn(self, all_pairs):
        return lambda k: (self._propagate(k, all_pairs), None)

    def propagate_cross_fn(self, all_pairs):
        return lambda k, statistics1, statistics2: self._propagate(k, all_pairs)

    def init(self, key, signal, parametrisation):
        features, width = signal.sizes
        space = self.signal(signal).space
        fan_in = math.prod(per_axis(self.window, len(space))) * features
        weight_key, bias_key = jax.random.split(key)
        shape = (math.prod(space), fan_in, width)
        parameters = {"weight": draw_weight(weight_key, shape, self.weight_var, fan_in, parametrisation)}
        if not is_zero(self.bias_var):
            parameters["bias"] = draw_weight(bias_key, (*space, width), self.bias_var, 1, parametrisation)
        return parameters

    def apply(self, parameters, x, parametrisation, key):
        rank = x.ndim - 2
        windows, strides = per_axis(self.window, rank), per_axis(self.strides, rank)
        for axis in range(rank):
            x = pad_window(x, (axis + 1,), windows[axis], strides[axis], self.padding, axis)
        letters = "HWD"[:rank]
        patches = jax.lax.conv_general_dilated_patches(
            x, windows, strides, "VALID", dimension_numbers=(f"N{letters}C", f"{letters}IO", f"N{letters}C")
        )
        fan_in = patches.shape[-1]
        weight = scaled_weight(parameters["weight"], self.weight_var, fan_in, parametrisation).astype(x.dtype)
        y = jnp.einsum("npf,pfw->npw", patches.reshape(len(x), -1, fan_in), weight)
        return add_bias(y.reshape(*patches.shape[:-1], -1), parameters, self, parametrisation)


@savable("nn.ConvTranspose")
class ConvTranspose(WindowLayer, LinearLeaf):
    r"""A transposed convolution: `strides - 1` zeros are put between positions, then a window slides over them.

    Args:
        window: extent: an integer for every axis, or one per axis.
        weight_var: variance of the weights times window size and channels.
        bias_var: variance of the biases; 0 for none.
        strides: by how much positions are spread out: an integer, or one per axis.
        padding: "SAME" (size times strides come out) or "VALID".
    """

    def __check_init__(self):
        super().__check_init__()
        if self.padding not in ("SAME", "VALID"):
            raise ValueError(f"nn.ConvTranspose: padding must be 'SAME' or 'VALID'; got {self.padding!r}.")

    def signal(self, signal: Signal) -> Signal:
        window_positions(self.name, signal, self.window, self.strides, "SAME")  # the checks alone
        rank = len(signal.space)
        sizes = zip(signal.space, per_axis(self.window, rank), per_axis(self.strides, rank), strict=True)
        space = tuple(
            size * stride + (max(window - stride, 0) if self.padding == "VALID" else 0)
            for size, window, stride in sizes
        )
        return signal.weighted(space)

    def mask_after(self, mask):
        rank = mask.ndim - 1
        for axis, (size, stride) in enumerate(
            zip(per_axis(self.window, rank), per_axis(self.strides, rank), strict=True)
        ):
            mask = window_sum(self._spread(mask, (axis,), size, stride), (axis,), size, 1)
        return (mask > 0).astype(mask.dtype)

    def _spread(self, v, axes: tuple[int, ...], window: int, stride: int):
        """Zeros between positions and around them, as `jax.lax.conv_transpose` puts them."""
        total = window + stride - 2 + (max(window - stride, 0) if self.padding == "VALID" else 0)
        before = window - 1 if self.padding == "VALID" or stride > window - 1 else math.ceil(total / 2)
        amounts = [(0, 0, 0)] * v.ndim
        for axis in axes:
            amounts[axis] = (before, total - before, stride - 1)
        return jax.lax.pad(v, jnp.zeros((), v.dtype), amounts)

    def limit(self, k: Covariance) -> Covariance:
        windows = per_axis(self.window, k.rank)
        for axes, size, stride in zip(k.space_axes(), windows, per_axis(self.strides, k.rank), strict=True):
            k = k.map(lambda v, a=axes, s=size, t=stride: window_sum(self._spread(v, a, s, t), a, s, 1))
        return affine(k, jnp.asarray(self.weight_var, k.nngp.dtype) / math.prod(windows), self.bias_var)

    def init(self, key, signal, parametrisation):
        features, width = signal.sizes
        return draw_affine(key, (*per_axis(self.window, len(signal.space)), features), self, width, parametrisation)

    def apply(self, parameters, x, parametrisation, key):
        rank = x.ndim - 2
        windows, letters = per_axis(self.window, rank), "HWD"[:rank]
        weight = scaled_weight(parameters["weight"], self.weight_var, math.prod(windows) * x.shape[-1], parametrisation)
        y = jax.lax.conv_transpose(
            x,
            weight.astype(x.dtype),
            per_axis(self.strides, rank),
            self.padding,
            dimension_numbers=(f"N{letters}C", f"{letters}IO", f"N{letters}C"),
        )
        return add_bias(y, parameters, self, parametrisation)
