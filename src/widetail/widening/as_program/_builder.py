"""Expressions become statements of a tensor program."""

import contextlib
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp

from widetail.programs import statements as st
from widetail.widening.as_program._functions import Instructions, recognised
from widetail.widening.as_program._symbols import Base, Fn, Lin, Sca, ScaBase, Vec


class Builder:
    """A graph of statements under construction; what was written down once is found again."""

    def __init__(self, input_shape: tuple[int, ...]):
        self.graph = st.Graph(input_shape)
        self.place = st.NOWHERE
        self._kept: dict[int, tuple[Any, Any]] = {}  # keeps the expression alive, for its id
        self._constants: dict[float, Base] = {}
        self._written: dict[tuple[Any, ...], int] = {}
        self.made: dict[int, st.SourceLine] = {}  # where expressions that something keeps alive were made

    def add(self, statement: st.Statement, name: str | None = None) -> int:
        """Write a statement down, or find the same one."""
        key = (type(statement).__name__, repr(statement) if not hasattr(statement, "fn") else None)
        if hasattr(statement, "fn"):
            key = (type(statement).__name__, statement.fn, statement.arguments)  # type: ignore[attr-defined]
        if key not in self._written:
            self._written[key] = self.graph.add(statement, self.place, name=name)
        return self._written[key]

    def constant(self, value: float) -> Base:
        """A vector of equal entries."""
        if value not in self._constants:
            self._constants[value] = Base(0, frozenset(), self.add(st.Constant(value)), True)
        return self._constants[value]

    def base(self, vec: Vec) -> Base:
        """A vector as a variable of the program."""
        if isinstance(vec, Base):
            return vec
        if id(vec) not in self._kept:
            with self._at(vec):
                self._kept[id(vec)] = (vec, self._write(vec))
        return self._kept[id(vec)][1]

    def scalar(self, sca: Sca) -> ScaBase:
        """A scalar as a variable of the program."""
        if isinstance(sca, ScaBase):
            return sca
        if id(sca) not in self._kept:
            instructions = Instructions(self)
            instructions.of(sca)
            fused = instructions.function()
            with self._at(sca):
                index = self.add(st.ScalarFunction(fused, tuple(s.index for s in instructions.scalars)))
            self._kept[id(sca)] = (sca, ScaBase(index))
        return self._kept[id(sca)][1]

    @contextlib.contextmanager
    def _at(self, expression: Any) -> Iterator[None]:
        """Statements stand where their expression was made, not where it is used first."""
        outer, self.place = self.place, self.made.get(id(expression), self.place)
        yield
        self.place = outer

    def average(self, vec: Vec) -> Any:
        """The mean over the width, as a scalar or a number."""
        if isinstance(vec, Lin) and not vec.terms:
            return vec.constant
        return ScaBase(self.add(st.Average(self.base(vec).index)))

    def is_gaussian(self, vec: Vec) -> bool:
        """Whether a vector is a combination of Gaussian variables, and so one itself."""
        if isinstance(vec, Base):
            return vec.gaussian
        return isinstance(vec, Lin) and all(self.is_gaussian(v) for _, _, v in vec.terms)

    def _of(self, statement: st.Statement, vec: Vec) -> Base:
        index = self.add(statement)
        return Base(vec.length, vec.origins, index, self.graph.lines[index].kind == "G")

    def _write(self, vec: Vec) -> Base:
        if self.is_gaussian(vec):
            assert isinstance(vec, Lin)
            return self._combination(vec)
        if isinstance(vec, Lin) and len(vec.terms) == 1:
            return self._combination(vec)
        instructions = Instructions(self)
        instructions.of(vec)
        if len(instructions.vectors) == 1 and not instructions.scalars:
            # a function of a multiple is one of a variable: so the closed forms of activations are found
            factor, function = instructions.function().without_factor()
            (base,) = instructions.vectors
            if factor != 1:
                base = self._combination(Lin(base.length, base.origins, ((factor, None, base),), 0.0))
            return self._of(st.Nonlin(recognised(function), (base.index,)), vec)
        if isinstance(vec, Lin):
            return self._combination(vec)
        assert isinstance(vec, Fn)
        known = _KNOWN.get(vec.op.key)
        if known is not None and all(isinstance(arg, Vec) for arg in vec.args):
            arguments = tuple(self.base(arg).index for arg in vec.args)
            return self._of(st.Nonlin(known, arguments), vec)
        variables = (*instructions.vectors, *instructions.scalars)
        return self._of(st.Nonlin(instructions.function(), tuple(v.index for v in variables)), vec)

    def _combination(self, vec: Lin) -> Base:
        terms = [
            st.Term(number, None if sca is None else self.scalar(sca).index, self.base(v).index)
            for number, sca, v in vec.terms
        ]
        if isinstance(vec.constant, Sca):
            terms.append(st.Term(1.0, self.scalar(vec.constant).index, self.constant(1.0).index))
        elif vec.constant or not terms:
            terms.append(st.Term(float(vec.constant), None, self.constant(1.0).index))
        if len(terms) == 1 and abs(terms[0].number - 1) < 1e-12 and terms[0].scalar is None:  # sqrt(n) / sqrt(n), say
            return self.base(vec.terms[0][2]) if vec.terms else self.constant(1.0)
        return self._of(st.LinComb(tuple(terms)), vec)


# Products and quotients of vectors, which programs take apart into independent factors.
_KNOWN: dict[tuple[Any, ...], Any] = {
    ("mul",): jnp.multiply,
    ("div",): jnp.divide,
    ("integer_pow", "y=2"): jnp.square,
    ("square",): jnp.square,
}
