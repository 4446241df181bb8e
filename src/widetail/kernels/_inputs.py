"""Checking what users pass in."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail.numerics import is_traced

GETS = ("nngp", "ntk", "both")


def check_get(kernel: Any, get: Any) -> None:
    """Refuse anything but the three words, and a tangent kernel from a kernel that has none."""
    if get not in GETS:
        raise ValueError(f"get must be one of {', '.join(map(repr, GETS))}; got {get!r}.")
    if get == "ntk" and not kernel.has_ntk:
        raise ValueError(f"{type(kernel).__name__} has no tangent kernel; ask for get='nngp'.")


def largest_of_four(dtype: Any) -> float:
    """The fourth root of the largest number, with a tenth to spare for variances of weights."""
    return 0.1 * float(jnp.finfo(dtype).max) ** 0.25


def check_inputs(kernel: Any, x1: Any, x2: Any) -> tuple[Any, Any]:
    """Arrays that `kernel` can take, or an error that says what is wrong with them."""
    x1 = check_array("x1", x1)
    kernel.check_shape("x1", x1.shape[1:])
    _check_size(kernel, "x1", x1)
    if x2 is None:
        return x1, None
    x2 = check_array("x2", x2)
    if x2.shape[1:] != x1.shape[1:]:
        raise ValueError(
            f"x1 and x2 must agree in all axes but the first; x1 has shape {x1.shape} and x2 has shape {x2.shape}."
        )
    if x2.dtype != x1.dtype:
        raise ValueError(
            f"x1 and x2 must have the same dtype; got {x1.dtype} and {x2.dtype}. "
            f"Convert one of them, for example with x2.astype(x1.dtype)."
        )
    _check_size(kernel, "x2", x2)
    return x1, x2


def _check_size(kernel: Any, name: str, x: Any) -> None:
    largest = kernel.largest_input(x.dtype)
    if largest == np.inf or is_traced(x):
        return
    numbers = np.asarray(x)
    size = max(float(numbers.max()), -float(numbers.min()))
    if size > largest:
        advice = ", or convert them to float64" if x.dtype == np.float32 else ""
        raise ValueError(
            f"{name} has entries of size {size:.2g}; beyond {largest:.2g} products of {x.dtype} covariances overflow. "
            f"Bring the inputs to a common scale, for example mean 0 and standard deviation 1{advice}."
        )


def check_array(name: str, x: Any) -> Any:
    """`x` as a non-empty, finite floating-point array with rows and features."""
    given = type(x).__name__
    if not isinstance(x, (np.ndarray, jax.Array)):
        try:
            x = np.asarray(x)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} must be an array of numbers; got {given}: {error}.") from None
    if x.dtype not in (np.float32, np.float64):
        advice = (
            f"Convert it, for example with {name}.astype(float); uint8 images are usually scaled to [-1, 1] first"
            if jnp.issubdtype(x.dtype, jnp.number) or x.dtype == bool
            else "Encode text and categories as numbers first, and make sparse matrices dense"
        )
        raise ValueError(f"{name} must be float32 or float64; got {given} of dtype {x.dtype}. {advice}.")
    if x.ndim < 2:
        raise ValueError(
            f"{name} must have rows and features, shape (n, d) or (n, ..., channels); got shape {x.shape}. "
            f"A single feature is {name}[:, None]; a single row is {name}[None, :]."
        )
    if 0 in x.shape:
        raise ValueError(f"{name} must not be empty; got shape {x.shape}.")
    if not is_traced(x):
        _check_finite(name, np.asarray(x))
    return x


def _check_finite(name: str, x: np.ndarray) -> None:
    # A sum is finite only if every term is, and it needs no array of booleans; its own overflow is rare
    # and sorted out below.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(x, dtype=np.float64)):
            return
    bad = ~np.isfinite(x)
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        raise ValueError(
            f"{name} must be finite; {int(bad.sum())} of its {x.size} entries are NaN or infinite, "
            f"the first in row {row}. Impute or drop them."
        )
