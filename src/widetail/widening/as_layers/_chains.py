"""A model as layers of `nn`, where it is a chain of them with residual branches; the fast way.

Whatever is not a layer of `nn` on whole arrays is refused here and read as a tensor program instead.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from widetail import nn
from widetail.widening._models import Built
from widetail.widening._parameters import Leaf
from widetail.widening._primitives import ELEMENTWISE
from widetail.widening._prologue import Narrow
from widetail.widening._source import WidenError
from widetail.widening.as_layers._layers import Chain
from widetail.widening.as_layers._norms import LayerNorms, Moment
from widetail.widening.as_program._entries import Par
from widetail.widening.as_program._limit import start_values
from widetail.widening.as_program._symbols import Op


@dataclasses.dataclass(frozen=True)
class Chained:
    """A model as a network of `nn`.

    Attributes:
        net: the network, without the readout.
        look: what is done with the input first, in a form that can be compared.
        front: the same as a function of one input.
        roles: by parameter, what it is.
        fan_ins: by parameter, the axes that are summed over.
    """

    net: nn.Layer
    look: Any
    front: Callable[[Any], Any]
    roles: dict[int, str]
    fan_ins: dict[int, tuple[int, ...]]


def read_chain(closed: Any, built: Built, leaves: list[Leaf], input_shape: tuple[int, ...]) -> Chained:
    """A jaxpr as a network; a `WidenError` where it is not one."""
    shapes = [leaf.shape for leaf in built.leaves]
    walk = ChainWalk(input_shape, leaves, shapes, {})
    results = walk.run(closed, start_values(leaves, shapes, input_shape, closed.in_avals[-1].dtype))
    if len(results) != 1 or not isinstance(results[0], Chain):
        raise WidenError("the model does not end in a layer")
    end = results[0]
    end = walk.settled(end)
    if end.is_output and end.space:
        raise WidenError("the model returns an array of outputs per position")
    net = nn.Sequential(*(node.layer for node in end.path))
    front, look, kept = walk.front()
    try:
        net.output_signal(kept)
    except ValueError as error:
        raise WidenError(str(error)) from None
    return Chained(net, look, front, walk.roles, walk.fan_ins)


class ChainWalk(LayerNorms):
    """Collects layers."""

    def equation(self, equation: Any, name: str, arguments: list[Any]) -> list[Any]:
        chains = [argument for argument in arguments if isinstance(argument, Chain)]
        if any(isinstance(argument, Moment) for argument in arguments):
            return [self._with_moments(equation, name, self._with_constants(name, arguments))]
        if not chains:
            if name in ("dot_general", "conv_general_dilated") and any(isinstance(a, Narrow) for a in arguments):
                arguments = self._with_constants(name, arguments)
                if any(isinstance(argument, Par) for argument in arguments):
                    return [self._layer_product(equation, name, arguments)]
            return super().equation(equation, name, arguments)
        if any(isinstance(a, Narrow) for a in arguments):
            raise self.refuse("the input meets a wide array")
        if name in ("dot_general", "conv_general_dilated"):
            return [self._layer_product(equation, name, arguments)]
        if name in ELEMENTWISE:
            return [self._of_entries(equation, Op(name, equation.primitive, equation.params), arguments)]
        handler = {
            "transpose": self._transpose,
            "reshape": self._reshape,
            "squeeze": self._reshape,
            "expand_dims": self._reshape,
            "broadcast_in_dim": self._reshape,
            "reduce_sum": self._summed,
            "reduce_window_sum": self._sum_windows,
        }.get(name)
        if handler is None or len(chains) != len(arguments):
            raise self.refuse(f"{name} is no layer")
        return [handler(equation, chains[0])]

    def _with_moments(self, equation: Any, name: str, arguments: list[Any]) -> Any:
        if name in ELEMENTWISE:
            return self._of_moments(equation, Op(name, equation.primitive, equation.params), arguments)
        if name not in ("transpose", "reshape", "squeeze", "expand_dims", "broadcast_in_dim"):
            raise self.refuse(f"{name} of moments is no layer")
        return self._arranged_moment(equation, arguments[0])

    def _summed(self, equation: Any, chain: Chain) -> Any:
        is_along = self.is_along_width(equation, chain)
        return self._sum_features(equation, chain) if is_along else self._sum_positions(equation, chain)

    def at(self, value: Any, index: int) -> Any:
        raise self.refuse("a loop over positions is no layer")

    def stacked(self, values: list[Any]) -> Any:
        raise self.refuse("a loop over positions is no layer")
