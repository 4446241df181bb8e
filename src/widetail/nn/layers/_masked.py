"""Sequences and images of unequal size as ordinary inputs: positions that are not there."""

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from widetail.files import savable
from widetail.nn._base import Layer
from widetail.nn._covariance import Covariance, Inputs
from widetail.nn._signal import Signal
from widetail.nn.layers._composition import Parallel, Residual, Sequential, check_layers, enter, join, split_optional


@savable("nn.Masked", positional="layers")
class Masked(Layer):
    r"""Layers on sequences, images or volumes of unequal size, the first thing in a network.

    The last feature of an input is a flag, above 0 where the input has something and 0 where it was filled up;
    `nn.stack_unequal` makes such an array. The layers see the other features. After every layer the features of
    positions that are not there are 0:

    - a window (`Conv`, `AvgPool`, ...) gives a position if its centre is there; what is not counts as 0, as it does
      beyond an edge;
    - `SelfAttention` attends to positions that are there, `GlobalAvgPool` and `LayerNorm(over=...)` average over them;
    - `Flatten` puts all positions side by side, those that are not there as 0.

    Args:
        *layers: the network's layers.

    Example:
        >>> import numpy as np
        >>> from widetail import nn
        >>> x = nn.stack_unequal([np.ones((2, 3)), np.ones((5, 3))])
        >>> x.shape
        (2, 5, 4)
        >>> net = nn.Masked(nn.Conv(3), nn.Relu(), nn.GlobalAvgPool())
        >>> net.kernel(x).nngp.shape
        (2, 2)
    """

    layers: tuple[Layer, ...]

    def __init__(self, *layers: Layer):
        check_layers("nn.Masked", layers)
        self.layers = layers

    @property
    def masked(self) -> bool:
        return True

    @property
    def _body(self) -> Sequential:
        return Sequential(*self.layers)

    @staticmethod
    def _inside(signal: Signal) -> Signal:
        """The data without the flag."""
        if not signal.is_input or not signal.space:
            raise ValueError(
                "nn.Masked must be the first layer and receive sequences, images or volumes, whose last feature says "
                "which positions are there"
            )
        if signal.features is None or signal.features < 2:
            raise ValueError(
                "nn.Masked expects a last feature that says which positions are there, and others before it; the "
                "inputs have one feature. nn.stack_unequal adds the flag"
            )
        return dataclasses.replace(signal, features=signal.features - 1)

    def signal(self, signal: Signal) -> Signal:
        return self._body.signal(self._inside(signal))

    def needs_all_pairs(self, wanted: bool) -> bool:
        return self._body.needs_all_pairs(wanted)

    def propagate_rows_fn(self, all_pairs):
        return lambda k: _rows(self._body, all_pairs, *_start(k))[:2]

    def propagate_cross_fn(self, all_pairs):
        return lambda k, numbers1, numbers2: _cross(self._body, all_pairs, _start(k)[0], numbers1, numbers2)

    def init(self, key, signal, parametrisation):
        return self._body.init(key, self._inside(signal), parametrisation)

    def apply(self, parameters, x, parametrisation, key):
        mask = (x[..., -1] > 0).astype(x.dtype)
        return _apply(self._body, parameters, _hide(x[..., :-1], mask), mask, parametrisation, key)[0]


def stack_unequal(arrays: Iterable[Any]) -> np.ndarray:
    """Sequences, images or volumes of unequal size as one array, for `nn.Masked`.

    Smaller ones are filled up with zeros at the end of each axis, and a flag is added as the last feature: 1 where
    something is, 0 where it was filled up.

    Args:
        arrays: of shapes (*positions, features), with as many axes and features each.

    Returns:
        An array (n, *largest positions, features + 1).

    Example:
        >>> import numpy as np
        >>> from widetail import nn
        >>> nn.stack_unequal([np.full((1, 2), 5.0), np.full((2, 2), 7.0)])[0]
        array([[5., 5., 1.],
               [0., 0., 0.]])
    """
    found = [np.asarray(array) for array in arrays]
    if not found:
        raise ValueError("arrays must hold at least one array of shape (*positions, features); it is empty.")
    for row, array in enumerate(found):
        if array.ndim < 2 or 0 in array.shape or array.dtype.kind not in "fiub":
            raise ValueError(
                f"arrays[{row}] must be numbers of shape (*positions, features), not empty; got {array.dtype} of "
                f"shape {array.shape}."
            )
        if (array.ndim, array.shape[-1]) != (found[0].ndim, found[0].shape[-1]):
            raise ValueError(
                f"arrays must agree in their features and in the number of axes: arrays[0] has shape "
                f"{found[0].shape}, arrays[{row}] has shape {array.shape}."
            )
    dtype = np.result_type(*found)
    dtype = dtype if dtype in (np.float32, np.float64) else np.dtype(float)
    space = np.max([array.shape[:-1] for array in found], axis=0)
    stacked = np.zeros((len(found), *space, found[0].shape[-1] + 1), dtype)
    for row, array in zip(stacked, found, strict=True):
        place = row[tuple(slice(size) for size in array.shape[:-1])]
        place[..., :-1], place[..., -1] = array, 1
    return stacked


