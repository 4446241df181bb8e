"""A program as data: its statements, and what is known of them before any number is computed."""

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from widetail.checks import check_variance
from widetail.programs.language._source import InputError, ProgramError, SourceLine

if TYPE_CHECKING:
    from widetail.programs.limits._induction import Induction

Kind = Literal["G", "H", "S"]
RandomKind = Literal["matrix", "input_matrix", "bias"]
# Of statements that stand for no line of a text.
NOWHERE = SourceLine("<graph>", 0)
# The common root of all that a network below a program makes; no random matrix has this name.
NETWORK = "<network>"


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
    place: SourceLine


class Statement:
    """What a line of a program computes, and the rules for it that do not depend on how expectations are computed."""

    @property
    def uses(self) -> tuple[int, ...]:
        """The variables that it reads."""
        return ()

    @property
    def random(self) -> tuple[str, RandomKind] | None:
        """The name of the random matrix or vector that it reads, and what that must be."""
        return None

    def kind(self, lines: Sequence["Line"]) -> Kind:
        """What it defines: "G" (a Gaussian vector), "H" (its image) or "S" (a scalar)."""
        return "G"

    def roots(self, lines: Sequence["Line"]) -> frozenset[str]:
        """The random matrices and vectors that it is linear in."""
        return frozenset() if self.random is None else frozenset([self.random[0]])

    def covariance(self, other: Any, sides: tuple[int, int], induction: "Induction") -> Any:
        """The covariance with another product with the same matrix, or with the same bias.

        Here and below, a value or the steps to one; see `Induction`.
        """
        raise TypeError(f"{type(self).__name__} has no covariance of its own")

    def tangent_below(self, other: Any, sides: tuple[int, int], induction: "Induction") -> Any:
        """The tangent with another product, without what the matrix itself adds, which is the covariance."""
        return None


class ScalarStatement(Statement):
    """What defines a number per data point."""

    def kind(self, lines: Sequence["Line"]) -> Kind:
        return "S"


@dataclasses.dataclass(frozen=True)
class Constant(Statement):
    """A G-variable whose entries are all the same number."""

    value: float


@dataclasses.dataclass(frozen=True)
class InputProduct(Statement):
    """An input matrix times the input at one position: a G-variable."""

    matrix: str
    position: int

    @property
    def random(self) -> tuple[str, RandomKind] | None:
        return self.matrix, "input_matrix"

    def covariance(self, other: Any, sides: tuple[int, int], induction: "Induction") -> Any:
        return induction.of_inputs(sides, self, other)


@dataclasses.dataclass(frozen=True)
class Given(Statement):
    """What a network below the program makes at one of its positions: a G-variable, see `on_network`."""

    position: int

    def roots(self, lines: Sequence["Line"]) -> frozenset[str]:
        return frozenset([NETWORK])

    def covariance(self, other: Any, sides: tuple[int, int], induction: "Induction") -> Any:
        return induction.of_network("covariance", sides, self, other)


@dataclasses.dataclass(frozen=True)
class BiasVector(Statement):
    """A bias: a G-variable."""

    bias: str

    @property
    def random(self) -> tuple[str, RandomKind] | None:
        return self.bias, "bias"

    def covariance(self, other: Any, sides: tuple[int, int], induction: "Induction") -> Any:
        return induction.of_bias(self.bias)


@dataclasses.dataclass(frozen=True)
class MatMul(Statement):
    """A matrix times a vector: a G-variable."""

    matrix: str
    vector: int

    @property
    def random(self) -> tuple[str, RandomKind] | None:
        return self.matrix, "matrix"

    @property
    def uses(self) -> tuple[int, ...]:
        return (self.vector,)

    def covariance(self, other: Any, sides: tuple[int, int], induction: "Induction") -> Any:
        moment = yield induction.moment((sides[0], self.vector), (sides[1], other.vector))
        return None if moment is None else induction.times_variance(self.matrix, moment)

    def tangent_below(self, other: Any, sides: tuple[int, int], induction: "Induction") -> Any:
        below = yield induction.moment_tangent((sides[0], self.vector), (sides[1], other.vector))
        return None if below is None else induction.times_variance(self.matrix, below)


@dataclasses.dataclass(frozen=True)
class Term:
    """One summand of a linear combination: number x scalar (if any) x variable."""

    number: float
    scalar: int | None
    variable: int


@dataclasses.dataclass(frozen=True)
class LinComb(Statement):
    """A linear combination: a G-variable if all of its variables are, an H-variable otherwise."""

    terms: tuple[Term, ...]

    @property
    def uses(self) -> tuple[int, ...]:
        scalars = [term.scalar for term in self.terms if term.scalar is not None]
        return (*(term.variable for term in self.terms), *scalars)

    def kind(self, lines: Sequence["Line"]) -> Kind:
        return "G" if all(lines[term.variable].kind == "G" for term in self.terms) else "H"

    def roots(self, lines: Sequence["Line"]) -> frozenset[str]:
        return frozenset().union(*(lines[term.variable].roots for term in self.terms))


