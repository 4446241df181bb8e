"""A model as layers of `nn` with a tensor program on top of them.

The layers go as far up as they can: to a Gaussian vector (or one per position) of which all else is made. What is not a
layer is made into statements of the program, from that vector upwards.
"""

import itertools
from typing import Any

import numpy as np

from widetail import nn
from widetail.programs import statements as st
from widetail.widening._models import Built
from widetail.widening._parameters import Leaf
from widetail.widening._source import WidenError
from widetail.widening.as_layers._chains import ChainWalk
from widetail.widening.as_layers._layers import CHANNELS, Chain, Node
from widetail.widening.as_layers._norms import Moment
from widetail.widening.as_program._entries import STRIDE, Cuts, NeedCutError, Sym
from widetail.widening.as_program._limit import (
    MOST_CUTS,
    Mixed,
    Reading,
    check_dependence,
    cut_at,
    outputs_of,
    start_values,
)
from widetail.widening.as_program._program import ProgramWalk
from widetail.widening.as_program._symbols import Base

# A path of layers, in a form that is the same whenever a model is read again.
Key = tuple[tuple[int, str], ...]


def read_mixed(closed: Any, built: Built, leaves: list[Leaf], input_shape: tuple[int, ...]) -> Reading:
    """A jaxpr as layers and a program on top; a `WidenError` where there is no such reading."""
    shapes = [leaf.shape for leaf in built.leaves]
    cuts: Cuts = {}
    top: Key | None = None
    for _ in range(MOST_CUTS):
        walk = MixedWalk(input_shape, leaves, shapes, cuts)
        walk.top = top
        try:
            results = walk.run(closed, start_values(leaves, shapes, input_shape, closed.in_avals[-1].dtype))
            if len(results) != 1:
                raise WidenError("the model must return one array")
            outputs = outputs_of(walk, walk.as_entries(results[0]))
            break
        except NeedCutError as need:
            if not cut_at(cuts, need, shapes):
                raise walk.refuse("a part of what the layers make is used by itself") from None
        except _LowerError as lower:
            top = lower.top
    else:
        raise WidenError("no layer is below all of the program")
    return walk.reading(outputs)


class _LowerError(Exception):
    """The program needs something below the layers that were chosen; how far up they may go."""

    def __init__(self, top: Key):
        super().__init__()
        self.top = top


