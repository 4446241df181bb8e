"""Arrays of a model as layers of `nn` from the input up."""

import dataclasses
from typing import Any

from widetail import nn
from widetail.widening.as_program._symbols import Vec

# Names of axes: positions by number, channels, and axes of size one.
CHANNELS, ONE = "channels", "one"


@dataclasses.dataclass(frozen=True, eq=False)
class Node:
    """A layer in its place, and the parameters in it."""

    number: int
    layer: Any
    leaves: frozenset[int] = frozenset()


@dataclasses.dataclass(frozen=True, eq=False)
class Chain:
    """An array as layers from the input up, and a function of entries that is not a layer yet.

    Attributes:
        path: the layers.
        shape: of the array.
        axes: what each axis is: a position by its number, channels, or an axis of size one.
        function: of entries of what the layers give.
        is_output: whether the readout is done.
    """

    path: tuple[Node, ...]
    shape: tuple[int, ...]
    axes: tuple[Any, ...]
    function: Vec
    is_output: bool = False

    @property
    def space(self) -> list[int]:
        """Sizes of the axes of positions, in the order of the layers."""
        found = [(axis, size) for axis, size in zip(self.axes, self.shape, strict=True) if isinstance(axis, int)]
        return [size for _, size in sorted(found)]


@dataclasses.dataclass(frozen=True, eq=False)
class Counted(Node):
    """A sum, and over how many positions."""

    count: int = 1


def with_fields(layer: Any, **changes: Any) -> Any:
    """A layer with some fields changed."""
    if isinstance(layer, nn.Dense):
        return nn.Dense(**({"weight_var": layer.weight_var, "bias_var": layer.bias_var} | changes))
    given = {name: getattr(layer, name) for name in ("weight_var", "bias_var", "strides", "padding")}
    return nn.Conv(layer.window, **(given | changes))
