"""What a model does with its input before the first random matrix: a plain function, carried out as it is written."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from widetail.widening._functions import apply_op
from widetail.widening._symbols import Op

# A step: a primitive, its parameters, and what it reads: ("n", step, output) or ("k", constant).
Reference = tuple[Any, ...]


class Narrow:
    """An array that depends on the input alone."""

    def __init__(self, reference: Reference, shape: tuple[int, ...], dtype: Any):
        self.reference, self.shape, self.dtype = reference, shape, dtype


class Prologue:
    """The steps, in order."""

    def __init__(self, input_shape: tuple[int, ...]):
        self.input_shape = input_shape
        self.steps: list[tuple[Any, dict[str, Any], tuple[Reference, ...]]] = []

    def record(self, primitive: Any, params: dict[str, Any], arguments: list[Any], outputs: Any) -> list[Narrow]:
        """Add a step; its results."""
        references = tuple(
            argument.reference if isinstance(argument, Narrow) else ("k", np.asarray(argument))
            for argument in arguments
        )
        self.steps.append((primitive, params, references))
        number = len(self.steps) - 1
        return [Narrow(("n", number, k), aval.shape, aval.dtype) for k, aval in enumerate(outputs)]

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
