"""The language: the symbolic values that a program computes with."""

import math
from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail import nn
from widetail._validation import check_variance
from widetail.programs._functions import complaint, recognise
from widetail.programs._source import InputError, Place, ProgramError, here
from widetail.programs._statements import (
    Average,
    BiasVector,
    Constant,
    Graph,
    InputProduct,
    Kind,
    LinComb,
    MatMul,
    Nonlin,
    Presence,
    Random,
    RandomKind,
    ScalarFunction,
    Statement,
    Term,
)


class Value:
    """Anything that a program can hold in a variable."""

    # NumPy arrays and numbers on the left leave the operation to us.
    __array_ufunc__ = None

    def __init__(self, builder: "Builder"):
        self._builder = builder

    def describe(self) -> str:
        """What it is, for messages."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        raise ProgramError(
            f"the truth of {self.describe()} is not known when the program is written down; "
            f"choose by p.nonlin(jnp.where, ...) or a product with a scalar",
            here(),
        )

    def _refuse(self, operation: str, advice: str) -> ProgramError:
        return ProgramError(f"{operation} {self.describe()}: {advice}", here())


class Vector(Value):
    """A G- or H-variable: a vector as long as the network is wide."""

    def __init__(self, builder: "Builder", index: int):
        super().__init__(builder)
        self.index = index

    @property
    def kind(self) -> Kind:
        """ "G" for a vector that is Gaussian in the limit, "H" for its image under a function."""
        return self._builder.graph.lines[self.index].kind

    def describe(self) -> str:
        return f"a {self.kind}-variable"

    def __add__(self, other: Any) -> "Vector":
        return self._builder.combine([(1.0, None, self), (1.0, None, self._builder.as_vector("+", other))])

    def __radd__(self, other: Any) -> "Vector":
        return self if isinstance(other, Real) and other == 0 else self + other

    def __sub__(self, other: Any) -> "Vector":
        return self._builder.combine([(1.0, None, self), (-1.0, None, self._builder.as_vector("-", other))])

    def __rsub__(self, other: Any) -> "Vector":
        return self._builder.combine([(1.0, None, self._builder.as_vector("-", other)), (-1.0, None, self)])

    def __neg__(self) -> "Vector":
        return self._builder.combine([(-1.0, None, self)])

    def __mul__(self, other: Any) -> "Vector":
        if isinstance(other, Vector):
            return self._builder.nonlin(jnp.multiply, self, other)
        if isinstance(other, Scalar):
            return self._builder.combine([(1.0, other, self)])
        return self._builder.combine([(self._builder.as_number("*", other), None, self)])

    def __rmul__(self, other: Any) -> "Vector":
        return self * other

    def __truediv__(self, other: Any) -> "Vector":
        if isinstance(other, Vector):
            return self._builder.nonlin(jnp.divide, self, other)
        if isinstance(other, Scalar):
            return self * (1.0 / other)
        return self * (1.0 / self._builder.as_number("/", other))

    def __matmul__(self, other: Any) -> Any:
        raise self._refuse(
            "a product @ with", "only a matrix stands on its left; an inner product over the width is p.average(g * h)"
        )


class Scalar(Value):
    """A number per data point: fixed, given by the data, or an average over the width."""

    def __init__(self, builder: "Builder", index: int):
        super().__init__(builder)
        self.index = index

    def describe(self) -> str:
        return "a scalar"

    def __add__(self, other: Any) -> "Scalar":
        return self._with(jnp.add, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> "Scalar":
        return self._with(jnp.subtract, other)

    def __rsub__(self, other: Any) -> "Scalar":
        return self._with(_reversed_subtract, other)

    def __neg__(self) -> "Scalar":
        return self._builder.scalar(jnp.negative, self)

    def __mul__(self, other: Any) -> Any:
        return other * self if isinstance(other, Vector) else self._with(jnp.multiply, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "Scalar":
        return self._with(jnp.divide, other)

    def __rtruediv__(self, other: Any) -> "Scalar":
        return self._with(_reversed_divide, other)

    def _with(self, fn: Callable[..., Any], other: Any) -> "Scalar":
        if isinstance(other, Scalar):
            return self._builder.scalar(fn, self, other)
        return self._builder.scalar(WithNumber(fn, self._builder.as_number("arithmetic of scalars", other)), self)


def _reversed_subtract(a: Any, b: Any) -> Any:
    return b - a


def _reversed_divide(a: Any, b: Any) -> Any:
    return b / a


class WithNumber:
    """A function of two numbers whose second one is fixed; equal where both are, unlike a lambda."""

    def __init__(self, fn: Callable[..., Any], number: float):
        self.fn = fn
        self.number = number
        self.__name__ = getattr(fn, "__name__", "function")

    def __call__(self, value: Any) -> Any:
        return self.fn(value, jnp.asarray(self.number, value.dtype))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WithNumber) and (self.fn, self.number) == (other.fn, other.number)

    def __hash__(self) -> int:
        return hash((self.fn, self.number))


class Input(Value):
    """One data point at one position: a vector with as many entries as the data has features."""

    def __init__(self, builder: "Builder", position: int):
        super().__init__(builder)
        self.position = position

    def describe(self) -> str:
        return "an input"

    @property
    def present(self) -> Scalar:
        """1 where the data point has this position, 0 where it was filled up; see `programs.pack`."""
        builder = self._builder
        if not builder.graph.masked:
            raise ProgramError(
                "x.present needs inputs that say which positions are there: decorate with @program(masked=True) "
                "and pass programs.pack(sequences)",
                here(),
            )
        return Scalar(builder, builder.add(Presence(self.position), "S", here()))

    def _misused(self, *_: Any) -> Any:
        raise self._refuse("arithmetic with", "multiply it by an input matrix first, U = p.input_matrix(var); U @ x")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _misused

    def __iter__(self) -> Iterator[Any]:
        raise InputError("the inputs are vectors, shape (n, d): they have no positions to go through", here())

    def __getitem__(self, index: Any) -> Any:
        raise InputError("an input at one position has no further positions to choose from", here())

    def __len__(self) -> int:
        raise InputError("the inputs are vectors, shape (n, d): they have no positions to count", here())


class Inputs(Value):
    """One data point with positions: a sequence or an image. Iterate, index with integers, or take `len`."""

    def __init__(self, builder: "Builder", positions: np.ndarray):
        super().__init__(builder)
        self._positions = positions

    def describe(self) -> str:
        return f"inputs with positions {self.shape}"

    @property
    def shape(self) -> tuple[int, ...]:
        """How many positions there are along every axis."""
        return self._positions.shape

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        try:
            chosen = self._positions[index]
        except IndexError as error:
            raise InputError(
                f"there is no position {index} in inputs with positions {self.shape}: {error}", here()
            ) from None
        return Inputs(self._builder, chosen) if isinstance(chosen, np.ndarray) else Input(self._builder, int(chosen))

    def _misused(self, *_: Any) -> Any:
        raise self._refuse("arithmetic with", "choose a position first, for x in xs: ... or xs[0]")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _misused


class Matrix(Value):
    """A random matrix, width x width: an A-variable. It may be used any number of times."""

    def __init__(self, builder: "Builder", name: str):
        super().__init__(builder)
        self.name = name

    def describe(self) -> str:
        return f"the matrix {self.name}"

    def __matmul__(self, other: Any) -> Vector:
        builder = self._builder
        if isinstance(other, (Input, Inputs)):
            raise InputError(
                f"{self.describe()} is width x width and cannot take an input; make it with p.input_matrix(var)", here()
            )
        if isinstance(other, (Matrix, InputMatrix)):
            raise self._refuse("a matrix times", "only products with vectors are covered by the theory")
        vector = builder.own(Vector, other, f"{self.describe()} must be multiplied by a vector")
        if builder.graph.lines[vector.index].statement == Constant(0.0):
            return vector
        return Vector(builder, builder.add(MatMul(self.name, vector.index), "G", here()))

    @property
    def T(self) -> Any:  # noqa: N802  (the name it has everywhere)
        """Refused: the theory that this language implements has no transposes."""
        raise ProgramError(
            f"the transpose of {self.describe()}: a matrix that is used together with its transpose is not covered by "
            f"the theory (correlations that it does not track would arise). Use a second matrix, p.matrix(var), for "
            f"weights that are not tied",
            here(),
        )

    def transpose(self) -> Any:
        """Refused, like `T`."""
        return self.T

    def __rmatmul__(self, other: Any) -> Any:
        raise self._refuse(
            "a product from the left with", "it would need the transpose, which the theory does not cover"
        )

    def _misused(self, *_: Any) -> Any:
        raise self._refuse("arithmetic with", "a matrix is only ever multiplied with a vector, W @ h")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __neg__ = _misused


class InputMatrix(Matrix):
    """A random matrix, width x features, that takes inputs."""

    def describe(self) -> str:
        return f"the input matrix {self.name}"

    def __matmul__(self, other: Any) -> Vector:
        builder = self._builder
        if isinstance(other, Inputs):
            raise InputError(
                f"{self.describe()} takes one position, but it gets {other.describe()}; go through them one by one",
                here(),
            )
        if isinstance(other, Vector):
            raise InputError(
                f"{self.describe()} is width x features and cannot take a hidden vector; use p.matrix(var)", here()
            )
        position = builder.own(Input, other, f"{self.describe()} must be multiplied by an input").position
        return Vector(builder, builder.add(InputProduct(self.name, position), "G", here()))


class Readout(Value):
    """The readout vector: it may end the program, v @ h, and nothing else."""

    def describe(self) -> str:
        return "the readout vector"

    def __matmul__(self, other: Any) -> "Output":
        vector = self._builder.own(Vector, other, "the readout vector must be multiplied by a vector")
        return Output(self._builder, vector)

    def _misused(self, *_: Any) -> Any:
        raise self._refuse(
            "using", "it must be independent of everything in the program, so it may only end it: return v @ h"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __neg__ = __rmatmul__ = _misused


class Output(Value):
    """What the readout gives: the end of a program."""

    def __init__(self, builder: "Builder", vector: Vector):
        super().__init__(builder)
        self.vector = vector

    def describe(self) -> str:
        return "the readout's output"

    def _misused(self, *_: Any) -> Any:
        raise self._refuse("computing with", "the readout ends a program; return it")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __neg__ = _misused
    __matmul__ = __rmatmul__ = _misused


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
        return Vector(self, self.add(BiasVector(name), "G", here()))

    def zeros(self) -> Vector:
        """The vector of zeros."""
        return Vector(self, self.add(Constant(0.0), "G", here()))

    def ones(self) -> Vector:
        """The vector of ones."""
        return Vector(self, self.add(Constant(1.0), "G", here()))

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
        wrong = None
        is_known = fn in (jnp.multiply, jnp.divide) or (len(arguments) == 1 and recognise(fn) is not None)
        if not is_known:
            # the arguments come in the user's order; the check wants vectors first
            order = [index for index, a in enumerate(arguments) if isinstance(a, Vector)]
            order += [index for index, a in enumerate(arguments) if isinstance(a, Scalar)]
            probe = fn if order == sorted(order) else Reordered(fn, tuple(order))
            wrong = complaint(probe, len(vectors), len(arguments) - len(vectors))
        if wrong:
            raise ProgramError(f"p.nonlin: the function {getattr(fn, '__name__', fn)!r} {wrong}", place)
        return Vector(self, self.add(Nonlin(fn, tuple(argument.index for argument in arguments)), "H", place))

    def average(self, vector: Any) -> Scalar:
        """The mean over the width of a vector's entries, which becomes a number in the limit."""
        if isinstance(vector, Scalar):
            raise ProgramError("p.average takes a vector; a scalar is an average already", here())
        vector = self.own(Vector, vector, "p.average takes a vector")
        return Scalar(self, self.add(Average(vector.index), "S", here()))

    def scalar(self, fn: Callable[..., Any], *arguments: Scalar) -> Scalar:
        """A function of scalars, made of JAX operations."""
        for argument in arguments:
            self.own(Scalar, argument, "p.scalar takes scalars")
        return Scalar(self, self.add(ScalarFunction(fn, tuple(a.index for a in arguments)), "S", here()))

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

    def add(self, statement: Statement, kind: Kind, place: Place) -> int:
        """Write a statement down."""
        return self.graph.add(statement, kind, place)

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
        kind = "G" if all(self.graph.lines[term.variable].kind == "G" for term in flat) else "H"
        return Vector(self, self.add(LinComb(tuple(flat)), kind, place))

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
        try:
            check_variance("var", var, may_be_vector=kind == "input_matrix")
        except ValueError as error:
            raise ProgramError(f"p.{kind}: {error}", place) from None
        if np.ndim(var) == 1 and len(var) != self.graph.features:
            raise InputError(
                f"p.{kind}: var has {len(var)} entries, but the inputs have {self.graph.features} features", place
            )
        name = self.graph.unique_name(place.name or default, "randoms")
        self.graph.randoms[name] = Random(name, kind, var, place)
        return name


