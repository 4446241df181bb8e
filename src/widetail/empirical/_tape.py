"""A model on one row as a flat list of JAX's primitives, and where parameters meet the row."""

import collections
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

# calls that only group what they call; everything else with functions inside is one step
TRANSPARENT = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "checkpoint": "jaxpr", "remat2": "jaxpr"}


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """One primitive; inputs and outputs are slots, numbered in the order in which they are filled."""

    eqn: Any
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def name(self) -> str:
        """The primitive's name."""
        return self.eqn.primitive.name

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The outputs, as JAX computes them: under any transformation, and with derivatives of its own if it has."""
        options = self.eqn.primitive.get_bind_params(self.eqn.params)
        functions, options = options if isinstance(options, tuple) else ((), options)  # the older form, and the newer
        outputs = self.eqn.primitive.bind(*functions, *values, **options)
        return list(outputs) if self.eqn.primitive.multiple_results else [outputs]


class Tape:
    """A function of arrays as steps; `slots` of the function's arguments come first.

    Attributes:
        inputs, outputs: slots of arguments and results.
        steps: in an order in which they can be run.
        constants: values of the slots that no step fills.
        shapes: shape and dtype of every slot.
    """

    def __init__(self, function: Callable[..., Any], *arguments: Any):
        closed = jax.make_jaxpr(function)(*arguments)
        self.steps: list[Step] = []
        self.constants: dict[int, Any] = {}
        self.shapes: list[jax.ShapeDtypeStruct] = []
        self.inputs = tuple(self._new(variable.aval) for variable in closed.jaxpr.invars)
        self.outputs = tuple(self._inline(closed.jaxpr, closed.consts, self.inputs))

    def _new(self, aval: Any) -> int:
        self.shapes.append(jax.ShapeDtypeStruct(getattr(aval, "shape", ()), getattr(aval, "dtype", np.dtype("int32"))))
        return len(self.shapes) - 1

    def _inline(self, jaxpr: Any, constants: Sequence[Any], arguments: Sequence[int]) -> list[int]:
        slots: dict[Any, int] = dict(zip(jaxpr.invars, arguments, strict=True))
        for variable, value in zip(jaxpr.constvars, constants, strict=True):
            slots[variable] = self._constant(variable.aval, value)

        def slot(atom: Any) -> int:
            return self._constant(atom.aval, atom.val) if isinstance(atom, core.Literal) else slots[atom]

        for eqn in jaxpr.eqns:
            inputs = tuple(slot(atom) for atom in eqn.invars)
            inside = TRANSPARENT.get(eqn.primitive.name)
            if inside is not None:
                called = eqn.params[inside]
                closed = called if isinstance(called, core.ClosedJaxpr) else core.ClosedJaxpr(called, ())
                outputs = self._inline(closed.jaxpr, closed.consts, inputs)
            else:
                outputs = [self._new(variable.aval) for variable in eqn.outvars]
                self.steps.append(Step(eqn, inputs, tuple(outputs)))
            slots.update(zip(eqn.outvars, outputs, strict=True))
        return [slot(atom) for atom in jaxpr.outvars]

    def _constant(self, aval: Any, value: Any) -> int:
        index = self._new(aval)
        self.constants[index] = value
        return index

    def flops(self) -> float:
        """Operations of one run: two per multiplication of products and convolutions, one per output of the rest."""
        return sum(equation_flops(step.eqn) for step in self.steps)


def equation_flops(eqn: Any) -> float:
    """Operations of one primitive, with what it calls; loops of unknown length count once."""
    name = eqn.primitive.name
    out = sum(math.prod(getattr(variable.aval, "shape", ())) for variable in eqn.outvars)
    if name == "dot_general":
        (contracted, _), _ = eqn.params["dimension_numbers"]
        return 2.0 * out * math.prod(eqn.invars[0].aval.shape[axis] for axis in contracted)
    if name == "conv_general_dilated":
        filters, numbers = eqn.invars[1].aval, eqn.params["dimension_numbers"]
        return 2.0 * out * math.prod(filters.shape) / filters.shape[numbers.rhs_spec[0]]
    inner = list(core.jaxprs_in_params(eqn.params))
    if inner:
        once = max(sum(equation_flops(inside) for inside in jaxpr.eqns) for jaxpr in inner)
        return once * eqn.params.get("length", 1)
    return float(out)


@dataclasses.dataclass(frozen=True)
class Chain:
    """A weight that is a parameter times a number, perhaps in another shape or order.

    Attributes:
        leaf: which parameter.
        factors: (slot of a scalar, whether to divide by it); their product scales the weight.
    """

    leaf: int
    factors: tuple[tuple[int, bool], ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class Meeting:
    """A step where parameters meet what depends on the row.

    Attributes:
        index: of the step on the tape.
        leaves: the parameters that enter.
        chain: the weight, where the step is a product or a convolution of the row with one weight, or their sum.
    """

    index: int
    leaves: frozenset[int]
    chain: Chain | None


class Meetings:
    """Where the parameters of a tape (its first inputs) meet the row (the others).

    Attributes:
        found: the meetings, in order.
        from_row: of every slot, whether it depends on the row.
        weight_steps: indices of the steps that depend on parameters only.
        constant_outputs: whether a result depends on parameters, and on no row.
    """

    def __init__(self, tape: Tape, parameters: int):
        leaves: dict[int, frozenset[int]] = {tape.inputs[i]: frozenset([i]) for i in range(parameters)}
        chains: dict[int, Chain] = {tape.inputs[i]: Chain(i) for i in range(parameters)}
        self.from_row = set(tape.inputs[parameters:])
        self.found: list[Meeting] = []
        self.weight_steps: list[int] = []
        for index, step in enumerate(tape.steps):
            weights = [slot for slot in step.inputs if slot not in self.from_row and slot in leaves]
            entering = frozenset[int]().union(*(leaves[slot] for slot in weights))
            if any(slot in self.from_row for slot in step.inputs):
                self.from_row.update(step.outputs)
                if entering:
                    is_known = len(weights) == 1 and (_is_simple(step, weights[0]) or step.name == "add")
                    chain = chains.get(weights[0]) if is_known else None
                    self.found.append(Meeting(index, entering, chain))
            elif entering:
                self.weight_steps.append(index)
                leaves.update(dict.fromkeys(step.outputs, entering))
                chain = _scaled(tape, step, chains) if len(weights) == 1 else None
                if chain is not None:
                    chains[step.outputs[0]] = chain
        self._tape = tape
        self.constant_outputs = any(slot in leaves and slot not in self.from_row for slot in tape.outputs)

    def structured(self) -> list[Meeting]:
        """Those whose parameter enters nowhere else, by a product or a convolution."""
        return [meeting for meeting in self._alone() if self._tape.steps[meeting.index].name != "add"]

    def bias_of(self, slot: int) -> Meeting | None:
        """Where a parameter with as many entries is added to what is in `slot`, which nothing else reads."""
        readers = [step for step in self._tape.steps if slot in step.inputs]
        if len(readers) != 1 or slot in self._tape.outputs:
            return None
        added = [m for m in self._alone() if self._tape.steps[m.index] is readers[0] and readers[0].name == "add"]
        return added[0] if added else None

    def _alone(self) -> list[Meeting]:
        """Meetings of a weight that is one parameter, rearranged and scaled, which enters nowhere else."""
        uses = collections.Counter(leaf for meeting in self.found for leaf in meeting.leaves)
        return [meeting for meeting in self.found if meeting.chain is not None and uses[meeting.chain.leaf] == 1]


REARRANGED = {"convert_element_type", "transpose", "reshape", "squeeze", "expand_dims", "copy", "neg", "copy_p"}


def _scaled(tape: Tape, step: Step, chains: dict[int, Chain]) -> Chain | None:
    """The chain of what comes out, if the step only rearranges a weight or multiplies it by a number."""
    where = next((i for i, slot in enumerate(step.inputs) if slot in chains), None)
    if where is None:
        return None
    chain = chains[step.inputs[where]]
    size, out = (math.prod(tape.shapes[slot].shape) for slot in (step.inputs[where], step.outputs[0]))
    if size != out or not jnp.issubdtype(tape.shapes[step.outputs[0]].dtype, jnp.floating):
        return None
    if step.name in REARRANGED or step.name == "broadcast_in_dim":
        return chain
    if step.name in ("mul", "div") and not (step.name == "div" and where == 1):
        other = step.inputs[1 - where]
        if math.prod(tape.shapes[other].shape) == 1:
            return Chain(chain.leaf, (*chain.factors, (other, step.name == "div")))
    return None


def _is_simple(step: Step, weight: int) -> bool:
    """Whether the step is a product of the row with a weight, or a convolution by it, in one group."""
    if step.inputs.count(weight) != 1:
        return False
    if step.name == "dot_general":
        _, batch = step.eqn.params["dimension_numbers"]
        return batch == ((), ()) or not any(batch)
    if step.name == "conv_general_dilated":
        groups = step.eqn.params["feature_group_count"], step.eqn.params["batch_group_count"]
        return step.inputs[1] == weight and groups == (1, 1)
    return False
