"""Elementwise expressions as functions that compare equal when they are, and activations among them."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail import nn
from widetail.widening.as_program._symbols import Base, Fn, Lin, Op, Sca, ScaBase, ScaFn, ScaLin, Vec


class Instructions:
    """An expression as a list of instructions on vectors and scalars, shared parts once."""

    def __init__(self, builder: Any):
        self.vectors: list[Base] = []
        self.scalars: list[ScaBase] = []
        self._builder = builder
        self._lines: list[tuple[Any, ...]] = []
        self._ops: dict[tuple[Any, ...], Op] = {}
        self._known: dict[Any, tuple[str, int]] = {}
        self._alive: list[Any] = []

    def function(self) -> "Fused":
        """The expression as a function of the vectors, then of the scalars."""
        return Fused(tuple(self._lines), len(self.vectors), len(self.scalars), self._ops)

    def of(self, node: Any) -> Any:
        """A reference to the value of an expression: ("v", k), ("s", k), ("t", line) or a number."""
        if not isinstance(node, (Vec, Sca)):
            return float(node)
        if isinstance(node, Lin) and self._is_variable(node):
            node = self._builder.base(node)
        key = node.index if isinstance(node, Base) else ("s", node.index) if isinstance(node, ScaBase) else id(node)
        if key not in self._known:
            self._alive.append(node)
            self._known[key] = self._new(node)
        return self._known[key]

    def _is_variable(self, node: Lin) -> bool:
        """Whether a combination is a Gaussian variable that its multiples are taken of, not a multiple of one."""
        return self._builder.is_gaussian(node) and (len(node.terms) > 1 or any(s is not None for _, s, _ in node.terms))

    def _new(self, node: Any) -> tuple[str, int]:
        if isinstance(node, Base):
            self.vectors.append(node)
            return ("v", len(self.vectors) - 1)
        if isinstance(node, ScaBase):
            self.scalars.append(node)
            return ("s", len(self.scalars) - 1)
        if isinstance(node, (Fn, ScaFn)):
            self._ops[node.op.key] = node.op
            return self._line(("op", node.op.key, tuple(self.of(arg) for arg in node.args)))
        if isinstance(node, Lin):
            terms = tuple((c, None if s is None else self.of(s), self.of(v)) for c, s, v in node.terms)
        else:
            assert isinstance(node, ScaLin)
            terms = tuple((c, None, self.of(s)) for c, s in node.terms)
        return self._line(("lin", terms, self.of(node.constant)))

    def _line(self, line: tuple[Any, ...]) -> tuple[str, int]:
        if line not in self._lines:
            self._lines.append(line)
        return ("t", self._lines.index(line))


class Fused:
    """A function of the entries of vectors and of scalars, made of primitives; equal where its instructions are."""

    def __init__(self, lines: tuple[Any, ...], vectors: int, scalars: int, ops: dict[tuple[Any, ...], Op]):
        self.lines, self.vectors, self.scalars, self.ops = lines, vectors, scalars, ops
        self._hash = hash((lines, vectors, scalars))
        names = [line[1][0] for line in lines if line[0] == "op"]
        self.__name__ = "∘".join(reversed(names[-3:])) or "combination"

    def without_factor(self) -> "tuple[float, Fused]":
        """f(c z) as c and f, where the one vector z enters by that multiple alone."""
        uses = [line for line in self.lines if _refers(line, ("v", 0))]
        first: Any = self.lines[0] if self.lines else ()
        if uses != [first] or first[0] != "lin" or first[2] != 0 or len(first[1]) != 1 or len(self.lines) < 2:
            return 1.0, self
        ((factor, scalar, _),) = first[1]
        if scalar is not None or factor == 1:
            return 1.0, self

        def moved(part: Any) -> Any:
            if part == ("t", 0):
                return "v", 0
            if isinstance(part, tuple) and len(part) == 2 and part[0] == "t":
                return "t", part[1] - 1
            return tuple(map(moved, part)) if isinstance(part, tuple) else part

        return factor, Fused(tuple(map(moved, self.lines[1:])), 1, 0, self.ops)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fused) and (self.lines, self.vectors, self.scalars) == (
            other.lines,
            other.vectors,
            other.scalars,
        )

    def __hash__(self) -> int:
        return self._hash

    def __call__(self, *arguments: Any) -> Any:
        dtype = jnp.result_type(*arguments)
        values: list[Any] = []

        def value(reference: Any) -> Any:
            if not isinstance(reference, tuple):
                return jnp.asarray(reference, dtype)
            tag, number = reference
            return values[number] if tag == "t" else arguments[number if tag == "v" else self.vectors + number]

        for line in self.lines:
            if line[0] == "op":
                values.append(apply_op(self.ops[line[1]], [value(reference) for reference in line[2]], dtype))
                continue
            total = value(line[2])
            for number, scalar, vector in line[1]:
                product = jnp.asarray(number, dtype) * value(vector)
                total = total + (product if scalar is None else product * value(scalar))
            values.append(total)
        return jnp.asarray(values[-1]).astype(dtype) if values else arguments[0]


def _refers(part: Any, reference: Any) -> bool:
    """Whether an instruction reads a value."""
    return part == reference or (isinstance(part, tuple) and any(_refers(inner, reference) for inner in part))


def apply_op(op: Op, arguments: list[Any], dtype: Any) -> Any:
    """An elementwise primitive on arrays of any shapes that broadcast, in the precision of the arguments."""
    if op.name == "convert_element_type":
        (argument,) = arguments
        new = np.dtype(op.params["new_dtype"])
        return argument.astype(dtype if jnp.issubdtype(new, jnp.floating) else new)
    if op.name in ("copy", "stop_gradient", "optimization_barrier"):
        return arguments[0]
    arguments = list(jnp.broadcast_arrays(*arguments))
    if op.name == "select_n" and arguments[0].dtype != bool:
        arguments[0] = arguments[0].astype(bool)
    if op.name in ("and", "or", "not", "xor"):
        arguments = [argument.astype(bool) for argument in arguments]
    elif any(jnp.issubdtype(argument.dtype, jnp.floating) for argument in arguments):  # truth as 0 and 1
        is_choice = op.name == "select_n"
        arguments = [a if k == 0 and is_choice else a.astype(dtype) for k, a in enumerate(arguments)]
    return op.primitive.bind(*arguments, **op.params)


def recognised(fn: Fused) -> Any:
    """The activation of `nn` that a function of one vector is, or the function itself."""
    table, leaky = _table()
    found = table.get(fn.lines)
    if found is not None:
        return found
    for slope in {number for line in fn.lines for number in _numbers(line)}:
        if 0 < slope < 1 and leaky(slope) == fn.lines:
            return nn.LeakyRelu(slope)
    return fn


def _numbers(line: tuple[Any, ...]) -> list[float]:
    return [part for part in line[2] if isinstance(part, float)] if line[0] == "op" else [c for c, _, _ in line[1]]


@functools.lru_cache
def _table() -> tuple[dict[tuple[Any, ...], nn.Activation], Callable[[float], tuple[Any, ...]]]:
    """Activations by what the walk over their jaxprs makes of them."""
    from widetail.widening.as_program._program import (
        instructions_of,  # the walk makes expressions, of which this is a part
    )

    spellings: list[tuple[Callable[[Any], Any], nn.Activation]] = [
        (jax.nn.relu, nn.Relu()),
        (lambda z: jnp.maximum(z, 0), nn.Relu()),
        (lambda z: jnp.maximum(0, z), nn.Relu()),
        (lambda z: jnp.where(z > 0, z, 0), nn.Relu()),
        (lambda z: jnp.where(z >= 0, z, 0), nn.Relu()),
        (jnp.tanh, nn.Tanh()),
        (jax.nn.sigmoid, nn.Sigmoid()),
        (jax.scipy.special.erf, nn.Erf()),
        (lambda z: jax.nn.gelu(z, approximate=False), nn.Gelu()),
        (jnp.abs, nn.Abs()),
        (jnp.sign, nn.Sign()),
        (jnp.sin, nn.Sin()),
        (jnp.cos, nn.Cos()),
        (jnp.exp, nn.Exp()),
    ]
    found = {instructions_of(fn): activation for fn, activation in spellings}
    return found, functools.lru_cache(lambda slope: instructions_of(lambda z: jax.nn.leaky_relu(z, slope)))