@jax.jit
def _start(k: Inputs) -> tuple[Inputs, Float[Array, "..."]]:
    """The inputs without their flags, and the first side's mask, (*space, n)."""

    def part(x):
        mask = (x[..., -1] > 0).astype(x.dtype)
        return _hide(x[..., :-1], mask), jnp.moveaxis(mask, 0, -1)

    x1, mask = part(k.x1)
    return dataclasses.replace(k, x1=x1, x2=None if k.x2 is None else part(k.x2)[0]), mask


def _hide(x: Float[Array, "..."], mask: Float[Array, "..."]) -> Float[Array, "..."]:
    """Zeros where the mask is 0, whatever stands there."""
    return jnp.where(mask[..., None] > 0, x, 0)


@functools.partial(jax.jit, static_argnums=(0,))
def _factor(structure: Any, leaves: Any, mask: Any, found: Any) -> tuple[Any, Any]:
    layer = jax.tree.unflatten(structure, leaves)
    return layer.mask_after(mask), layer.masked_factor(mask, found)


@jax.jit
def _scale(k: Covariance, factor1: Any, factor2: Any) -> Covariance:
    first, second = k.align(factor1, factor2)
    return k.map(lambda v: v * (first * second))


def _forms(layers: tuple[Layer, ...], all_pairs: bool) -> list[bool]:
    """The form of the positions that is wanted after each of the layers."""
    wanted = [all_pairs]
    for layer in reversed(layers[1:]):
        wanted.insert(0, layer.needs_all_pairs(wanted[0]))
    return wanted


def _rows(layer: Layer, all_pairs: bool, k: Any, mask: Any) -> tuple[Any, Any, Any]:
    """Each input with itself: the covariance, per-row numbers, and the mask after the layer (None: no positions)."""
    if isinstance(layer, Residual):
        layer = layer.branches
    if isinstance(layer, Sequential):
        numbers = []
        for part, form in zip(layer.layers, _forms(layer.layers, all_pairs), strict=True):
            k, found, mask = _rows(part, form, k, mask)
            numbers.append(found)
        return k, tuple(numbers), mask
    if isinstance(layer, Parallel):
        ends = [_rows(part, all_pairs, enter(k, part.needs_all_pairs(all_pairs)), mask) for part in layer.layers]
        joined = join([end for end, _, _ in ends], layer.combine)
        return joined, tuple(found for _, found, _ in ends), _of_any([after for _, _, after in ends])
    k, found = layer.propagate_rows_fn(all_pairs)(k)
    if mask is None:
        return k, (found, None), None
    leaves, structure = jax.tree.flatten(layer)
    mask, factor = _factor(structure, leaves, mask, found)
    return (k if factor is None else _scale(k, factor, factor)), (found, factor), mask


def _cross(layer: Layer, all_pairs: bool, k: Any, numbers1: Any, numbers2: Any) -> Any:
    """Every pair of inputs, with the numbers of both sides."""
    if isinstance(layer, Residual):
        layer = layer.branches
    if isinstance(layer, Sequential):
        forms = _forms(layer.layers, all_pairs)
        for part, form, first, second in zip(layer.layers, forms, numbers1, numbers2, strict=True):
            k = _cross(part, form, k, first, second)
        return k
    if isinstance(layer, Parallel):
        ends = [
            _cross(part, all_pairs, enter(k, part.needs_all_pairs(all_pairs)), first, second)
            for part, first, second in zip(layer.layers, numbers1, numbers2, strict=True)
        ]
        return join(ends, layer.combine)
    (found1, factor1), (found2, factor2) = numbers1, numbers2
    k = layer.propagate_cross_fn(all_pairs)(k, found1, found2)
    return k if factor1 is None else _scale(k, factor1, factor2)


def _apply(layer: Layer, parameters: Any, x: Any, mask: Any, parametrisation: Any, key: Any) -> tuple[Any, Any]:
    """The finite layer, and the mask (n, *space) after it."""
    if isinstance(layer, Residual):
        layer = layer.branches
    if isinstance(layer, (Sequential, Parallel)):
        ends = []
        for part, own, part_key in zip(layer.layers, parameters, split_optional(key, len(layer.layers)), strict=True):
            ends.append(_apply(part, own, x, mask, parametrisation, part_key))
            if isinstance(layer, Sequential):
                x, mask = ends[-1]
        if isinstance(layer, Sequential):
            return x, mask
        return layer.join_finite([end for end, _ in ends]), _of_any([after for _, after in ends])
    if mask is None:
        return layer.apply(parameters, x, parametrisation, key), None
    y = layer.apply_masked(parameters, x, mask, parametrisation, key)
    after = layer.mask_after(jnp.moveaxis(mask, 0, -1))
    if after is None:
        return y, None
    after = jnp.moveaxis(after, -1, 0)
    return _hide(y, after), after


def _of_any(masks: list[Any]) -> Any:
    """There where a branch has something; branches agree in their positions, so all have a mask or none has."""
    return functools.reduce(jnp.maximum, masks) if masks[0] is not None else None
