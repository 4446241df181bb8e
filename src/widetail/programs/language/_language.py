"""The language: what `p` offers a program, and how a program is written down."""

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import jax
import numpy as np

from widetail import nn
from widetail.programs.language._derived import SoftmaxEntry
from widetail.programs.language._front_end import GraphMaker
from widetail.programs.language._functions import wrong_with
from widetail.programs.language._source import InputError, ProgramError, SourceLine, here, line_of
from widetail.programs.language._values import (
    Input,
    InputMatrix,
    Inputs,
    Matrix,
    Output,
    Readout,
    Scalar,
    Value,
    Vector,
)
from widetail.programs.statements import (
    Average,
    BiasVector,
    Constant,
    Graph,
    LinComb,
    Nonlin,
    RandomKind,
    ScalarFunction,
    Statement,
    Term,
)


class Builder:
    """The `p` of a program: makes its variables and writes down its statements."""

    def __init__(self, input_shape: tuple[int, ...], masked: bool):
        self.graph = Graph(input_shape, masked)

    # What programs call.

    def matrix(self, var: Any = 1.0) -> Matrix:
        """A random matrix, width x width, of entries N(0, var / width)."""
        return Matrix(self, self._random("matrix", "W", var))

    def input_matrix(self, var: Any = 1.0) -> InputMatrix:
        """A random matrix, width x features, of entries N(0, var / features).

        `var` may be a vector with one variance per feature.
        """
        return InputMatrix(self, self._random("input_matrix", "U", var))

    def bias(self, var: Any = 1.0) -> Vector:
        """A random vector of entries N(0, var), the same for every data point and position."""
        name = self._random("bias", "b", var)
        return Vector(self, self.add(BiasVector(name), here()))

    def zeros(self) -> Vector:
        """The vector of zeros."""
        return Vector(self, self.add(Constant(0.0), here()))

    def ones(self) -> Vector:
        """The vector of ones."""
        return Vector(self, self.add(Constant(1.0), here()))

    def nonlin(self, fn: Any, *arguments: Any) -> Vector:
        """A function of the entries of vectors, and of scalars.

        Args:
            fn: a JAX function of as many arrays as there are arguments that acts entry by entry, such as
                `jnp.tanh`; or an activation of `nn`, such as `nn.Erf()`.
            *arguments: vectors (G or H) and scalars; at least one vector.
        """
        place = here()
        if isinstance(fn, type) and issubclass(fn, nn.Layer):
            raise ProgramError(f"p.nonlin: {fn.__name__} is a class; call it, nn.{fn.__name__}()", place)
        if not callable(fn) and not isinstance(fn, nn.Activation):
            raise ProgramError(f"p.nonlin needs a function first; got {fn!r}", place)
        if isinstance(fn, nn.Activation) and any(
            isinstance(leaf, (jax.Array, np.ndarray)) for leaf in jax.tree.leaves(fn)
        ):
            raise ProgramError(f"p.nonlin: the parameters of {fn!r} must be plain numbers", place)
        try:
            hash(fn)
        except TypeError:
            raise ProgramError(f"p.nonlin: {fn!r} cannot be hashed; wrap it in a plain function", place) from None
        for argument in arguments:
            if isinstance(argument, (Input, Inputs)):
                raise ProgramError(
                    "p.nonlin cannot take an input itself: its features do not grow with the width; "
                    "multiply it by an input matrix first, U @ x",
                    place,
                )
            if not isinstance(argument, Scalar):
                self.own(Vector, argument, "p.nonlin takes vectors and scalars")
        vectors = [argument for argument in arguments if isinstance(argument, Vector)]
        if not vectors:
            raise ProgramError("p.nonlin needs at least one vector; a function of scalars is p.scalar(fn, ...)", place)
        wrong = wrong_with(fn, [argument.kind if isinstance(argument, Vector) else "S" for argument in arguments])
        if wrong:
            raise ProgramError(f"p.nonlin: the function {getattr(fn, '__name__', fn)!r} {wrong}", place)
        return Vector(self, self.add(Nonlin(fn, tuple(argument.index for argument in arguments)), place))

    def average(self, vector: Any) -> Scalar:
        """The mean over the width of a vector's entries, which becomes a number in the limit."""
        if isinstance(vector, Scalar):
            raise ProgramError("p.average takes a vector; a scalar is an average already", here())
        vector = self.own(Vector, vector, "p.average takes a vector")
        return Scalar(self, self.add(Average(vector.index), here()))

    def scalar(self, fn: Callable[..., Any], *arguments: Scalar) -> Scalar:
        """A function of scalars, made of JAX operations."""
        for argument in arguments:
            self.own(Scalar, argument, "p.scalar takes scalars")
        return Scalar(self, self.add(ScalarFunction(fn, tuple(a.index for a in arguments)), here()))

    def softmax(self, scalars: list[Scalar]) -> list[Scalar]:
        """The softmax of scalars, as scalars."""
        return [self.scalar(SoftmaxEntry(index), *scalars) for index in range(len(scalars))]

    def sum(self, vectors: list[Vector]) -> Vector:
        """The sum of vectors, as one linear combination."""
        return self.combine([(1.0, None, self.own(Vector, vector, "p.sum takes vectors")) for vector in vectors])

    def mean(self, vectors: list[Vector]) -> Vector:
        """The mean of vectors (over positions, say), as one linear combination."""
        weight = 1.0 / max(1, len(vectors))
        return self.combine([(weight, None, self.own(Vector, vector, "p.mean takes vectors")) for vector in vectors])

    def weighted_sum(self, weights: list[Scalar], vectors: list[Vector]) -> Vector:
        """The sum of scalars times vectors, as one linear combination."""
        if len(weights) != len(vectors):
            raise ProgramError(
                f"p.weighted_sum needs a weight per vector; got {len(weights)} weights and {len(vectors)} vectors",
                here(),
            )
        return self.combine([(1.0, weight, vector) for weight, vector in zip(weights, vectors, strict=True)])

    def readout(self) -> Readout:
        """The readout vector, for programs that end in `return v @ h`; `return h` means the same."""
        return Readout(self)

    # What the values above call.

    def add(self, statement: Statement, place: SourceLine) -> int:
        """Write a statement down."""
        return self.graph.add(statement, place)

    def combine(self, terms: list[tuple[float, Scalar | None, Vector]]) -> Vector:
        """A linear combination; sums within one line of the program become one statement."""
        place = here()
        flat: list[Term] = []
        for number, scalar, vector in terms:
            self.own(Vector, vector, "a linear combination takes vectors")
            line = self.graph.lines[vector.index]
            inner = line.statement
            if isinstance(inner, Constant) and inner.value == 0:
                continue
            is_temporary = line.place.line == place.line and line.place.name is None
            if isinstance(inner, LinComb) and is_temporary and scalar is None:
                flat += [Term(number * term.number, term.scalar, term.variable) for term in inner.terms]
            else:
                flat.append(Term(number, None if scalar is None else scalar.index, vector.index))
        return Vector(self, self.add(LinComb(tuple(flat)), place))

    def own(self, kind: type, value: Any, expectation: str) -> Any:
        """`value` if it is of the kind and of this program."""
        if isinstance(value, (Readout, Output)):
            value._misused()
        if not isinstance(value, kind):
            got = value.describe() if isinstance(value, Value) else f"{type(value).__name__} {value!r}"
            raise ProgramError(f"{expectation}; got {got}", here())
        if value._builder is not self:
            raise ProgramError(f"{value.describe()} belongs to another program, or to another run of this one", here())
        return value

    def as_vector(self, operation: str, value: Any) -> Vector:
        """A vector as it is, a number as a vector of equal entries."""
        if isinstance(value, Real) and not isinstance(value, bool):
            return self.ones() * float(value)
        if isinstance(value, Scalar):
            return self.ones() * value
        if isinstance(value, (Input, Inputs, Matrix)):
            value._misused()
        return self.own(Vector, value, f"the other side of {operation} must be a vector or a number")

    def as_number(self, operation: str, value: Any) -> float:
        """A plain number."""
        if isinstance(value, Value):
            self.own(Real, value, f"{operation} expects a number or a vector")
        if isinstance(value, (Real, np.generic)) and not isinstance(value, bool) and math.isfinite(float(value)):
            return float(value)
        raise ProgramError(
            f"{operation} expects a finite number, a scalar or a vector; got {type(value).__name__} {value!r}", here()
        )

    def _random(self, kind: RandomKind, default: str, var: Any) -> str:
        place = here()
        name = self.graph.unique_name(place.name or default, "randoms")
        try:
            self.graph.add_random(name, kind, var, place)
        except ProgramError:
            raise
        except ValueError as error:
            raise ProgramError(f"p.{kind}: {error}", place) from None
        return name


