"""A model as layers of `nn`, where it is a chain of them with residual branches; the fast way.

Whatever is not a layer of `nn` on whole arrays is refused here and read as a tensor program instead.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from widetail import nn
from widetail.widening._entries import Par
from widetail.widening._functions import Instructions, recognised
from widetail.widening._laws import Leaf
from widetail.widening._limit import start_values
from widetail.widening._models import Built
from widetail.widening._primitives import ELEMENTWISE
from widetail.widening._program import ProgramWalk
from widetail.widening._prologue import Narrow
from widetail.widening._source import WidenError
from widetail.widening._symbols import Base, Lin, Op, Vec, without_factor

# Names of axes: positions by number, channels, and axes of size one.
CHANNELS, ONE = "channels", "one"


@dataclasses.dataclass(frozen=True, eq=False)
class Node:
    """A layer in its place; products with the same parameter have the same number."""

    number: int
    layer: Any


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
    source, order, kept = walk.source
    reference = source.reference

    def front(x: Any) -> Any:
        (value,) = walk.prologue.run(x, [reference])
        return jnp.transpose(value, order).reshape(kept)

    try:
        net.output_signal(kept)
    except ValueError as error:
        raise WidenError(str(error)) from None
    look = walk.prologue.look(), reference, order, kept
    return Chained(net, look, front, walk.roles, walk.fan_ins)


class ChainWalk(ProgramWalk):
    """Collects layers."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self._source: Any = None
        self._used: set[int] = set()
        self._serial = itertools.count()
        self.builder.graph.add_random("value", "bias", 1.0)
        self.entry_of_layer = Base(1, frozenset(), 0, True)

    @property
    def source(self) -> Any:
        """The array that the first layer sees, how it is transposed, and its shape then."""
        if self._source is None:
            raise WidenError("no layer sees the input")
        return self._source

    def equation(self, equation: Any, name: str, arguments: list[Any]) -> list[Any]:
        chains = [argument for argument in arguments if isinstance(argument, Chain)]
        if not chains:
            if name in ("dot_general", "conv_general_dilated") and any(isinstance(a, Narrow) for a in arguments):
                arguments = self._with_constants(name, arguments)
                if any(isinstance(argument, Par) for argument in arguments):
                    return [self._layer_product(equation, name, arguments)]
                return self._step(equation, arguments)
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
            "reduce_sum": self._sum_positions,
            "reduce_window_sum": self._sum_windows,
        }.get(name)
        if handler is None or len(chains) != len(arguments):
            raise self.refuse(f"{name} is no layer")
        return [handler(equation, chains[0])]

    def at(self, value: Any, index: int) -> Any:
        raise self.refuse("a loop over positions is no layer")

    def stacked(self, values: list[Any]) -> Any:
        raise self.refuse("a loop over positions is no layer")

    # Functions of entries.

    def _of_entries(self, equation: Any, op: Op, arguments: list[Any]) -> Chain:
        shape = equation.outvars[0].aval.shape
        chains = [argument for argument in arguments if isinstance(argument, Chain)]
        chain = chains[0]
        if any(c.shape != shape for c in chains):
            raise self.refuse("a wide array is repeated")
        others = [argument for argument in arguments if not isinstance(argument, Chain)]
        if any(isinstance(other, Par) for other in others):
            if op.name in ("add", "add_any") and len(arguments) == 2:
                return self._with_bias(chain, others[0])
            raise self.refuse("a parameter that is no matrix and no bias is no layer")
        if len(chains) > 1:
            if all(one is chain or self._same_place(one, chain) for one in chains[1:]):
                return self._function(op, arguments, chain)
            if op.name in ("add", "add_any") and len(arguments) == 2:
                return self._added_chains(*chains)
            raise self.refuse("a function of two wide arrays is no layer")
        return self._function(op, arguments, chain)

    def _same_place(self, one: Chain, other: Chain) -> bool:
        return (
            one.axes == other.axes
            and [n.layer for n in one.path] == [n.layer for n in other.path]
            and one.path == other.path
        )

    def _function(self, op: Op, arguments: list[Any], chain: Chain) -> Chain:
        values: list[Any] = []
        for argument in arguments:
            if isinstance(argument, Chain):
                values.append(argument.function)
                continue
            if not isinstance(argument, np.ndarray):
                raise self.refuse("a function of a layer and of something else is no layer")
            unique = np.unique(np.asarray(argument, float))
            if len(unique) != 1:
                raise self.refuse("an array of different numbers is no layer")
            values.append(float(unique[0]))
        function = self.combine(op, values)
        if chain.is_output and not (
            isinstance(function, (Base, Lin)) and without_factor(function)[1] is self.entry_of_layer
        ):
            raise self.refuse("a function of outputs is no layer")
        return dataclasses.replace(chain, function=function)

    def _with_bias(self, chain: Chain, par: Par) -> Chain:
        leaf = self.leaves[par.leaf]
        if chain.is_output:
            if not leaf.is_constant or any(leaf.wide):
                raise self.refuse("something random is added to outputs")
            self.roles[par.leaf] = "readout bias"
            return chain
        if leaf.is_constant or leaf.is_table or par.factor != 1:
            raise self.refuse("a parameter that is no bias of a layer")
        self._once(par.leaf)
        self._set_role(par.leaf, (), "bias")
        along = chain.axes.index(CHANNELS)
        expected = np.arange(chain.shape[along]).reshape([-1 if k == along else 1 for k in range(len(chain.shape))])
        if not np.array_equal(np.broadcast_to(par.elements, chain.shape), np.broadcast_to(expected, chain.shape)):
            raise self.refuse("a bias that is not one number per channel")
        var = leaf.var or 0.0
        if not var:
            return chain
        last = chain.path[-1]
        if chain.function is not self.entry_of_layer or not isinstance(last.layer, (nn.Dense, nn.Conv)):
            raise self.refuse("a bias that does not follow its matrix")
        if float(np.asarray(last.layer.bias_var)):
            raise self.refuse("two biases")
        layer = _with(last.layer, bias_var=var)
        return dataclasses.replace(chain, path=(*chain.path[:-1], Node(last.number, layer)))

    def _added_chains(self, one: Chain, other: Chain) -> Chain:
        if one.is_output or other.is_output:
            raise self.refuse("outputs are added")
        one, other = self.settled(one), self.settled(other)
        if one.axes != other.axes:
            raise self.refuse("arrays with other axes are added")
        shared = 0
        for a, b in zip(one.path, other.path, strict=False):
            if a is not b:
                break
            shared += 1
        branches = one.path[shared:], other.path[shared:]
        if {n.number for n in branches[0]} & {n.number for n in branches[1]} or (not shared and not all(branches)):
            raise self.refuse("branches share a matrix")
        layers = [nn.Sequential(*(n.layer for n in branch)) if branch else nn.Identity() for branch in branches]
        empty = [k for k, branch in enumerate(branches) if not branch]
        if len(empty) == 2:
            raise self.refuse("an array is added to itself")
        joined = (
            nn.Residual(*(n.layer for n in branches[1 - empty[0]])) if empty else nn.Parallel(*layers, combine="sum")
        )
        node = Node(next(self._serial), joined)
        return dataclasses.replace(one, path=(*one.path[:shared], node), function=self.entry_of_layer)

    def settled(self, chain: Chain) -> Chain:
        """The function of entries as a layer; a factor that is left is refused."""
        chain, factor = self._settled_up_to_factor(chain)
        if abs(factor - 1) > 1e-9:
            raise self.refuse("a factor that no layer has")
        return chain

    def _settled_up_to_factor(self, chain: Chain) -> tuple[Chain, float]:
        function = chain.function
        if isinstance(function, Base):
            return chain, 1.0
        number, vec = without_factor(function)
        if isinstance(vec, Base):
            return self._pooled(chain, number)
        instructions = Instructions(self.builder)
        instructions.of(function)
        fused, path = instructions.function(), chain.path
        last = path[-1]
        if isinstance(last.layer, (nn.Dense, nn.Conv)):
            # a function of a multiple: the multiple goes to the matrix, so that closed forms are found
            factor, inner = fused.without_factor()
            if factor != 1:
                fused = inner
                variances = {
                    name: float(np.asarray(getattr(last.layer, name))) * factor**2
                    for name in ("weight_var", "bias_var")
                }
                path = (*path[:-1], Node(last.number, _with(last.layer, **variances)))
        found = recognised(fused)
        layer = found if isinstance(found, nn.Activation) else nn.Elementwise(fn=found)
        node = Node(next(self._serial), layer)
        return dataclasses.replace(chain, path=(*path, node), function=self.entry_of_layer), 1.0

    def _pooled(self, chain: Chain, factor: float) -> tuple[Chain, float]:
        """A sum over positions that is divided by their number is a mean."""
        last = chain.path[-1]
        layer: Any = last.layer
        before = getattr(last, "count", None)
        if before is not None and abs(factor * before - 1) < 1e-6:
            mean = (
                nn.GlobalAvgPool()
                if isinstance(layer, nn.GlobalSumPool)
                else nn.AvgPool(layer.window, layer.strides, layer.padding)
            )
            path = (*chain.path[:-1], Node(last.number, mean))
            return dataclasses.replace(chain, path=path, function=self.entry_of_layer), 1.0
        return dataclasses.replace(chain, function=self.entry_of_layer), factor

    # Arrangements.

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
        node = Counted(next(self._serial), nn.GlobalSumPool(), count)
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
        node = Counted(next(self._serial), layer, math.prod(windows))
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
                raise self.refuse("a padding that is neither SAME nor VALID")
        return "SAME"

    # Products.

    def _once(self, leaf: int) -> None:
        if leaf in self._used:
            raise self.refuse("a parameter is used twice")
        self._used.add(leaf)

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
        node = Node(next(self._serial), layer)
        return Chain((*chain.path, node), shape, axes, self.entry_of_layer)

    def _read_out(self, table: Par, chain: Chain, shape: Any, axes: tuple[Any, ...]) -> Chain:
        if not chain.path or abs(abs(self._factor(table)) - 1) > 1e-12:
            raise self.refuse("a readout of something else than one vector of features")
        chain = self.settled(chain)
        self._once(table.leaf)
        self._set_role(table.leaf, self._summed_axes(table), "readout")
        self.roles[table.leaf] = "readout"
        return dataclasses.replace(chain, shape=shape, axes=axes, is_output=True)


@dataclasses.dataclass(frozen=True, eq=False)
class Counted(Node):
    """A sum, and over how many positions."""

    count: int


def _with(layer: Any, **changes: Any) -> Any:
    """A layer with some fields changed."""
    if isinstance(layer, nn.Dense):
        return nn.Dense(**({"weight_var": layer.weight_var, "bias_var": layer.bias_var} | changes))
    given = {name: getattr(layer, name) for name in ("weight_var", "bias_var", "strides", "padding")}
    return nn.Conv(layer.window, **(given | changes))
