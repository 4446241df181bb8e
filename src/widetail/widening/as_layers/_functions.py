"""Functions of the entries of layers, their biases, and the sums of branches."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from widetail import nn
from widetail.programs import statements as st
from widetail.widening._source import WidenError
from widetail.widening.as_layers._layers import CHANNELS, Chain, Node, with_fields
from widetail.widening.as_program._entries import Par
from widetail.widening.as_program._functions import Instructions, recognised
from widetail.widening.as_program._program import ProgramWalk
from widetail.widening.as_program._symbols import Base, Lin, Op, without_factor


class LayerFunctions(ProgramWalk):
    """What becomes of layers that an elementwise operation takes."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self._source: Any = None
        self._used: set[int] = set()
        self._serial = itertools.count()
        self.means: list[float] = []  # factors of means that are zero in the limit
        # stands for the entries of a layer in expressions; no variable of a program has this value
        self.entry_of_layer = Base(1, frozenset(), self.builder.add(st.Constant(math.inf)), True)

    def front(self) -> tuple[Callable[[Any], Any], Any, tuple[int, ...]]:
        """What is done with the input before the first layer: as a function, to be compared, and the shape it gives."""
        if self._source is None:
            raise WidenError("no layer sees the input")
        source, order, kept = self._source
        prologue, reference = self.prologue, source.reference

        def front(x: Any) -> Any:
            (value,) = prologue.run(x, [reference])
            return jnp.transpose(value, order).reshape(kept)

        return front, (prologue.look(), reference, order, kept, tuple(self.means)), kept

    def _once(self, leaf: int) -> None:
        if leaf in self._used:
            raise self.refuse("a parameter is used twice")
        self._used.add(leaf)

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
        number, function = without_factor(chain.function)
        if function is not self.entry_of_layer or not isinstance(last.layer, (nn.Dense, nn.Conv)):
            raise self.refuse("a bias that does not follow its matrix")
        before = {name: float(np.asarray(getattr(last.layer, name))) * number**2 for name in ("weight_var", "bias_var")}
        # independent biases add up to one
        variances = {"weight_var": before["weight_var"], "bias_var": float(f"{before['bias_var'] + var:.12g}")}
        node = Node(last.number, with_fields(last.layer, **variances), last.leaves | {par.leaf})
        return dataclasses.replace(chain, path=(*chain.path[:-1], node), function=self.entry_of_layer)

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
        leaves = frozenset().union(*(n.leaves for branch in branches for n in branch))
        node = Node(next(self._serial), joined, leaves)
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
        if not instructions.vectors:
            raise self.refuse("nothing of a layer is left")
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
                path = (*path[:-1], dataclasses.replace(last, layer=with_fields(last.layer, **variances)))
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
