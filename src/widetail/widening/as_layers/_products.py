"""Products of layers with random matrices: the next layers."""

import dataclasses
import math
from typing import Any

import numpy as np

from widetail import nn
from widetail.widening._prologue import Narrow
from widetail.widening.as_layers._layers import CHANNELS, ONE, Chain, Node
from widetail.widening.as_layers._shapes import LayerShapes
from widetail.widening.as_program._entries import Par


class LayerProducts(LayerShapes):
    """What becomes of layers that a random matrix is applied to."""

    def _layer_product(self, equation: Any, name: str, arguments: list[Any]) -> Chain:
        lhs, rhs = arguments
        params = equation.params
        if name == "conv_general_dilated":
            if not isinstance(rhs, Par) or params["feature_group_count"] != 1 or params["batch_group_count"] != 1:
                raise self.refuse("this convolution is no layer")
            if any(d != 1 for d in (*params["lhs_dilation"], *params["rhs_dilation"])):
                raise self.refuse("dilation is no layer")
            numbers = params["dimension_numbers"]
            batch, channels, *space = numbers.lhs_spec
            value = self._begun(lhs, (batch, *space), (channels,), always_positions=tuple(space))
            if value.shape[batch] != 1 or value.axes[channels] != CHANNELS:
                raise self.refuse("a convolution over something else than positions")
            if [value.axes[axis] for axis in space] != list(range(len(space))) or value.is_output:
                raise self.refuse("a convolution over rearranged positions")
            out, into, *window_axes = numbers.rhs_spec
            if not self._is_wide_along(rhs, out):
                raise self.refuse("a readout by a convolution")
            window = tuple(rhs.shape[axis] for axis in window_axes)
            elements = np.transpose(rhs.elements, (*window_axes, into, out)).reshape(-1, rhs.shape[out])
            padding = self._padding(
                [
                    (value.shape[axis], extent, step, tuple(pad))
                    for axis, extent, step, pad in zip(
                        space, window, params["window_strides"], params["padding"], strict=True
                    )
                ]
            )
            var, chain = self._weights(Par(rhs.leaf, elements, rhs.factor), value)
            layer = nn.Conv(window, weight_var=var, strides=tuple(params["window_strides"]), padding=padding)
            shape = equation.outvars[0].aval.shape
            axes: list[Any] = [ONE] * len(shape)
            for k, axis in enumerate(numbers.out_spec[2:]):
                axes[axis] = k
            axes[numbers.out_spec[1]] = CHANNELS
            return self._layered(chain, layer, shape, tuple(axes), rhs.leaf)
        (left, right), (left_batch, right_batch) = params["dimension_numbers"]
        par, value, par_axes, axes = (lhs, rhs, left, right) if isinstance(lhs, Par) else (rhs, lhs, right, left)
        if not isinstance(par, Par) or left_batch or right_batch:
            raise self.refuse("a product that is not with a matrix is no layer")
        free = tuple(axis for axis in range(len(value.shape)) if axis not in axes)
        chain = self._begun(value, free, tuple(axes))
        if {chain.axes[axis] for axis in axes if chain.shape[axis] > 1} - {CHANNELS} or chain.is_output:
            raise self.refuse("a product over positions is no layer")
        par_free = [axis for axis in range(len(par.shape)) if axis not in par_axes]
        count = math.prod(par.shape[axis] for axis in par_axes)
        outputs = [par.shape[axis] for axis in par_free]
        if sum(size > 1 for size in outputs) > 1:
            raise self.refuse("a matrix with several free axes is no layer")
        elements = np.transpose(par.elements, (*par_axes, *par_free)).reshape(count, -1)
        wide = any(
            self.leaves[par.leaf].wide[axis]
            for axis in range(len(self.shapes[par.leaf]))
            if axis not in self._summed_axes(Par(par.leaf, elements))
        )
        kept = [chain.axes[axis] for axis in free]
        new_axes = [CHANNELS if size > 1 else ONE for size in outputs]
        order = [*new_axes, *kept] if par is lhs else [*kept, *new_axes]
        shape = equation.outvars[0].aval.shape
        table = Par(par.leaf, elements, par.factor)
        if not wide:
            return self._read_out(table, chain, shape, tuple(order))
        var, chain = self._weights(table, chain)
        rank = len([axis for axis in kept if isinstance(axis, int)])
        layer = nn.Conv((1,) * rank, weight_var=var) if rank else nn.Dense(weight_var=var)
        return self._layered(chain, layer, shape, tuple(order), par.leaf)

    def _begun(self, value: Any, free: tuple[int, ...], summed: tuple[int, ...], always_positions: Any = ()) -> Chain:
        """The input as what the first layer sees; anything else as it is."""
        if isinstance(value, Chain):
            return value
        if not isinstance(value, Narrow):
            raise self.refuse("a product of numbers with a matrix is no layer")
        positions = [axis for axis in free if value.shape[axis] > 1 or axis in always_positions]
        order = (*(axis for axis in free if axis not in positions), *positions, *summed)
        kept = (*(value.shape[axis] for axis in positions), math.prod(value.shape[axis] for axis in summed))
        source = value, order, kept
        if self._source is not None:
            before = self._source
            if (before[0].reference, before[1:]) != (value.reference, source[1:]):
                raise self.refuse("two layers see the input in different forms")
        self._source = source
        axes: list[Any] = [ONE] * len(value.shape)
        for number, axis in enumerate(positions):
            axes[axis] = number
        for axis in summed:
            axes[axis] = CHANNELS
        return Chain((), value.shape, tuple(axes), self.entry_of_layer)

    def _weights(self, table: Par, chain: Chain) -> tuple[float, Chain]:
        """The variance of a layer's weights, and what it is applied to."""
        chain, factor = self._settled_up_to_factor(chain)
        self._once(table.leaf)
        self._set_role(table.leaf, self._summed_axes(table), "input" if not chain.path else "matrix")
        leaf = self.leaves[table.leaf]
        var = (1.0 if leaf.var is None else leaf.var) * (factor * table.factor) ** 2
        var *= table.shape[0] if leaf.by_entry else 1
        if not var:
            raise self.refuse(f"{leaf.path!r} has variance zero")
        # layers are compared across widths, and a factor such as 1/sqrt(n) is rounded
        return float(f"{var:.12g}"), chain

    def _layered(self, chain: Chain, layer: Any, shape: Any, axes: tuple[Any, ...], leaf: int) -> Chain:
        node = Node(next(self._serial), layer, frozenset([leaf]))
        return Chain((*chain.path, node), shape, axes, self.entry_of_layer)

    def _read_out(self, table: Par, chain: Chain, shape: Any, axes: tuple[Any, ...]) -> Chain:
        if not chain.path or abs(abs(self._factor(table)) - 1) > 1e-12:
            raise self.refuse("a readout of something else than one vector of features")
        chain = self.settled(chain)
        self._once(table.leaf)
        self._set_role(table.leaf, self._summed_axes(table), "readout")
        self.roles[table.leaf] = "readout"
        return dataclasses.replace(chain, shape=shape, axes=axes, is_output=True)
