"""A program as data: its statements, and what is known of them before any number is computed."""

import dataclasses
from typing import Any, Literal

from widetail.programs._source import Place

Kind = Literal["G", "H", "S"]
RandomKind = Literal["matrix", "input_matrix", "bias"]


@dataclasses.dataclass(frozen=True)
class Random:
    """A random matrix (an A-variable) or a random vector that all data points share.

    Attributes:
        name: its name in the program, the same for inputs of every length.
        kind: "matrix" (width x width), "input_matrix" (width x features) or "bias" (a vector).
        var: the variance as written: of entries times fan-in for matrices, of entries for a bias.
        place: where it is made.
    """

    name: str
    kind: RandomKind
    var: Any
    place: Place


@dataclasses.dataclass(frozen=True)
class Constant:
    """A G-variable whose entries are all the same number."""

    value: float


@dataclasses.dataclass(frozen=True)
class InputProduct:
    """An input matrix times the input at one position: a G-variable."""

    matrix: str
    position: int


@dataclasses.dataclass(frozen=True)
class BiasVector:
    """A bias: a G-variable."""

    bias: str


@dataclasses.dataclass(frozen=True)
class MatMul:
    """A matrix times a vector: a G-variable."""

    matrix: str
    vector: int


@dataclasses.dataclass(frozen=True)
class Term:
    """One summand of a linear combination: number x scalar (if any) x variable."""

    number: float
    scalar: int | None
    variable: int


@dataclasses.dataclass(frozen=True)
class LinComb:
    """A linear combination: a G-variable if all of its variables are, an H-variable otherwise."""

    terms: tuple[Term, ...]


@dataclasses.dataclass(frozen=True)
class Nonlin:
    """A function of the entries of vectors, which may have scalars as parameters: an H-variable."""

    fn: Any
    arguments: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Average:
    """The mean over the width of a vector: a scalar, which the limit makes a number per data point."""

    vector: int


@dataclasses.dataclass(frozen=True)
class ScalarFunction:
    """A function of scalars."""

    fn: Any
    arguments: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Presence:
    """1 where the input has something at a position, 0 where it is padding: a scalar."""

    position: int


Statement = Constant | InputProduct | BiasVector | MatMul | LinComb | Nonlin | Average | ScalarFunction | Presence


@dataclasses.dataclass(frozen=True)
class Line:
    """A statement with what it defines.

    Attributes:
        statement: what is computed.
        kind: "G" (Gaussian vector), "H" (its image) or "S" (scalar).
        name: what the program calls it.
        place: where it stands.
        roots: for a G-variable, the random matrices and vectors it is linear in; variables without a common
            root are independent.
        support: for a vector, the G-variables it is a function of.
    """

    statement: Statement
    kind: Kind
    name: str
    place: Place
    roots: frozenset[str]
    support: tuple[int, ...]


class Graph:
    """A program, traced for inputs of one shape.

    Attributes:
        input_shape: shape of one input, without the rows.
        masked: whether the last feature says which positions are there.
        lines: the statements in the order of their execution; variables are places in this list.
        randoms: the matrices and biases by name.
        output: the variable that the readout sees.
    """

    def __init__(self, input_shape: tuple[int, ...], masked: bool):
        self.input_shape = input_shape
        self.masked = masked
        self.lines: list[Line] = []
        self.randoms: dict[str, Random] = {}
        self.output = -1
        self._names: dict[tuple[str, str], int] = {}

    @property
    def space(self) -> tuple[int, ...]:
        """Positions of one input."""
        return self.input_shape[:-1]

    @property
    def features(self) -> int:
        """Features of an input at one position, the flag of presence not counted."""
        return self.input_shape[-1] - self.masked

    def unique_name(self, name: str, among: Literal["randoms", "lines"]) -> str:
        """`name`, or `name.1`, `name.2` and so on when it is taken."""
        count = self._names.get((among, name), 0)
        self._names[among, name] = count + 1
        return f"{name}.{count}" if count else name

    def add(self, statement: Statement, kind: Kind, place: Place) -> int:
        """Append a statement; the variable it defines."""
        index = len(self.lines)
        roots: frozenset[str] = frozenset()
        support: tuple[int, ...] = ()
        if kind == "G":
            roots = self._roots(statement)
            support = () if isinstance(statement, Constant) else (index,)
        elif kind == "H":
            found = {g for used in self.used_by(statement) for g in self.lines[used].support}
            support = tuple(sorted(found))
        prefix = {"G": "g", "H": "h", "S": "s"}[kind]
        self.lines.append(Line(statement, kind, self.unique_name(place.name or prefix, "lines"), place, roots, support))
        return index

    def _roots(self, statement: Statement) -> frozenset[str]:
        if isinstance(statement, (MatMul, InputProduct)):
            return frozenset([statement.matrix])
        if isinstance(statement, BiasVector):
            return frozenset([statement.bias])
        if isinstance(statement, LinComb):
            return frozenset().union(*(self.lines[term.variable].roots for term in statement.terms))
        return frozenset()

    def used_by(self, statement: Statement) -> tuple[int, ...]:
        """The variables that a statement reads."""
        if isinstance(statement, (MatMul, Average)):
            return (statement.vector,)
        if isinstance(statement, LinComb):
            scalars = [term.scalar for term in statement.terms if term.scalar is not None]
            return (*(term.variable for term in statement.terms), *scalars)
        if isinstance(statement, (Nonlin, ScalarFunction)):
            return statement.arguments
        return ()

    def needed(self) -> list[int]:
        """The variables that the output depends on, in the order of their execution."""
        found, waiting = set(), [self.output]
        while waiting:
            index = waiting.pop()
            if index not in found:
                found.add(index)
                waiting.extend(self.used_by(self.lines[index].statement))
        return sorted(found)
