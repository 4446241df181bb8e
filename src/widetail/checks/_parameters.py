"""Parameters of layers, kernels and priors: variances and other numbers."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from widetail.numerics import is_traced


def check_variance(name: str, value: Any, *, positive: bool = False, may_be_vector: bool = False) -> None:
    """A finite variance, checked where its value is known (not inside a transformation)."""
    expected = "a positive number" if positive else "a number, zero or larger"
    if may_be_vector:
        expected += " or a vector of them, one per input feature"
    if is_traced(value):
        return
    if isinstance(value, bool) or not _is_real(value):
        raise ValueError(f"{name} must be {expected}; got {value!r}.")
    array = np.asarray(value)
    if array.ndim > (1 if may_be_vector else 0):
        raise ValueError(f"{name} must be {expected}; got an array of shape {array.shape}.")
    is_inside = array > 0 if positive else array >= 0
    if not (np.all(is_inside) and np.all(np.isfinite(array))):
        reminder = " (It is a variance, not a standard deviation.)" if "var" in name else ""
        raise ValueError(f"{name} must be {expected}; got {value!r}.{reminder}")


def check_number(name: str, value: Any, *, positive: bool = False) -> None:
    """A finite number, checked where its value is known."""
    if is_traced(value):
        return
    is_number = isinstance(value, (int, float, np.generic)) or (hasattr(value, "shape") and value.shape == ())
    if not is_number or isinstance(value, bool) or not np.isfinite(value) or (positive and not float(value) > 0):
        raise ValueError(f"{name} must be a {'positive' if positive else 'finite'} number; got {value!r}.")


def check_places(places: tuple[int, ...]) -> None:
    """The group of every feature of an encoded row: there are not more groups than features."""
    is_right = len(places) > 0 and all(isinstance(place, int) and 0 <= place < len(places) for place in places)
    if not is_right:
        raise ValueError(
            f"places must give the group of every feature, from 0 to at most {max(len(places) - 1, 0)}; got {places!r}."
        )


def _is_real(value: Any) -> bool:
    """Whether `value` is a real number or a rectangular array of them."""
    try:
        dtype = np.asarray(value).dtype
    except ValueError:
        return False
    return np.issubdtype(dtype, np.integer) or np.issubdtype(dtype, np.floating)


class Number(np.float64):
    """A Python float that Equinox takes for an array; `eqx.filter_grad` passes over plain floats."""

    __slots__ = ()

    def __repr__(self) -> str:
        return float.__repr__(self)


def as_parameter(value: Any) -> Any:
    """Numbers and lists as arrays, so that every parameter can be differentiated."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float, np.integer)):
        return Number(value)
    if isinstance(value, np.ndarray) and np.issubdtype(value.dtype, np.integer):
        return value.astype(float)
    if isinstance(value, (list, tuple)) and _is_real(value):
        return np.asarray(value, dtype=float)
    return value


def is_zero(value: Any) -> bool:
    """Whether a number is known to be zero."""
    return not is_traced(value) and jnp.ndim(value) == 0 and float(value) == 0.0
