"""H-variables as functions of Gaussian variables, in a form that can be compared and compiled."""

import dataclasses
import functools
from typing import Any

import jax.numpy as jnp

from widetail import nn
from widetail.programs._functions import apply_function, recognise
from widetail.programs._statements import Average, Constant, Graph, LinComb, MatMul, Nonlin

# ("g", k): the k-th Gaussian argument; ("s", k): the k-th scalar; ("c", value): a constant;
# ("n", fn, (expressions)): a function; ("l", ((number, scalar or None, expression), ...)): a linear combination
Expression = tuple[Any, ...]
IDENTITY: Expression = ("g", 0)

# Terms of a sum with at most so many Gaussian arguments are integrated one by one: two of them give four dimensions.
FEW_ARGUMENTS = 2


@dataclasses.dataclass(frozen=True)
class Atom:
    """A function of a few G-variables.

    Attributes:
        key: distinguishes it within its program.
        expression: the function; atoms with equal expressions are the same function of different variables.
        gaussians: the variables that are its arguments.
        scalars: the scalars that are its parameters.
    """

    key: str
    expression: Expression
    gaussians: tuple[int, ...]
    scalars: tuple[int, ...]

    @property
    def activation(self) -> nn.Activation | None:
        """The activation of `nn` that it is, if it is one."""
        if self.expression[0] == "n" and self.expression[2] == (IDENTITY,):
            return recognise(self.expression[1])
        return None

    @property
    def is_gaussian(self) -> bool:
        """Whether it is a G-variable itself."""
        return self.expression == IDENTITY


@dataclasses.dataclass(frozen=True)
class Part:
    """A summand of a vector: number x scalars x atom, or without an atom, a constant."""

    number: float
    scalars: tuple[int, ...]
    atom: Atom | None


class Decomposition:
    """Vectors of one program as sums of functions of few Gaussian variables."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self._parts: dict[int, tuple[Part, ...]] = {}

    def parts(self, index: int) -> tuple[Part, ...]:
        """The summands of a vector."""
        if index not in self._parts:
            self._parts[index] = tuple(self._split(index))
        return self._parts[index]

    def factors(self, index: int) -> tuple[int, int] | None:
        """The two vectors whose product a vector is written as; None if it is not."""
        statement = self.graph.lines[index].statement
        if not isinstance(statement, Nonlin):
            return None
        if statement.fn is jnp.square:
            return statement.arguments[0], statement.arguments[0]
        kinds = [self.graph.lines[argument].kind for argument in statement.arguments]
        return statement.arguments if statement.fn is jnp.multiply and "S" not in kinds else None  # type: ignore[return-value]

    @functools.cached_property
    def dimensions(self) -> int:
        """Of the largest integral that the kernel needs."""
        found = [2 * self._arguments(self.graph.output)]
        for index in self.graph.needed():
            statement = self.graph.lines[index].statement
            if isinstance(statement, MatMul):
                found.append(2 * self._arguments(statement.vector))
            elif isinstance(statement, Average):
                factors = self.factors(statement.vector)
                found.append(sum(map(self._arguments, factors)) if factors else self._arguments(statement.vector))
        return max(found)

    def _arguments(self, index: int) -> int:
        return max((len(part.atom.gaussians) for part in self.parts(index) if part.atom is not None), default=0)

    def _split(self, index: int) -> list[Part]:
        line = self.graph.lines[index]
        statement = line.statement
        if isinstance(statement, Constant):
            return [Part(statement.value, (), None)] if statement.value else []
        if line.kind == "G":
            return [Part(1.0, (), Atom(str(index), IDENTITY, (index,), ()))]
        if not isinstance(statement, LinComb):
            return [Part(1.0, (), self.atom(index))]
        small: list[Part] = []
        large = []
        sizes = [len(self.graph.lines[term.variable].support) for term in statement.terms]
        # next to a term that needs sampling anyway, one more variable costs less than one more integral
        few = FEW_ARGUMENTS if max(sizes, default=0) <= FEW_ARGUMENTS else 1
        for term, size in zip(statement.terms, sizes, strict=True):
            if size <= few:
                scalars = () if term.scalar is None else (term.scalar,)
                small += [
                    Part(term.number * part.number, scalars + part.scalars, part.atom)
                    for part in self.parts(term.variable)
                ]
            else:
                large.append(term)
        if len(large) == len(statement.terms):
            return [Part(1.0, (), self.atom(index))]
        if large:
            small.append(Part(1.0, (), self._make(f"{index}+", LinComb(tuple(large)))))
        return small

    def atom(self, index: int) -> Atom:
        """A vector as one function of all of its Gaussian variables."""
        return self._make(str(index), self.graph.lines[index].statement)

    def _make(self, key: str, statement: Any) -> Atom:
        gaussians: dict[int, int] = {}
        scalars: dict[int, int] = {}
        known: dict[int, Expression] = {}

        def express(index: int) -> Expression:
            if index not in known:
                line = self.graph.lines[index]
                if isinstance(line.statement, Constant):
                    known[index] = ("c", line.statement.value)
                elif line.kind == "G":
                    known[index] = ("g", gaussians.setdefault(index, len(gaussians)))
                elif line.kind == "S":
                    known[index] = ("s", scalars.setdefault(index, len(scalars)))
                else:
                    known[index] = express_statement(line.statement)
            return known[index]

        def express_statement(statement: Any) -> Expression:
            if isinstance(statement, Nonlin):
                return ("n", statement.fn, tuple(express(argument) for argument in statement.arguments))
            return (
                "l",
                tuple(
                    (term.number, None if term.scalar is None else express(term.scalar), express(term.variable))
                    for term in statement.terms
                ),
            )

        expression = express_statement(statement)
        return Atom(key, expression, tuple(gaussians), tuple(scalars))


def evaluate(expression: Expression, gaussians: Any, scalars: Any, like: Any) -> Any:
    """The value of an expression, given those of its arguments; shared parts are computed once."""
    known: dict[int, Any] = {}

    def value(node: Expression) -> Any:
        if id(node) not in known:
            known[id(node)] = compute(node)
        return known[id(node)]

    def compute(node: Expression) -> Any:
        tag = node[0]
        if tag == "g":
            return gaussians[node[1]]
        if tag == "s":
            return scalars[node[1]]
        if tag == "c":
            return jnp.full_like(like, node[1])
        if tag == "n":
            return apply_function(node[1], tuple(value(argument) for argument in node[2]))
        total = jnp.zeros_like(like)
        for number, scalar, argument in node[1]:
            product = number * value(argument)
            total = total + (product if scalar is None else product * value(scalar))
        return total

    return value(expression)
