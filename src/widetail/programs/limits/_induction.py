"""The induction over statements that every limit follows, however its expectations are computed.

Products with one matrix have the covariance var E[h h'], products with different matrices none, linear combinations
are bilinear (appendix A of the paper; Yang, 2019). Tangents follow the same rules; see `_tangent`.
"""

import abc
from collections.abc import Callable, Generator
from typing import Any, Literal

from widetail.programs.statements import Constant, Given, Graph, InputProduct, LinComb, Line, Term

Steps = Generator[Any, Any, Any]
# A side of a pair of inputs, and a place in the program of that side.
Variable = tuple[int, int]
Bilinear = Literal["covariance", "tangent"]


def run(steps: Steps) -> Any:
    """Carry out steps that ask for values or for other steps: recursion without Python's limit on its depth."""
    stack, value = [steps], None
    while stack:
        try:
            value = stack[-1].send(value)
            if isinstance(value, Generator):
                stack.append(value)
                value = None
        except StopIteration as end:
            stack.pop()
            value = end.value
    return value


class Induction(abc.ABC):
    """Means, covariances and tangents of G-variables, from expectations of products of vectors.

    A subclass says how expectations are computed, and what stands for a number per pair of inputs: an array, or a sum
    that is yet to be computed. None always stands for zero whatever the inputs are. Methods that ask for other
    quantities are generators, for `run`.

    Attributes:
        graphs: the program of each side.
        found: what was computed before, by kind and variables.
    """

    def __init__(self, graphs: tuple[Graph, ...]):
        self.graphs = graphs
        self.found: dict[Any, Any] = {}

    @abc.abstractmethod
    def moment(self, a: Variable, b: Variable) -> Steps:
        """E[a b] of vectors of any kind."""

    @abc.abstractmethod
    def moment_tangent(self, a: Variable, b: Variable) -> Steps:
        """The tangent of vectors of any kind."""

    @abc.abstractmethod
    def constant(self, side: int, value: float) -> Any:
        """A number, the same for all inputs."""

    @abc.abstractmethod
    def combined(self, variable: Variable, parts: list[tuple[Term, Any]]) -> Steps:
        """The sum of parts for a linear combination, each times the factor of its term."""

    @abc.abstractmethod
    def added(self, first: Any, second: Any) -> Any:
        """The sum of two parts, either of which may be None."""

    @abc.abstractmethod
    def times_variance(self, name: str, part: Any) -> Any:
        """The variance of a matrix times a part."""

    @abc.abstractmethod
    def of_inputs(self, sides: tuple[int, int], one: InputProduct, other: InputProduct) -> Any:
        """The covariance of the products of one input matrix with two inputs."""

    @abc.abstractmethod
    def of_bias(self, name: str) -> Any:
        """The variance of a bias."""

    @abc.abstractmethod
    def of_network(self, kind: Bilinear, sides: tuple[int, int], one: Given, other: Given) -> Any:
        """The covariance or the tangent of what a network makes at two positions."""

    def line(self, variable: Variable) -> Line:
        """The statement that defines a variable, and what is known of it."""
        return self.graphs[variable[0]].lines[variable[1]]

    def expectation(self, a: Variable) -> Steps:
        """E[a] of a G-variable."""
        key = ("mean", a)
        if key not in self.found:
            statement, found = self.line(a).statement, None
            if isinstance(statement, Constant) and statement.value:
                found = self.constant(a[0], statement.value)
            elif isinstance(statement, LinComb):
                found = yield self._combination(a, self.expectation)
            self.found[key] = found
        return self.found[key]

    def bilinear(self, kind: Bilinear, a: Variable, b: Variable) -> Steps:
        """The covariance or the tangent of two G-variables."""
        a, b = min(a, b), max(a, b)
        key = (kind, a, b)
        if key not in self.found:
            first, second = self.line(a), self.line(b)
            found = None
            if not first.roots & second.roots:
                pass
            elif isinstance(first.statement, LinComb):
                found = yield self._combination(a, lambda part: self.bilinear(kind, part, b))
            elif isinstance(second.statement, LinComb):
                found = yield self._combination(b, lambda part: self.bilinear(kind, a, part))
            else:
                found = yield self._of_roots(kind, a, b)
            self.found[key] = found
        return self.found[key]

    def _combination(self, variable: Variable, ask: Callable[[Variable], Steps]) -> Steps:
        """The linear combination of what is asked for each of its variables."""
        statement = self.line(variable).statement
        assert isinstance(statement, LinComb)
        parts = []
        for term in statement.terms:
            part = yield ask((variable[0], term.variable))
            if part is not None:
                parts.append((term, part))
        return (yield self.combined(variable, parts)) if parts else None

    def _of_roots(self, kind: Bilinear, a: Variable, b: Variable) -> Steps:
        """The same of two products with one matrix, or of one bias."""
        one, other, sides = self.line(a).statement, self.line(b).statement, (a[0], b[0])
        if kind == "covariance":
            return (yield one.covariance(other, sides, self))
        if isinstance(one, Given) and isinstance(other, Given):
            return self.of_network("tangent", sides, one, other)
        own = yield self.bilinear("covariance", a, b)
        return self.added(own, (yield one.tangent_below(other, sides, self)))

    def kernels(self, a: Variable, b: Variable, *, tangent: bool) -> Steps:
        """The kernel of the readout's outputs, E[a b], and the tangent kernel if it is wanted, or None.

        The tangent kernel counts the weights of the readout themselves, and what is below.
        """
        moment = yield self.moment(a, b)
        if not tangent:
            return moment, None
        return moment, self.added(moment, (yield self.moment_tangent(a, b)))
