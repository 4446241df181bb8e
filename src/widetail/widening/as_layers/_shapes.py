"""Rearrangements of layers, and sums over their positions."""

import dataclasses
import math
from typing import Any

from widetail import nn
from widetail.widening.as_layers._functions import LayerFunctions
from widetail.widening.as_layers._layers import CHANNELS, ONE, Chain, Counted, Node


class LayerShapes(LayerFunctions):
    """What becomes of layers that are rearranged or pooled."""

    def _transpose(self, equation: Any, chain: Chain) -> Chain:
        order = equation.params["permutation"]
        shape, axes = tuple(chain.shape[k] for k in order), tuple(chain.axes[k] for k in order)
        return dataclasses.replace(chain, shape=shape, axes=axes)

    def _reshape(self, equation: Any, chain: Chain) -> Chain:
        shape = equation.outvars[0].aval.shape
        named = [(axis, size) for axis, size in zip(chain.axes, chain.shape, strict=True) if size > 1]
        if equation.primitive.name == "broadcast_in_dim" and math.prod(shape) != math.prod(chain.shape):
            raise self.refuse("a wide array is repeated")
        sizes = [size for size in shape if size > 1]
        if sizes == [size for _, size in named]:
            left = iter(named)
            axes = tuple(next(left)[0] if size > 1 else ONE for size in shape)
            return dataclasses.replace(chain, shape=shape, axes=axes)
        if len(sizes) == 1 and not chain.is_output:  # all positions and channels side by side
            chain = self.settled(chain)
            node = Node(next(self._serial), nn.Flatten())
            axes = tuple(CHANNELS if size > 1 else ONE for size in shape)
            return dataclasses.replace(chain, path=(*chain.path, node), shape=shape, axes=axes)
        raise self.refuse("this rearrangement is no layer")

    def _sum_positions(self, equation: Any, chain: Chain) -> Chain:
        axes = tuple(equation.params["axes"])
        names = {chain.axes[axis] for axis in axes if chain.shape[axis] > 1}
        if names != set(range(len(chain.space))) or not names:
            raise self.refuse("a sum that is not over all positions is no layer")
        count = math.prod(chain.space)
        chain = self.settled(chain)  # a sum of outputs is the output of a sum
        node = Counted(next(self._serial), nn.GlobalSumPool(), count=count)
        shape = tuple(size for axis, size in enumerate(chain.shape) if axis not in axes)
        kept = tuple(name for axis, name in enumerate(chain.axes) if axis not in axes)
        return dataclasses.replace(chain, path=(*chain.path, node), shape=shape, axes=kept)

    def _sum_windows(self, equation: Any, chain: Chain) -> Chain:
        params = equation.params
        if any(d != 1 for d in (*params["base_dilation"], *params["window_dilation"])):
            raise self.refuse("dilation is no layer")
        windows, strides, space = self._windows(
            chain, params["window_dimensions"], params["window_strides"], params["padding"]
        )
        chain = self.settled(chain)
        layer = nn.SumPool(windows, strides, space)
        node = Counted(next(self._serial), layer, count=math.prod(windows))
        return dataclasses.replace(chain, path=(*chain.path, node), shape=equation.outvars[0].aval.shape)

    def _windows(self, chain: Chain, window: Any, strides: Any, padding: Any) -> tuple[Any, Any, Any]:
        found = []
        for axis, size, extent, step, pad in zip(chain.axes, chain.shape, window, strides, padding, strict=True):
            if isinstance(axis, int):
                found.append((axis, size, extent, step, tuple(pad)))
            elif (extent, step, *pad) != (1, 1, 0, 0):
                raise self.refuse("a window over something else than positions")
        found.sort()
        return (
            tuple(extent for _, _, extent, _, _ in found),
            tuple(step for _, _, _, step, _ in found),
            self._padding([(size, extent, step, pad) for _, size, extent, step, pad in found]),
        )

    def _padding(self, windows: list[tuple[int, int, int, tuple[int, int]]]) -> Any:
        if all(pad == (0, 0) for *_, pad in windows):
            return "VALID"
        for size, extent, step, pad in windows:
            total = max((math.ceil(size / step) - 1) * step + extent - size, 0)
            if pad != (total // 2, total - total // 2):
                return tuple(pad for *_, pad in windows)
        return "SAME"
