"""Parameters of a prior: how they are stored, checked and shown."""

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from widetail.numerics import is_traced

# NumPy or JAX arrays. The type checker would want every operator twice, and is told less.
if TYPE_CHECKING:
    Parameter = Float[Array, "*#batch"]
    Values = Any
    Numbers = Any
else:
    Parameter = Float[Array | np.ndarray, "*#batch"]
    Values = Float[ArrayLike, "..."]
    Numbers = ArrayLike | list  # what a caller may pass


def parameter(value: Any, owner: str, name: str, *, positive: bool = True) -> Any:
    """A parameter as a float64 array, or as it is inside a transformation; bad values raise.

    NumPy keeps float64 whatever the flag `jax_enable_x64` says, and is a leaf that `jax.jit` does not
    compile into the program.
    """
    if is_traced(value):
        return jnp.asarray(value, float)
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"{owner}: {name} must be a number or an array of numbers, got {value!r} "
            f"({type(value).__name__}); pass a float."
        ) from None
    valid = np.isfinite(array) & (array > 0) if positive else np.isfinite(array)
    if not np.all(valid):
        expected = "positive and finite" if positive else "finite"
        raise ValueError(
            f"{owner}: {name} must be {expected}, got {show(array)}; "
            f"pass {'a value above 0' if positive else 'a real number'}."
        )
    return array


def show(value: Any) -> str:
    """A parameter as it would be written in code."""
    return f"{type(value).__name__}" if is_traced(value) else repr(np.asarray(value, np.float64).tolist())