def trace(
    fn: Callable[..., Any], settings: dict[str, Any], input_shape: tuple[int, ...], masked: bool = False
) -> Graph:
    """Run a program on symbolic inputs of one shape and write down what it does."""
    if isinstance(fn, GraphMaker):
        return fn.graph(input_shape)
    builder = Builder(input_shape, masked)
    space = input_shape[:-1]
    if builder.graph.features < 1:
        raise InputError("a masked program needs at least one feature beside the flag of presence")
    positions = np.arange(math.prod(space)).reshape(space)
    inputs = Inputs(builder, positions) if space else Input(builder, 0)
    try:
        result = fn(builder, inputs, **settings)
    except TypeError as error:
        if Value.__module__ not in str(error):
            raise
        # some functions of JAX do not look for `__jax_array__`
        message = "a function of JAX, called on a vector: write p.nonlin(fn, h) for a function of its entries"
        raise ProgramError(message, line_of(error)) from None
    if isinstance(result, Output):
        result = result.vector
    if not isinstance(result, Vector) or result._builder is not builder:
        got = result.describe() if isinstance(result, Value) else f"{type(result).__name__} {result!r}"
        code = getattr(fn, "__code__", None)
        place = None if code is None else SourceLine(code.co_filename, code.co_firstlineno)
        raise ProgramError(f"a program must return a vector (the readout is implied); it returned {got}", place)
    builder.graph.output = result.index
    return builder.graph
