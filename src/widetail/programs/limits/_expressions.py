"""H-variables as functions of Gaussian variables, in a form that can be compared and compiled."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from widetail import nn
from widetail.programs.language._functions import apply_function, recognise
from widetail.programs.statements import Constant, Graph, LinComb, Nonlin

# ("g", k): the k-th Gaussian argument; ("s", k): the k-th scalar; ("c", value): a constant;
# ("n", fn, (expressions)): a function; ("l", ((number, scalar or None, expression), ...)): a linear combination
Expression = tuple[Any, ...]
IDENTITY: Expression = ("g", 0)

# Products of sums are multiplied out into at most so many summands.
MOST_PARTS = 64


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
        """The activation of `nn` with a closed form that it is, if it is one."""
        found = self._activation
        return None if isinstance(found, nn.HermiteActivation) else found

    @property
    def least_order(self) -> int:
        """The Hermite polynomials that the user asks for with `nn.Tanh(order=128)` and the like; zero otherwise."""
        return getattr(self._activation, "order", 0)

    @property
    def _activation(self) -> nn.Activation | None:
        if self.expression[0] == "n" and self.expression[2] == (IDENTITY,):
            return recognise(self.expression[1])
        return None

    @property
    def is_gaussian(self) -> bool:
        """Whether it is a G-variable itself."""
        return self.expression == IDENTITY


@dataclasses.dataclass(frozen=True)
class Part:
    """A summand of a vector: number x scalars x product of atoms; without atoms, a constant."""

    number: float
    scalars: tuple[int, ...]
    atoms: tuple[Atom, ...]

    def __mul__(self, other: "Part") -> "Part":
        return Part(self.number * other.number, self.scalars + other.scalars, self.atoms + other.atoms)


class Decomposition:
    """Vectors of one program as sums of products of functions of few Gaussian variables."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self._parts: dict[int, tuple[Part, ...]] = {}

    def parts(self, index: int) -> tuple[Part, ...]:
        """The summands of a vector."""
        if index not in self._parts:
            self._parts[index] = tuple(self._split(index))
        return self._parts[index]

    def _split(self, index: int) -> list[Part]:
        line = self.graph.lines[index]
        statement = line.statement
        if isinstance(statement, Constant):
            return [Part(statement.value, (), ())] if statement.value else []
        if line.kind == "G":
            return [Part(1.0, (), (Atom(str(index), IDENTITY, (index,), ()),))]
        if isinstance(statement, LinComb):
            return [
                Part(term.number, () if term.scalar is None else (term.scalar,), ()) * part
                for term in statement.terms
                for part in self.parts(term.variable)
            ]
        assert isinstance(statement, Nonlin)
        return self._multiplied_out(index, statement) or [Part(1.0, (), (self.atom(index),))]

    def _multiplied_out(self, index: int, statement: Nonlin) -> list[Part] | None:
        """The summands of a product or a quotient of vectors; None for any other function."""
        kinds = [self.graph.lines[argument].kind for argument in statement.arguments]
        # a function of one variable is integrated as it is
        if "S" in kinds or len(self.graph.lines[index].support) < 2:
            return None
        if statement.fn is jnp.multiply:
            first, second = map(self.parts, statement.arguments)
        elif statement.fn is jnp.square:
            first = second = self.parts(statement.arguments[0])
        elif statement.fn is jnp.divide:
            above, below = statement.arguments
            inverse = self._make(f"{index}/", Nonlin(jnp.reciprocal, (below,)))
            first, second = self.parts(above), (Part(1.0, (), (inverse,)),)
        else:
            return None
        if len(first) * len(second) > MOST_PARTS:
            return None
        return [one * other for one in first for other in second]

    def factors(self, index: int) -> tuple[int, int] | None:
        """The two vectors whose product a vector is written as; None if it is not."""
        statement = self.graph.lines[index].statement
        if not isinstance(statement, Nonlin):
            return None
        if statement.fn is jnp.square:
            return statement.arguments[0], statement.arguments[0]
        kinds = [self.graph.lines[argument].kind for argument in statement.arguments]
        return statement.arguments if statement.fn is jnp.multiply and "S" not in kinds else None  # type: ignore[return-value]

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


def product(atoms: tuple[Atom, ...]) -> Atom:
    """The product of functions, as one function of all of their variables."""
    if len(atoms) == 1:
        return atoms[0]
    atoms = tuple(sorted(atoms, key=lambda atom: atom.key))
    gaussians = tuple(dict.fromkeys(g for atom in atoms for g in atom.gaussians))
    scalars = tuple(dict.fromkeys(s for atom in atoms for s in atom.scalars))

    def renumbered(atom: Atom) -> Expression:
        new_g = {k: gaussians.index(g) for k, g in enumerate(atom.gaussians)}
        new_s = {k: scalars.index(s) for k, s in enumerate(atom.scalars)}
        return _renumber(atom.expression, {"g": new_g, "s": new_s})

    expression = functools.reduce(lambda a, b: ("n", jnp.multiply, (a, b)), map(renumbered, atoms))
    return Atom("*".join(atom.key for atom in atoms), expression, gaussians, scalars)


def _renumber(node: Expression, places: dict[str, dict[int, int]]) -> Expression:
    known: dict[int, Expression] = {}

    def new(node: Expression) -> Expression:
        if id(node) not in known:
            tag = node[0]
            if tag in places:
                known[id(node)] = (tag, places[tag][node[1]])
            elif tag == "n":
                known[id(node)] = (tag, node[1], tuple(map(new, node[2])))
            elif tag == "l":
                terms = ((number, None if s is None else new(s), new(argument)) for number, s, argument in node[1])
                known[id(node)] = (tag, tuple(terms))
            else:
                known[id(node)] = node
        return known[id(node)]

    return new(node)


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


def slopes(expression: Expression, arguments: Any, scalars: Any) -> Any:
    """The derivatives of a function of entries in each of its arguments, entry by entry."""

    def added_up(values: Any) -> Any:
        return jnp.sum(jnp.broadcast_to(evaluate(expression, values, scalars, values[0]), values[0].shape))

    return jax.grad(added_up)(tuple(arguments))


def independent_groups(
    graphs: tuple[Graph, ...], atoms1: tuple[Atom, ...], atoms2: tuple[Atom, ...]
) -> list[tuple[tuple[Atom, ...], tuple[Atom, ...]]]:
    """Functions of two inputs, divided into those that depend on common random matrices and biases.

    Gaussian variables without a common one are independent, so the expectation of the product of all functions is the
    product of the expectations of the groups.
    """
    groups: list[tuple[set[str], list[Atom], list[Atom]]] = []
    for side, atoms in enumerate((atoms1, atoms2)):
        for atom in atoms:
            roots = set().union(*(graphs[side].lines[g].roots for g in atom.gaussians))
            new = (roots, [atom] if side == 0 else [], [atom] if side == 1 else [])
            for group in [group for group in groups if group[0] & roots]:
                groups.remove(group)
                new = (new[0] | group[0], group[1] + new[1], group[2] + new[2])
            groups.append(new)
    return [(tuple(first), tuple(second)) for _, first, second in groups]
