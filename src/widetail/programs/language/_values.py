"""The symbolic values that a program computes with: what may be done with each, and what is refused."""

import abc
from collections.abc import Callable, Iterator
from numbers import Real
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from widetail.programs.language._derived import WithNumber, reversed_divide, reversed_subtract
from widetail.programs.language._source import InputError, ProgramError, here
from widetail.programs.statements import (
    Constant,
    InputProduct,
    Kind,
    MatMul,
    Presence,
)

if TYPE_CHECKING:
    from widetail.programs.language._language import Builder


# Attributes of arrays that people reach for.
_OF_ARRAYS = ("shape", "ndim", "size", "dtype", "T", "sum", "mean", "dot", "reshape", "astype", "at", "transpose")
_REFLECTED = {
    np.add: "__radd__",
    np.subtract: "__rsub__",
    np.multiply: "__rmul__",
    np.true_divide: "__rtruediv__",
    np.matmul: "__rmatmul__",
}


class MissingAttributeError(ProgramError, AttributeError):
    """An attribute of arrays that symbolic values do not have."""


class Value(abc.ABC):
    """Anything that a program can hold in a variable."""

    def __init__(self, builder: "Builder"):
        self._builder = builder

    @abc.abstractmethod
    def describe(self) -> str:
        """What it is, for messages."""

    def __bool__(self) -> bool:
        raise ProgramError(
            f"the truth of {self.describe()} is not known when the program is written down; "
            f"choose by p.nonlin(jnp.where, ...) or a product with a scalar",
            here(),
        )

    # NumPy and JAX find these when one of their functions is called on a symbolic value.

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> Any:
        name = _REFLECTED.get(ufunc)
        if name is not None and method == "__call__" and inputs[1] is self and hasattr(self, name):
            return getattr(self, name)(inputs[0])  # a NumPy number or array on the left of an operator
        raise self._refuse(f"np.{ufunc.__name__} of", self._instead(f"jnp.{ufunc.__name__}"))

    def __array_function__(self, function: Any, *_: Any) -> Any:
        raise self._refuse(f"np.{function.__name__} of", self._instead("fn"))

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise self._refuse("an array made of", self._instead("fn"))

    @property
    def __jax_array__(self) -> Any:  # looked for before it is called, and some functions of JAX refuse to call it
        raise self._refuse("a function of JAX, called on", self._instead("fn"))

    def __getattr__(self, name: str) -> Any:
        if name in _OF_ARRAYS:
            raise MissingAttributeError(f".{name} of {self.describe()}: {self._instead('fn')}", here())
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _has_no_operator(self, *_: Any) -> Any:
        raise self._refuse("this operator, applied to", self._instead("fn"))

    __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __divmod__ = __rdivmod__ = __rpow__ = _has_no_operator
    __lt__ = __le__ = __gt__ = __ge__ = __round__ = _has_no_operator

    def __float__(self) -> float:
        raise self._refuse("a plain number made of", self._instead("fn"))

    def __int__(self) -> int:
        return int(float(self))

    def _instead(self, fn: str) -> str:
        """What to write instead of a function of arrays."""
        return "it stands for numbers that are not known yet and has none of the properties of an array"

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

    def __pos__(self) -> "Vector":
        return self

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
            self._check_denominator(other)
            return self._builder.nonlin(jnp.divide, self, other)
        if isinstance(other, Scalar):
            return self * (1.0 / other)
        number = self._builder.as_number("/", other)
        if not number:
            raise self._refuse("a division by zero of", "divide by another number")
        return self * (1.0 / number)

    def __rtruediv__(self, other: Any) -> "Vector":
        self._check_denominator(self)
        number = self._builder.as_number("/", other)
        return self._builder.nonlin(WithNumber(reversed_divide, number), self)

    def __pow__(self, other: Any) -> "Vector":
        number = self._builder.as_number("**", other)
        if number < 0:
            self._check_denominator(self)
        return self._builder.nonlin(jnp.square if number == 2 else WithNumber(jnp.power, number), self)

    def __abs__(self) -> "Vector":
        return self._builder.nonlin(jnp.abs, self)

    def _check_denominator(self, below: "Vector") -> None:
        if below.kind == "G":
            raise self._refuse(
                "a division by", "one over a Gaussian variable has no mean; divide by something that keeps off zero"
            )

    def __getitem__(self, index: Any) -> Any:
        raise self._refuse(
            "an entry of",
            "all of them have one law, and the width is not known; choose a position of the inputs, xs[0]",
        )

    def __iter__(self) -> Iterator[Any]:
        return self[0]

    def __len__(self) -> int:
        raise self._refuse("the length of", "it is the width, which a program does not know")

    def _instead(self, fn: str) -> str:
        return f"write p.nonlin({fn}, h) for a function of its entries, p.average(h) for their mean"

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

    def _instead(self, fn: str) -> str:
        return f"write p.scalar({fn}, s) for a function of scalars"

    def __pow__(self, other: Any) -> "Scalar":
        return self._with(jnp.power, other)

    def __abs__(self) -> "Scalar":
        return self._builder.scalar(jnp.abs, self)

    def __add__(self, other: Any) -> "Scalar":
        return self._with(jnp.add, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> "Scalar":
        return self._with(jnp.subtract, other)

    def __rsub__(self, other: Any) -> "Scalar":
        return self._with(reversed_subtract, other)

    def __neg__(self) -> "Scalar":
        return self._builder.scalar(jnp.negative, self)

    def __mul__(self, other: Any) -> Any:
        return other * self if isinstance(other, Vector) else self._with(jnp.multiply, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "Scalar":
        return self._with(jnp.divide, other)

    def __rtruediv__(self, other: Any) -> "Scalar":
        return self._with(reversed_divide, other)

    def _with(self, fn: Callable[..., Any], other: Any) -> "Scalar":
        if isinstance(other, Scalar):
            return self._builder.scalar(fn, self, other)
        return self._builder.scalar(WithNumber(fn, self._builder.as_number("arithmetic of scalars", other)), self)


class Input(Value):
    """One data point at one position: a vector with as many entries as the data has features."""

    def __init__(self, builder: "Builder", position: int):
        super().__init__(builder)
        self.position = position

    def describe(self) -> str:
        return "an input"

    def _instead(self, fn: str) -> str:
        return (
            "multiply it by an input matrix first, U = p.input_matrix(var); U @ x; its features are not seen one by one"
        )

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
        return Scalar(builder, builder.add(Presence(self.position), here()))

    def _misused(self, *_: Any) -> Any:
        raise self._refuse("arithmetic with", "multiply it by an input matrix first, U = p.input_matrix(var); U @ x")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = __abs__ = (
        __neg__
    ) = _misused

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

    def _instead(self, fn: str) -> str:
        return "choose a position first, for x in xs: ... or xs[0], and multiply it by an input matrix"

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

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = __abs__ = (
        __neg__
    ) = _misused


class Matrix(Value):
    """A random matrix, width x width: an A-variable. It may be used any number of times."""

    def __init__(self, builder: "Builder", name: str):
        super().__init__(builder)
        self.name = name

    def describe(self) -> str:
        return f"the matrix {self.name}"

    def _instead(self, fn: str) -> str:
        return "a matrix is only ever multiplied with a vector, W @ h; its transpose is not covered by the theory"

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
        return Vector(builder, builder.add(MatMul(self.name, vector.index), here()))

    @property
    def T(self) -> Any:  # noqa: N802  (the name it has everywhere)
        """Refused: the theory that this language implements has no transposes."""
        raise ProgramError(
            f"the transpose of {self.describe()}: a matrix that is used together with its transpose is not covered by "
            f"the theory (correlations that it does not track would arise). Use a second matrix, p.matrix(var), for "
            f"weights that are not tied",
            here(),
        )

    def __rmatmul__(self, other: Any) -> Any:
        raise self._refuse(
            "a product from the left with", "it would need the transpose, which the theory does not cover"
        )

    def _misused(self, *_: Any) -> Any:
        raise self._refuse("arithmetic with", "a matrix is only ever multiplied with a vector, W @ h")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = __abs__ = (
        __neg__
    ) = _misused


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
        return Vector(builder, builder.add(InputProduct(self.name, position), here()))


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

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = __abs__ = (
        __neg__
    ) = _misused
    __matmul__ = __rmatmul__ = _misused
