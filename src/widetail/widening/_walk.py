"""A walk over a jaxpr with values of another kind in place of arrays."""

import abc
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np

from widetail.programs.statements import NOWHERE, SourceLine
from widetail.widening._primitives import CALLS, DATA_DEPENDENT_LOOP, LOOPS, REFUSED
from widetail.widening._prologue import Narrow, Prologue
from widetail.widening._source import WidenError, place_of

# Steps of loops that are unrolled, at most.
MOST_STEPS = 4096


class Drawn:
    """Random numbers, or a key of them; harmless as long as nothing of the model meets them."""


class Walk(abc.ABC):
    """Carries values through the equations of a model: numbers are computed, functions of the input alone are kept.

    Everything else goes to `equation`, which a subclass gives.
    """

    def __init__(self, input_shape: tuple[int, ...]):
        self.prologue = Prologue(input_shape)
        self.place: SourceLine = NOWHERE

    def refuse(self, reason: str) -> WidenError:
        """A refusal that names the line at hand."""
        return WidenError(reason, self.place)

    @abc.abstractmethod
    def equation(self, equation: Any, name: str, arguments: list[Any]) -> list[Any]:
        """The results of an equation, some of whose arguments are neither numbers nor functions of the input."""

    @abc.abstractmethod
    def at(self, value: Any, index: int) -> Any:
        """One step of a value that a loop runs over."""

    @abc.abstractmethod
    def stacked(self, values: list[Any]) -> Any:
        """The results of all steps of a loop."""

    def run(self, closed: Any, arguments: list[Any], constants: list[Any] | None = None) -> list[Any]:
        """The results of a jaxpr."""
        jaxpr = getattr(closed, "jaxpr", closed)
        constants = list(getattr(closed, "consts", ())) if constants is None else constants
        values: dict[Any, Any] = {}

        def read(atom: Any) -> Any:
            if isinstance(atom, jax.extend.core.Literal):
                return np.asarray(atom.val)
            return values[atom]

        values.update(zip(jaxpr.constvars, map(_constant, constants), strict=True))
        values.update(zip(jaxpr.invars, arguments, strict=True))
        for equation in jaxpr.eqns:
            outer, found = self.place, place_of(equation)
            self.place = found if found.line else outer
            results = self._step(equation, [read(atom) for atom in equation.invars])
            values.update(zip(equation.outvars, results, strict=True))
            self.place = outer
        return [read(atom) for atom in jaxpr.outvars]

    def _step(self, equation: Any, arguments: list[Any]) -> list[Any]:
        name = equation.primitive.name
        is_random = name.startswith("random_") or name == "threefry2x32"
        if (is_random or any(isinstance(a, Drawn) for a in arguments)) and name not in (*CALLS, *LOOPS):
            if not all(isinstance(argument, (np.ndarray, Drawn)) for argument in arguments):
                raise self.refuse(f"the model meets random numbers: {REFUSED['random_bits']}")
            return [Drawn() for _ in equation.outvars]
        if all(isinstance(argument, np.ndarray) for argument in arguments) and name not in CALLS:
            return self._numbers(equation, arguments)
        if name in CALLS:
            inner = equation.params[CALLS[name]]
            return self.run(inner, arguments)
        if name == "scan":
            return self._scan(equation.params, arguments)
        if name == "cond":
            return self._cond(equation.params, arguments)
        if name == "while":
            return self._while(equation.params, arguments)
        if all(isinstance(argument, (np.ndarray, Narrow)) for argument in arguments):
            avals = [variable.aval for variable in equation.outvars]
            return self.prologue.record(equation.primitive, _plain(equation.params), arguments, avals)
        return self.equation(equation, name, arguments)

    def _numbers(self, equation: Any, arguments: list[Any]) -> list[Any]:
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            results = equation.primitive.bind(*map(jnp.asarray, arguments), **equation.params)
            results = results if equation.primitive.multiple_results else [results]
            return [np.asarray(result) for result in results]

    def _cond(self, params: dict[str, Any], arguments: list[Any]) -> list[Any]:
        index, *operands = arguments
        if not isinstance(index, np.ndarray):
            raise self.refuse("a branch that depends on the data is not understood; jnp.where is a function of entries")
        return self.run(params["branches"][int(index)], operands)

    def _while(self, params: dict[str, Any], arguments: list[Any]) -> list[Any]:
        """A loop that goes on as long as numbers say, such as one over a counter."""
        count, fixed = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        conditions, body, carry = arguments[:count], arguments[count:fixed], arguments[fixed:]
        for _ in range(MOST_STEPS):
            (goes_on,) = self.run(params["cond_jaxpr"], [*conditions, *carry])
            if not isinstance(goes_on, np.ndarray):
                raise self.refuse(f"this loop is not understood: {DATA_DEPENDENT_LOOP}")
            if not goes_on:
                return carry
            carry = self.run(params["body_jaxpr"], [*body, *carry])
        raise self.refuse(f"a loop of more than {MOST_STEPS} steps is longer than those that are unrolled")

    def _scan(self, params: dict[str, Any], arguments: list[Any]) -> list[Any]:
        length, consts, carries = params["length"], params["num_consts"], params["num_carry"]
        if length > MOST_STEPS:
            raise self.refuse(f"a loop of {length} steps is longer than the {MOST_STEPS} that are unrolled")
        fixed, carry, over = arguments[:consts], arguments[consts : consts + carries], arguments[consts + carries :]
        outputs: list[list[Any]] = []
        steps = range(length)[::-1] if params["reverse"] else range(length)
        for step in steps:
            results = self.run(params["jaxpr"], [*fixed, *carry, *(self._any_at(value, step) for value in over)])
            carry = results[:carries]
            outputs.append(results[carries:])
        if params["reverse"]:
            outputs.reverse()
        return [*carry, *(self._any_stacked(list(column)) for column in zip(*outputs, strict=True))]

    def _any_at(self, value: Any, index: int) -> Any:
        if isinstance(value, np.ndarray):
            return value[index]
        if isinstance(value, Drawn):
            return value
        if isinstance(value, Narrow):
            return self._narrow(lambda v: jax.lax.index_in_dim(v, index, keepdims=False), value)
        return self.at(value, index)

    def _any_stacked(self, values: list[Any]) -> Any:
        if all(isinstance(value, np.ndarray) for value in values):
            return np.stack(values)
        if any(isinstance(value, Drawn) for value in values):
            return Drawn()
        if all(isinstance(value, (np.ndarray, Narrow)) for value in values):
            return self._narrow(lambda *vs: jnp.stack(vs), *values)
        return self.stacked(values)

    def _narrow(self, fn: Any, *values: Any) -> Any:
        """A function of what depends on the input alone, as steps of the prologue."""
        structs = [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in values]
        with jax.enable_x64(True):
            closed = jax.make_jaxpr(fn)(*structs)
        return self.run(closed, list(values))[0]


def _constant(value: Any) -> Any:
    """An array as NumPy; keys of random numbers are refused where they are used."""
    return Drawn() if jnp.issubdtype(jnp.result_type(value), jax.dtypes.prng_key) else np.asarray(value)


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters without the precision that was traced."""
    return params | {"preferred_element_type": None} if "preferred_element_type" in params else params