class Reordered:
    """A function with its arguments in another order: position k of `order` says where argument k belongs."""

    def __init__(self, fn: Any, order: tuple[int, ...]):
        self.fn = fn
        self.order = order

    def __call__(self, *arguments: Any) -> Any:
        placed = sorted(zip(self.order, arguments, strict=True), key=lambda pair: pair[0])
        return self.fn(*(argument for _, argument in placed))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reordered) and (self.fn, self.order) == (other.fn, other.order)

    def __hash__(self) -> int:
        return hash((self.fn, self.order))


class SoftmaxEntry:
    """One entry of a softmax, as a function of all logits."""

    def __init__(self, index: int):
        self.index = index
        self.__name__ = f"softmax[{index}]"

    def __call__(self, *logits: Any) -> Any:
        return jax.nn.softmax(jnp.stack(logits), axis=0)[self.index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxEntry) and self.index == other.index

    def __hash__(self) -> int:
        return hash((SoftmaxEntry, self.index))


def trace(
    fn: Callable[..., Any], settings: dict[str, Any], input_shape: tuple[int, ...], masked: bool = False
) -> Graph:
    """Run a program on symbolic inputs of one shape and write down what it does."""
    builder = Builder(input_shape, masked)
    space = input_shape[:-1]
    if builder.graph.features < 1:
        raise InputError("a masked program needs at least one feature beside the flag of presence")
    positions = np.arange(math.prod(space)).reshape(space)
    inputs = Inputs(builder, positions) if space else Input(builder, 0)
    result = fn(builder, inputs, **settings)
    if isinstance(result, Output):
        result = result.vector
    if not isinstance(result, Vector) or result._builder is not builder:
        got = result.describe() if isinstance(result, Value) else f"{type(result).__name__} {result!r}"
        code = getattr(fn, "__code__", None)
        place = None if code is None else Place(code.co_filename, code.co_firstlineno)
        raise ProgramError(f"a program must return a vector (the readout is implied); it returned {got}", place)
    builder.graph.output = result.index
    return builder.graph
