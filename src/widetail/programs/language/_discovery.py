"""Which matrices and biases a program has: it is tried on small inputs when it is made."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from widetail.numerics import is_traced
from widetail.programs.language._language import trace
from widetail.programs.language._source import InputError, ProgramError
from widetail.programs.limits._expressions import Decomposition
from widetail.programs.statements import Random

# Shapes of inputs that a program is tried on.
PROBES = ((3,), (4, 3), (6, 6, 3))


@functools.lru_cache(maxsize=512)
def decomposition(
    fn: Callable[..., Any], settings: tuple[tuple[str, Any], ...], input_shape: tuple[int, ...], masked: bool
) -> Decomposition:
    """The statements for inputs of one shape, and what is known of them without numbers."""
    return Decomposition(trace(fn, dict(settings), input_shape, masked))


def static(name: str, value: Any) -> Any:
    """A setting that can be compared and hashed."""
    if is_traced(value):
        raise ValueError(
            f"{name} is traced by JAX, but the settings of a program are fixed when it is made. Use "
            f"program.with_variances(...) for variances that are differentiated."
        )
    if isinstance(value, (jax.Array, np.ndarray, list)):
        value = np.asarray(value)
        return float(value) if value.ndim == 0 else _nested(value.tolist())
    # also the numbers of a layer: as part of a setting they are fixed, and plain floats say so
    return jax.tree.map(lambda leaf: leaf.item() if isinstance(leaf, np.generic) else leaf, value)


def _nested(value: Any) -> Any:
    return tuple(map(_nested, value)) if isinstance(value, list) else value


def discover(fn: Callable[..., Any], settings: tuple[tuple[str, Any], ...], masked: bool) -> dict[str, Random]:
    """The matrices and biases that a program makes, from the first kind of input that fits it."""
    # a matrix among the settings may have a row per position, such as the edges of a graph
    matrices = [value for _, value in settings if isinstance(value, tuple) and value and isinstance(value[0], tuple)]
    for shape in (*PROBES, *((len(matrix), 3) for matrix in matrices)):
        shape = (*shape[:-1], _features(settings, shape[-1]) + masked)
        try:
            return decomposition(fn, settings, shape, masked).graph.randoms
        except InputError:
            continue
        except ProgramError:
            raise
        except Exception:  # the function may want other inputs than these; its errors show when it gets its own
            continue
    return {}


def _features(settings: tuple[tuple[str, Any], ...], default: int) -> int:
    """As many features as a vector of variances has entries."""
    vectors = [value for _, value in settings if isinstance(value, tuple) and value and isinstance(value[0], float)]
    return len(vectors[0]) if vectors else default


def hashable(var: Any) -> Any:
    """A variance, or a vector of them, as plain numbers."""
    return tuple(np.asarray(var).tolist()) if np.ndim(var) else float(var)


def as_array(var: Any) -> Any:
    """The reverse of it."""
    return np.asarray(var, float) if isinstance(var, tuple) else var
