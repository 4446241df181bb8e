"""What a model does with its input before the first random matrix: a plain function, carried out as it is written."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail.widening._primitives import ELEMENTWISE
from widetail.widening.as_program._functions import apply_op
from widetail.widening.as_program._symbols import Op

# A step: a primitive, its parameters, and what it reads: ("n", step, output) or ("k", constant).
Reference = tuple[Any, ...]


# Rearrangements of one array, whose entries are copies of those that go in.
ARRANGEMENTS = {"broadcast_in_dim", "expand_dims", "reshape", "rev", "slice", "squeeze", "transpose"}


def _all_different(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(math.prod(shape)).reshape(shape)


def _of_numbers(values: np.ndarray) -> np.ndarray:
    return np.unique(np.asarray(values), return_inverse=True)[1].reshape(np.shape(values))


class Narrow:
    """An array that depends on the input alone."""

    def __init__(self, reference: Reference, shape: tuple[int, ...], dtype: Any):
        self.reference, self.shape, self.dtype = reference, shape, dtype


class Prologue:
    """The steps, in order."""

    def __init__(self, input_shape: tuple[int, ...]):
        self.input_shape = input_shape
        self.steps: list[tuple[Any, dict[str, Any], tuple[Reference, ...]]] = []
        self._shapes: list[list[tuple[int, ...]]] = []
        self._classes: dict[Reference, np.ndarray] = {}

    def record(self, primitive: Any, params: dict[str, Any], arguments: list[Any], outputs: Any) -> list[Narrow]:
        """Add a step; its results."""
        references = tuple(
            argument.reference if isinstance(argument, Narrow) else ("k", np.asarray(argument))
            for argument in arguments
        )
        self.steps.append((primitive, params, references))
        self._shapes.append([aval.shape for aval in outputs])
        number = len(self.steps) - 1
        return [Narrow(("n", number, k), aval.shape, aval.dtype) for k, aval in enumerate(outputs)]

    def classes(self, reference: Reference) -> np.ndarray:
        """A number for each entry, equal for entries that are equal by the way they are made: copies along an axis."""
        if reference not in self._classes:
            self._classes[reference] = self._new_classes(reference)
        return self._classes[reference]

    def _new_classes(self, reference: Reference) -> np.ndarray:
        if reference[0] == "x":
            return _all_different(self.input_shape)
        primitive, params, references = self.steps[reference[1]]
        shape = self._shapes[reference[1]][reference[2]]
        inner = [_of_numbers(r[1]) if r[0] == "k" else self.classes(r) for r in references]
        if primitive.name in ELEMENTWISE:
            columns = [np.broadcast_to(found, shape).reshape(-1) for found in inner]
            return np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].reshape(shape)
        if primitive.name in ARRANGEMENTS:
            with jax.enable_x64(True), jax.ensure_compile_time_eval():
                return np.asarray(primitive.bind(jnp.asarray(inner[0]), **params))
        return _all_different(shape)

    def look(self) -> list[Any]:
        """Equal for prologues that do the same, whatever they were traced for."""
        return [
            (
                primitive.name,
                tuple(
                    ("k", reference[1].shape, reference[1].tobytes()) if reference[0] == "k" else reference
                    for reference in references
                ),
            )
            for primitive, _, references in self.steps
        ]

    def run(self, x: Any, wanted: list[Reference]) -> list[Any]:
        """The values of references for one input, in its precision."""
        dtype = x.dtype
        values: list[list[Any]] = []

        def value(reference: Reference) -> Any:
            if reference[0] == "x":
                return x if len(reference) == 1 else x.astype(jnp.int32)
            if reference[0] == "k":
                constant = jnp.asarray(reference[1])
                return constant.astype(dtype) if jnp.issubdtype(constant.dtype, jnp.floating) else constant
            return values[reference[1]][reference[2]]

        for primitive, params, references in self.steps:
            arguments = [value(reference) for reference in references]
            if primitive.name == "convert_element_type":
                values.append([apply_op(Op(primitive.name, primitive, params), arguments, dtype)])
                continue
            result = primitive.bind(*arguments, **params)
            values.append(list(result) if primitive.multiple_results else [result])
        return [value(reference) for reference in wanted]
