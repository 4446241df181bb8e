"""Graphs of statements that were not written in the language, but by another front end."""

from collections.abc import Callable
from typing import Any

from widetail.programs.language._functions import wrong_with
from widetail.programs.language._source import InputError, ProgramError
from widetail.programs.statements import (
    Average,
    Graph,
    Kind,
    LinComb,
    MatMul,
    Nonlin,
    Presence,
    ScalarFunction,
    Statement,
)


class GraphMaker:
    """A function from shapes of inputs to graphs, which it checks; stands in for a function of the language."""

    def __init__(self, make: Callable[[tuple[int, ...]], Graph], name: str):
        self.make = make
        self.__name__ = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphMaker) and (self.make, self.__name__) == (other.make, other.__name__)

    def __hash__(self) -> int:
        return hash((self.make, self.__name__))

    def __call__(self, *_: Any) -> Any:
        raise TypeError(f"{self.__name__} makes graphs of statements; it is not a function of the language")

    def graph(self, input_shape: tuple[int, ...]) -> Graph:
        """The graph for inputs of one shape, checked as the language checks what it writes down."""
        graph = self.make(input_shape)
        if not isinstance(graph, Graph):
            raise ProgramError(f"{self.__name__}: a Graph is expected for inputs of shape {input_shape}; got {graph!r}")
        if graph.input_shape != input_shape:
            raise InputError(f"it was made for inputs of shape {graph.input_shape}; got {input_shape}")
        if not 0 <= graph.output < len(graph.lines) or graph.lines[graph.output].kind == "S":
            raise ProgramError(f"{self.__name__}: graph.output must be a vector of the graph; got {graph.output}")
        for line in graph.lines:
            wrong = _wrong(graph, line.statement)
            if wrong:
                raise ProgramError(f"{line.statement}: {wrong}", line.place)
        return graph


def _wrong(graph: Graph, statement: Statement) -> str | None:
    """What is wrong with a statement; None where nothing is."""
    vectors: tuple[int, ...] = ()
    scalars: tuple[int, ...] = ()
    match statement:
        case MatMul() | Average():
            vectors = (statement.vector,)
        case LinComb():
            vectors = tuple(term.variable for term in statement.terms)
            scalars = tuple(term.scalar for term in statement.terms if term.scalar is not None)
        case ScalarFunction():
            scalars = statement.arguments
        case Nonlin():
            kinds: list[Kind] = [graph.lines[argument].kind for argument in statement.arguments]
            return wrong_with(statement.fn, kinds) if {"G", "H"} & set(kinds) else "needs at least one vector"
        case Presence() if not graph.masked:
            return "needs inputs that say which positions are there, Graph(input_shape, masked=True)"
    for expected, indices in (("a vector", vectors), ("a scalar", scalars)):
        for index in indices:
            if (graph.lines[index].kind == "S") != (expected == "a scalar"):
                return f"{expected} is expected; {graph.lines[index].name} (variable {index}) is not one"
    return None