class MixedWalk(ChainWalk):
    """Collects layers as long as it can, and writes a program for what is no layer.

    Attributes:
        top: the layers that the program begins with; None as long as it has not begun.
    """

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.top: Key | None = None
        self._begin: Chain | None = None
        self._how: dict[
            int, tuple[Chain | Moment, Any, list[Any], st.SourceLine]
        ] = {}  # by id of a chain that is kept alive
        self._known: dict[int, Sym] = {}

    def equation(self, equation: Any, name: str, arguments: list[Any]) -> list[Any]:
        if not any(isinstance(argument, Sym) for argument in arguments):
            before = self._source, set(self._used), dict(self.roles), dict(self.fan_ins)
            try:
                results = super().equation(equation, name, arguments)
            except WidenError:
                self._source, self._used, self.roles, self.fan_ins = before
            else:
                for result in results:
                    if isinstance(result, (Chain, Moment)) and not any(result is argument for argument in arguments):
                        self._how.setdefault(id(result), (result, equation, arguments, self.place))
                return results
        return ProgramWalk.equation(self, equation, name, [self.as_entries(a) for a in arguments])

    def at(self, value: Any, index: int) -> Any:
        return ProgramWalk.at(self, self.as_entries(value), index)

    def stacked(self, values: list[Any]) -> Any:
        return ProgramWalk.stacked(self, [self.as_entries(value) for value in values])

    def as_entries(self, value: Any) -> Any:
        """An array of layers as entries of the program; anything else as it is."""
        return self._entries_of(value, value) if isinstance(value, (Chain, Moment)) else value

    def _entries_of(self, chain: Chain | Moment, asked: Chain | Moment) -> Sym:
        """An array of layers as entries; `asked` is the one that the program wants, of which this is a part."""
        if id(chain) in self._known:
            return self._known[id(chain)]
        if isinstance(chain, Chain) and self._may_begin(chain) and self.top in (None, _key(chain.path)):
            self.top, self._begin = _key(chain.path), chain
            found = self._beginning(chain)
        else:
            if id(chain) not in self._how:
                raise self.refuse("this is no part of a program on top of layers")
            _, equation, arguments, place = self._how[id(chain)]
            if not any(isinstance(argument, (Chain, Moment)) for argument in arguments):
                raise self._lower(asked if isinstance(asked, Chain) else asked.chain)
            inner = [self._entries_of(a, asked) if isinstance(a, (Chain, Moment)) else a for a in arguments]
            outer, self.place = self.place, place
            (found,) = ProgramWalk.equation(self, equation, equation.primitive.name, inner)
            self.place = outer
        if not isinstance(found, Sym):
            raise self.refuse("this is no part of a program on top of layers")
        self._known[id(chain)] = found
        return found

    def _may_begin(self, chain: Chain) -> bool:
        """Whether an array is Gaussian, one vector per position, so that a program can begin with it."""
        if chain.function is not self.entry_of_layer or chain.is_output or len(chain.path) < 2:
            return False
        if any(isinstance(node.layer, nn.Flatten) for node in chain.path[-1:]):
            return False
        return self.is_gaussian(chain) and chain.axes.count(CHANNELS) == 1

    def _beginning(self, chain: Chain) -> Sym:
        along = chain.axes.index(CHANNELS)
        width, positions = chain.shape[along], int(np.prod(chain.space))
        vectors = [Base(width, frozenset(), self.builder.add(st.Given(p)), True) for p in range(positions)]
        numbers = np.array([self.entry(vector) for vector in vectors], np.int64).reshape(chain.space)
        # positions in the order of the layers, then channels; then as they stand in the array
        ids = numbers[..., None] * STRIDE + np.arange(width)
        named = (len(chain.space) if axis == CHANNELS else axis for axis in chain.axes)
        places = [axis for axis in named if isinstance(axis, int)]
        return Sym(np.transpose(ids, places).reshape(chain.shape))

    def _lower(self, asked: Chain) -> Exception:
        """The program wants what does not stand on the layers that it began with: begin with what both share."""
        if self._begin is None:
            return self.refuse("nothing Gaussian is below the program but the first layer")
        same = itertools.takewhile(lambda pair: pair[0] is pair[1], zip(self._begin.path, asked.path, strict=False))
        common = _key(tuple(one for one, _ in same))
        if len(common) < 2 or common == self.top:
            return self.refuse("the program stands on the input itself, not on layers")
        return _LowerError(common)

    def reading(self, outputs: list[tuple[float, int]]) -> Reading:
        """What was read."""
        if self._begin is None or self.rows:
            raise WidenError("the program stands on the input itself, not on layers")
        leaves = frozenset().union(*(node.leaves for node in self._begin.path))
        if any(np.any(self._assigned[leaf] >= 0) for leaf in leaves):
            raise WidenError("the program uses a parameter of the layers below")
        front, look, kept = self.front()
        graph = st.Graph((int(np.prod(self._begin.space)), 1))
        for name, random in self.builder.graph.randoms.items():
            graph.add_random(name, random.kind, random.var, random.place)
        for line in self.builder.graph.lines:
            graph.add(line.statement, line.place, name=line.name)
        check_dependence(graph, outputs)
        mixed = Mixed(_network(self._begin.path), front, look, kept)
        return Reading(graph, outputs, self.prologue, [], 1, self.roles, self.fan_ins, mixed)


def _network(path: tuple[Node, ...]) -> nn.Sequential:
    return nn.Sequential(*(node.layer for node in path))


def _key(path: tuple[Node, ...]) -> Key:
    return tuple((node.number, repr(node.layer)) for node in path)
