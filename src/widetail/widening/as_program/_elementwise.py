"""Elementwise operations of entries: sums stay sums, multiples stay multiples, all else becomes a function."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail.widening.as_program._entries import STRIDE, Entries, Par, Sym
from widetail.widening.as_program._functions import apply_op
from widetail.widening.as_program._symbols import (
    Fn,
    Lin,
    Op,
    Read,
    Sca,
    ScaFn,
    Vec,
    add_sca,
    add_vec,
    as_lin,
    factor_of,
    number_of,
    scale_sca,
    scale_vec,
)


def _primitive(fn: Any, name: str) -> Op:
    for equation in jax.make_jaxpr(fn)(jax.ShapeDtypeStruct((), np.float32), jax.ShapeDtypeStruct((), np.float32)).eqns:
        if equation.primitive.name == name:
            return Op(name, equation.primitive, equation.params)
    raise RuntimeError(f"JAX makes no {name} of it any more")


MULTIPLY = _primitive(jax.lax.mul, "mul")
MAXIMUM = _primitive(jax.lax.max, "max")


class Combining(Entries):
    """What becomes of entries that an elementwise operation takes."""

    def _elementwise(self, equation: Any, op: Op, arguments: list[Any]) -> Any:
        if op.name in ("convert_element_type", "copy", "stop_gradient", "copy_p") and not isinstance(arguments[0], Sym):
            return arguments[0]
        pars = [argument for argument in arguments if isinstance(argument, Par)]
        numbers = [argument for argument in arguments if isinstance(argument, np.ndarray)]
        if op.name in ("mul", "div", "neg") and len(pars) == 1 and len(pars) + len(numbers) == len(arguments):
            # a matrix that is scaled before it is used
            factors = np.unique(np.asarray(numbers[0], float)) if numbers else np.array([-1.0])
            if len(factors) == 1 and (op.name != "div" or arguments[0] is pars[0]):
                factor = 1 / float(factors[0]) if op.name == "div" else float(factors[0])
                return Par(pars[0].leaf, pars[0].elements, pars[0].factor * factor)
        if op.name in ("mul", "div"):
            self._check_scales(pars)
        shape = equation.outvars[0].aval.shape
        columns = [np.broadcast_to(self.sym(argument).ids, shape) for argument in arguments]
        group, members, along = self.grouped(columns)
        made = np.array([self._made(op, [self.entries[e] for e in row]) for row in members], np.int64)
        return Sym((made[group] * STRIDE + along).reshape(shape))

    def _check_scales(self, pars: list[Par]) -> None:
        """Biases have variance zero unless told; a vector that multiplies would make zeros of all it meets."""
        for par in pars:
            leaf = self.leaves[par.leaf]
            if leaf.var is None and not leaf.is_table:
                raise self.refuse(
                    f"{leaf.path!r} multiplies, and init draws it at random: name its variance, "
                    f"variances={{{leaf.path!r}: 1.0}}"
                )

    def _made(self, op: Op, values: list[Any]) -> int:
        return self.entry(self.combine(op, values))

    def combine(self, op: Op, values: list[Any]) -> Any:
        """An elementwise operation of entries."""
        name = op.name
        if all(isinstance(value, float) for value in values):
            with jax.enable_x64(True), jax.ensure_compile_time_eval():
                return float(apply_op(op, [jnp.asarray(value, jnp.float64) for value in values], jnp.float64))
        if name == "select_n" and isinstance(values[0], float):
            return values[1 + int(values[0])]
        if any(isinstance(value, Read) for value in values):
            return self._of_outputs(name, values)
        is_cast = name == "convert_element_type" and jnp.issubdtype(op.params["new_dtype"], jnp.floating)
        if name in ("copy", "stop_gradient", "copy_p") or is_cast:
            return values[0]
        is_vector = any(isinstance(value, Vec) for value in values)
        if name in ("mul", "div", "neg") or not all(self.builder.is_gaussian(v) for v in values if isinstance(v, Vec)):
            values = [self._settled(value) for value in values]
        add, scale = (add_vec, scale_vec) if is_vector else (add_sca, scale_sca)
        if name in ("add", "add_any"):
            return add(*values)
        if name == "neg":
            return scale(-1.0, values[0])
        if name == "sub":
            second = values[1]
            return add(values[0], scale_vec(-1.0, second) if isinstance(second, Vec) else scale_sca(-1.0, second))
        if name == "div" and isinstance(values[1], float):
            return scale(1 / values[1], values[0])
        if name == "div" and isinstance(values[1], Sca) and is_vector:
            return self._times(self._of_scalars(op, [1.0, values[1]]), values[0])
        if name == "mul":
            first, second = values
            if isinstance(first, float) or isinstance(second, float):
                number, other = (first, second) if isinstance(first, float) else (second, first)
                return scale(number, other)
            if isinstance(first, Sca) != isinstance(second, Sca):
                return self._times(*((first, second) if isinstance(first, Sca) else (second, first)))
            if is_vector:  # numbers are taken out of functions, so that 1/sqrt(n) and sqrt(n) cancel
                (one, first), (two, second) = number_of(first), number_of(second)
                if one * two != 1:
                    return scale_vec(one * two, self._function_of(op, [first, second]))
        return self._function_of(op, values) if is_vector else self._of_scalars(op, values)

    def _of_scalars(self, op: Op, values: list[Any]) -> Any:
        """A function of scalars; factors stand in front of powers, where those of the width meet and cancel."""
        powers = {"sqrt": 0.5, "rsqrt": -0.5, "square": 2.0, "integer_pow": op.params.get("y")}
        power = powers.get(op.name)
        factors, scalars = zip(*(factor_of(value) for value in values), strict=True)
        if power is not None and factors[0] > 0:
            return scale_sca(factors[0] ** power, ScaFn(op, scalars))
        if op.name in ("mul", "div"):
            factor = factors[0] * factors[1] if op.name == "mul" else factors[0] / factors[1]
            return scale_sca(factor, ScaFn(op, scalars))
        return ScaFn(op, tuple(values))

    def _function_of(self, op: Op, values: list[Any]) -> Fn:
        vecs = [value for value in values if isinstance(value, Vec)]
        origins = frozenset().union(*(vec.origins for vec in vecs))
        return Fn(vecs[0].length, origins, op, tuple(values))

    def _settled(self, value: Any) -> Any:
        """A sum of Gaussian variables as one variable, so that its multiples are functions of it alone."""
        if isinstance(value, Lin) and len(value.terms) > 1 and self.builder.is_gaussian(value):
            self.builder.place = self.place
            return self.builder.base(value)
        return value

    def _times(self, sca: Sca, vec: Vec) -> Any:
        """A scalar times a vector."""
        number, sca = factor_of(sca)
        vec = scale_vec(number, vec)
        lin = as_lin(vec)
        terms = []
        for c, s, v in lin.terms:
            factor, product = factor_of(sca if s is None else self._product(sca, s))
            terms.append((c * factor, product, v))
        constant = 0.0
        if isinstance(lin.constant, Sca):
            constant = self._product(sca, lin.constant)
        elif lin.constant:
            constant = scale_sca(lin.constant, sca)
        return Lin(lin.length, lin.origins, tuple(terms), constant)

    def _product(self, first: Any, second: Any) -> Any:
        return self._of_scalars(MULTIPLY, [first, second])

    def _of_outputs(self, name: str, values: list[Any]) -> Any:
        if name in ("copy", "stop_gradient", "convert_element_type", "copy_p"):
            return values[0]
        numbers = [value for value in values if isinstance(value, float)]
        reads = [value for value in values if isinstance(value, Read)]
        if len(numbers) + len(reads) == len(values):
            if name == "neg":
                return _scaled(-1.0, reads[0])
            if name == "mul" and len(reads) == 1:
                return _scaled(numbers[0], reads[0])
            if name == "div" and len(reads) == 1 and isinstance(values[0], Read):
                return _scaled(1 / numbers[0], reads[0])
            if name in ("add", "add_any", "sub") and all(number == 0 for number in numbers):
                signs = (1.0, -1.0 if name == "sub" else 1.0)
                parts = [_scaled(s, v) for s, v in zip(signs, values, strict=True) if isinstance(v, Read)]
                return self._added(parts)
        raise self.refuse(
            f"{name} is applied to outputs: what comes after the last wide-to-narrow product must be linear in it, "
            f"with nothing added. A narrow layer in the middle of a model (a bottleneck) has no Gaussian limit; for a "
            f"classifier, return the logits"
        )

    def _added(self, reads: list[Read]) -> Read:
        """A sum of outputs of one readout (of the sum of what it sees) or of several, which are independent."""
        parts: dict[tuple[int, str, str], tuple[float, Vec]] = {}
        for read in reads:
            for name, (share, vec) in read.parts.items():
                parts[name] = (share, add_vec(parts[name][1], vec) if name in parts else vec)
        return Read(parts)


def _scaled(number: float, read: Read) -> Read:
    return Read({name: (share, scale_vec(number, vec)) for name, (share, vec) in read.parts.items()})