@dataclasses.dataclass(frozen=True)
class Nonlin(Statement):
    """A function of the entries of vectors, which may have scalars as parameters: an H-variable."""

    fn: Any
    arguments: tuple[int, ...]

    @property
    def uses(self) -> tuple[int, ...]:
        return self.arguments

    def kind(self, lines: Sequence["Line"]) -> Kind:
        return "H"


@dataclasses.dataclass(frozen=True)
class Average(ScalarStatement):
    """The mean over the width of a vector: a scalar, which the limit makes a number per data point."""

    vector: int

    @property
    def uses(self) -> tuple[int, ...]:
        return (self.vector,)


@dataclasses.dataclass(frozen=True)
class ScalarFunction(ScalarStatement):
    """A function of scalars."""

    fn: Any
    arguments: tuple[int, ...]

    @property
    def uses(self) -> tuple[int, ...]:
        return self.arguments


@dataclasses.dataclass(frozen=True)
class Presence(ScalarStatement):
    """1 where the input has something at a position, 0 where it is padding: a scalar."""

    position: int


@dataclasses.dataclass(frozen=True)
class InputFeature(ScalarStatement):
    """One feature of the input at one position, as it is: a scalar."""

    position: int
    feature: int


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
    place: SourceLine
    roots: frozenset[str]
    support: tuple[int, ...]


class Graph:
    """A program for inputs of one shape: random matrices and biases, and statements in the order of their execution.

    `programs.program` makes one by running the user's function. Other ways into the room build it by hand and hand it
    to `programs.from_graph`.

    Args:
        input_shape: shape of one input, without the rows: (*space, features).
        masked: whether the last feature says which positions are there.

    Attributes:
        lines: the statements; a variable is a place in this list.
        randoms: the matrices and biases by name.
        output: the variable that the readout sees.

    Example:
        >>> import jax.numpy as jnp
        >>> from widetail.programs import statements as st
        >>> graph = st.Graph((3,))
        >>> graph.add_random("U", "input_matrix", 1.5)
        >>> hidden = graph.add(st.InputProduct("U", 0))
        >>> graph.output = graph.add(st.Nonlin(jnp.tanh, (hidden,)), name="h")
        >>> [line.kind for line in graph.lines]
        ['G', 'H']
    """

    def __init__(self, input_shape: tuple[int, ...], masked: bool = False):
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

    def add_random(self, name: str, kind: RandomKind, var: Any, place: SourceLine = NOWHERE) -> None:
        """Add a random matrix or bias.

        Args:
            name: not taken yet; its variance has this name among `Program.variances`.
            kind: "matrix" (width x width), "input_matrix" (width x features) or "bias" (a vector).
            var: the variance, of entries times fan-in for matrices; for input matrices also one per feature.
            place: the line of the user's text that makes it.
        """
        if name in self.randoms:
            raise ProgramError(
                f"there are two random matrices or biases called {name!r}; give each its own name", place
            )
        check_variance("var", var, may_be_vector=kind == "input_matrix")
        if np.ndim(var) == 1 and len(var) != self.features:
            raise InputError(
                f"var of {name!r} has {len(var)} entries, but the inputs have {self.features} features", place
            )
        self.randoms[name] = Random(name, kind, var, place)

    def add(self, statement: Statement, place: SourceLine = NOWHERE, *, name: str | None = None) -> int:
        """Append a statement; the variable that it defines.

        Args:
            statement: what is computed, from variables and matrices that are there already.
            place: the line of the user's text that it stands for, which messages name.
            name: what `explain` calls it; by default what the place says, or a letter.
        """
        index = len(self.lines)
        for used in statement.uses:
            if not 0 <= used < index:
                raise ProgramError(f"{statement} reads variable {used}, but there are {index} variables so far", place)
        if statement.random is not None:
            random, wanted = statement.random
            there = self.randoms.get(random)
            if there is None or there.kind != wanted:
                got = "none of that name" if there is None else f"{random!r} is of kind {there.kind!r}"
                raise ProgramError(f"{statement} needs a random of kind {wanted!r}; {got}", place)
        position = getattr(statement, "position", 0)
        if not 0 <= position < math.prod(self.space):
            raise InputError(f"{statement} reads position {position} of inputs with {math.prod(self.space)}", place)
        if isinstance(statement, InputFeature) and not 0 <= statement.feature < self.features:
            raise InputError(f"{statement} reads a feature of inputs with {self.features}", place)
        kind = statement.kind(self.lines)
        roots: frozenset[str] = frozenset()
        support: tuple[int, ...] = ()
        if kind == "G":
            roots = statement.roots(self.lines)
            support = () if isinstance(statement, Constant) else (index,)
        elif kind == "H":
            found = {g for used in statement.uses for g in self.lines[used].support}
            support = tuple(sorted(found))
        prefix = {"G": "g", "H": "h", "S": "s"}[kind]
        unique = self.unique_name(name or place.name or prefix, "lines")
        self.lines.append(Line(statement, kind, unique, place, roots, support))
        return index

    def needed(self) -> list[int]:
        """The variables that the output depends on, in the order of their execution."""
        found, waiting = set(), [self.output]
        while waiting:
            index = waiting.pop()
            if index not in found:
                found.add(index)
                waiting.extend(self.lines[index].statement.uses)
        return sorted(found)
