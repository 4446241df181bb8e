"""Programs at a finite width."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from widetail.nn import Parametrisation, draw_weight, scaled_weight
from widetail.programs.language._functions import apply_function
from widetail.programs.statements import (
    Average,
    BiasVector,
    Constant,
    Graph,
    InputFeature,
    InputProduct,
    LinComb,
    MatMul,
    Nonlin,
    Presence,
    Random,
    ScalarFunction,
)

Parameters = Any


class FiniteProgram(eqx.Module):
    """A program at a finite width: `init` draws its parameters, `apply` evaluates it.

    Parameters are a pytree of arrays, `{"body": {name: array}, "readout": (width, outputs)}`.
    """

    program: Any
    width: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    parametrisation: Parametrisation = eqx.field(static=True)

    def init(self, key: PRNGKeyArray, input_shape: tuple[int, ...]) -> Parameters:
        """Draw parameters for inputs of shape `(n, *input_shape)`."""
        graph = self.program.graph(tuple(input_shape))
        variances = self.program.variances_of(graph)
        body_key, readout_key = jax.random.split(key)
        body = {}
        for (name, random), random_key in zip(
            graph.randoms.items(), jax.random.split(body_key, max(1, len(graph.randoms))), strict=False
        ):
            shape, fan_in = self._sizes(graph, random)
            body[name] = draw_weight(random_key, shape, variances[name], fan_in, self.parametrisation)
        readout = draw_weight(readout_key, (self.width, self.outputs), 1.0, self.width, self.parametrisation)
        return {"body": body, "readout": readout}

    def _sizes(self, graph: Graph, random: Random) -> tuple[tuple[int, ...], int]:
        """Shape and fan-in of a random matrix (inputs first, as layers have them) or vector."""
        if random.kind == "bias":
            return (self.width,), 1
        into = self.width if random.kind == "matrix" else graph.features
        return (into, self.width), into

    def features(
        self, parameters: Parameters, x: Float[Array | np.ndarray, "n *shape"], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, "n width"]:
        """What the readout sees, shape (n, width)."""
        x = jnp.asarray(x)
        graph = self.program.graph(x.shape[1:])
        variances = self.program.variances_of(graph)
        weights = {}
        for name, random in graph.randoms.items():
            _, fan_in = self._sizes(graph, random)
            weight = scaled_weight(parameters["body"][name], variances[name], fan_in, self.parametrisation)
            weights[name] = weight.astype(x.dtype)
        return _run(Traced(graph), self.width, weights, x)

    def apply(
        self, parameters: Parameters, x: Float[Array | np.ndarray, "n *shape"], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, "n outputs"]:
        """The program with its readout on a batch, shape (n, outputs)."""
        h = self.features(parameters, x, key=key)
        return h @ scaled_weight(parameters["readout"], 1.0, self.width, self.parametrisation).astype(h.dtype)


class Traced:
    """A graph as a static argument: traced once per program and shape, so compared by identity."""

    def __init__(self, graph: Graph):
        self.graph = graph

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Traced) and self.graph is other.graph

    def __hash__(self) -> int:
        return id(self.graph)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _run(traced: Traced, width: int, weights: dict[str, Any], x: Any) -> Any:
    graph = traced.graph

    def one(point):
        flat = point.reshape(-1, point.shape[-1])
        return execute(graph, width, weights, flat[:, : graph.features], flat[:, -1])

    return jax.vmap(one)(x)


def execute(graph: Graph, width: int, weights: dict[str, Any], x: Any, present: Any) -> Any:
    """The output vector of a program for one data point.

    Args:
        graph: the program.
        width: entries of every vector.
        weights: matrices (inputs, width) and biases (width,) by name.
        x: the data point, (positions, features).
        present: flags (positions,), used by masked programs only.
    """
    values: dict[int, Any] = {}
    for index in graph.needed():
        statement = graph.lines[index].statement
        match statement:
            case Constant():
                value = jnp.full(width, statement.value, x.dtype)
            case InputProduct():
                value = x[statement.position] @ weights[statement.matrix]
            case BiasVector():
                value = weights[statement.bias]
            case MatMul():
                value = values[statement.vector] @ weights[statement.matrix]
            case LinComb():
                value = jnp.zeros(width, x.dtype)
                for term in statement.terms:
                    factor = term.number if term.scalar is None else term.number * values[term.scalar]
                    value = value + factor * values[term.variable]
            case Nonlin() | ScalarFunction():
                value = apply_function(statement.fn, tuple(values[argument] for argument in statement.arguments))
            case Average():
                value = jnp.mean(values[statement.vector])
            case Presence():
                value = present[statement.position]
            case InputFeature():
                value = x[statement.position, statement.feature]
            case _:
                raise TypeError(f"{type(statement).__name__} cannot be executed")
        values[index] = value
    return values[graph.output]
