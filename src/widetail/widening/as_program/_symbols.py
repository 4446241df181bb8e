"""What an entry of an array is in the limit: a vector across the width, a scalar, a number, or an output.

Expressions are kept as they are written until something needs their value, so that a chain of elementwise operations
becomes one nonlinearity.
"""

import dataclasses
from typing import Any

# Vectors remember whose rows they are: (parameter, its wide axis, first row), so that they can be cut where needed.
Origin = tuple[int, int, int]


@dataclasses.dataclass(frozen=True, eq=False)
class Op:
    """An elementwise operation: a primitive of JAX with its parameters."""

    name: str
    primitive: Any
    params: dict[str, Any]

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for equal operations; precision is that of the arguments, whatever was traced."""
        kept = {name: value for name, value in self.params.items() if name in ("y", "new_dtype", "accuracy")}
        return self.name, *(f"{name}={value}" for name, value in sorted(kept.items()))


@dataclasses.dataclass(frozen=True, eq=False)
class Vec:
    """A vector across the width, of `length` entries at the width of the trace."""

    length: int
    origins: frozenset[Origin]


@dataclasses.dataclass(frozen=True, eq=False)
class Base(Vec):
    """A variable of the program."""

    index: int
    gaussian: bool


@dataclasses.dataclass(frozen=True, eq=False)
class Lin(Vec):
    """Sum of number x scalar (or None) x vector, plus a scalar or number in every entry."""

    terms: tuple[tuple[float, Any, Vec], ...]
    constant: Any  # a number or a scalar


@dataclasses.dataclass(frozen=True, eq=False)
class Fn(Vec):
    """An elementwise operation of vectors, scalars and numbers."""

    op: Op
    args: tuple[Any, ...]


class Sca:
    """A scalar: a number per data point."""


@dataclasses.dataclass(frozen=True, eq=False)
class ScaBase(Sca):
    """A variable of the program."""

    index: int


@dataclasses.dataclass(frozen=True, eq=False)
class ScaLin(Sca):
    """Sum of number x scalar, plus a number."""

    terms: tuple[tuple[float, Sca], ...]
    constant: float


@dataclasses.dataclass(frozen=True, eq=False)
class ScaFn(Sca):
    """An operation of scalars and numbers."""

    op: Op
    args: tuple[Any, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Read:
    """An output: a sum of products of vectors with independent random vectors, columns of readout matrices.

    Attributes:
        parts: by parameter, column and rows, the share of the variance and the vector.
    """

    parts: dict[tuple[int, str, str], tuple[float, Vec]]


def as_lin(vec: Any) -> Lin:
    """A vector as a linear combination."""
    return vec if isinstance(vec, Lin) else Lin(vec.length, vec.origins, ((1.0, None, vec),), 0.0)


def as_sca_lin(sca: Any) -> ScaLin:
    """A scalar or a number as a linear combination."""
    if isinstance(sca, ScaLin):
        return sca
    return ScaLin(((1.0, sca),), 0.0) if isinstance(sca, Sca) else ScaLin((), float(sca))


def scale_sca(number: float, sca: Any) -> Any:
    """A number times a scalar."""
    if number == 1:
        return sca
    if not isinstance(sca, Sca):
        return number * sca
    lin = as_sca_lin(sca)
    return ScaLin(tuple((number * c, s) for c, s in lin.terms), number * lin.constant)


def add_sca(*parts: Any) -> Any:
    """A sum of scalars and numbers."""
    if not any(isinstance(part, Sca) for part in parts):
        return float(sum(parts))
    lins = [as_sca_lin(part) for part in parts]
    merged: dict[int, tuple[float, Sca]] = {}
    for number, sca in (term for lin in lins for term in lin.terms):
        merged[id(sca)] = (merged[id(sca)][0] + number if id(sca) in merged else number, sca)
    constant = sum(lin.constant for lin in lins)
    terms = tuple(term for term in merged.values() if term[0] != 0)
    return ScaLin(terms, constant) if terms else float(constant)


def add_vec(*parts: Any) -> Any:
    """A sum of vectors, scalars and numbers, at least one of them a vector."""
    vecs = [as_lin(part) for part in parts if isinstance(part, Vec)]
    merged: dict[tuple[int, int], tuple[float, Any, Vec]] = {}
    for number, sca, vec in (term for lin in vecs for term in lin.terms):
        key = id(sca), id(vec)
        merged[key] = (merged[key][0] + number if key in merged else number, sca, vec)
    constant = add_sca(*(lin.constant for lin in vecs), *(part for part in parts if not isinstance(part, Vec)))
    terms = tuple(term for term in merged.values() if term[0] != 0)
    if len(terms) == 1 and terms[0][:2] == (1.0, None) and not isinstance(constant, Sca) and constant == 0:
        return terms[0][2]
    origins = frozenset().union(*(lin.origins for lin in vecs))
    return Lin(vecs[0].length, origins, terms, constant)


def scale_vec(number: float, vec: Any) -> Any:
    """A number times a vector."""
    if number == 1:
        return vec
    lin = as_lin(vec)
    terms = tuple((number * c, s, v) for c, s, v in lin.terms) if number else ()
    return Lin(lin.length, lin.origins, terms, scale_sca(number, lin.constant))


def factor_of(sca: Any) -> tuple[float, Any]:
    """A multiple of one scalar as the factor and the scalar."""
    if isinstance(sca, ScaLin) and len(sca.terms) == 1 and sca.constant == 0:
        return sca.terms[0]
    return 1.0, sca


def number_of(vec: Any) -> tuple[float, Any]:
    """A multiple of one vector, which may be one of a scalar too, as the number and the rest."""
    if isinstance(vec, Lin) and len(vec.terms) == 1 and vec.constant == 0 and not isinstance(vec.constant, Sca):
        ((number, sca, inner),) = vec.terms
        if number != 1:
            return number, inner if sca is None else dataclasses.replace(vec, terms=((1.0, sca, inner),))
    return 1.0, vec


def without_factor(vec: Any) -> tuple[float, Any]:
    """A multiple of one vector as the factor and the vector."""
    if isinstance(vec, Lin) and len(vec.terms) == 1 and vec.terms[0][1] is None and not isinstance(vec.constant, Sca):
        ((number, _, inner),) = vec.terms
        if vec.constant == 0:
            return number, inner
    return 1.0, vec
