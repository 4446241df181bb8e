"""Checks of the inputs of kernels of vectors."""

from typing import Any

import numpy as np


def check_vectors(kernel: Any, name: str, input_shape: tuple[int, ...], *parameters: str) -> None:
    """Inputs are vectors, with as many features as each of the kernel's `parameters` that is itself a vector."""
    if len(input_shape) != 1:
        shape = ", ".join(map(str, input_shape))
        raise ValueError(
            f"{name} must hold vectors, shape (n, d), for {type(kernel).__name__}; got shape (n, {shape}). "
            f"Flatten it, {name}.reshape(len({name}), -1)."
        )
    for parameter in parameters:
        shape = np.shape(getattr(kernel, parameter))
        if len(shape) == 1 and shape[0] != input_shape[0]:
            raise ValueError(f"{name} has {input_shape[0]} features, but {parameter} has {shape[0]} entries.")
