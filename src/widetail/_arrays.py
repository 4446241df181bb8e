"""Where arrays come from, and the precision they are computed in."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Fn = TypeVar("Fn", bound=Callable[..., Any])


def is_traced(*trees: Any) -> bool:
    """Whether any leaf of `trees` is inside a JAX transformation (jit, grad, vmap)."""
    return any(_is_tracer(leaf) for leaf in jax.tree.leaves(trees))


def _is_tracer(leaf: Any) -> bool:
    if not isinstance(leaf, jax.Array):
        return False
    try:
        leaf.devices()  # the cheapest question that only a concrete array can answer
    except jax.errors.ConcretizationTypeError:
        return True
    return False


def namespace(array: Any) -> Any:
    """`numpy` for what NumPy holds, `jax.numpy` for the rest: code that uses it runs in either."""
    return np if isinstance(array, (np.ndarray, np.generic)) else jnp


def double_precision(fn: Fn) -> Fn:
    """Run `fn` in float64 whatever the user's `jax_enable_x64` flag says; return NumPy arrays.

    A float64 `jax.Array` is truncated by the next operation when the flag is off, hence NumPy.
    Inside a transformation `fn` is traced as it stands, in the precision of its arguments.
    """

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_traced(args, kwargs) or _is_tracer(jnp.zeros(())):  # the latter: constants inside of jit
            return fn(*args, **kwargs)
        with jax.enable_x64(True):
            args, kwargs = jax.tree.map(_to_float64, (args, kwargs))
            result = fn(*args, **kwargs)
            return jax.tree.map(_to_numpy, result)

    return call  # type: ignore[return-value]


def _to_float64(leaf: Any) -> Any:
    is_float_array = isinstance(leaf, (jax.Array, np.ndarray)) and jnp.issubdtype(leaf.dtype, jnp.floating)
    return jnp.asarray(leaf, jnp.float64) if is_float_array else leaf


def _to_numpy(leaf: Any) -> Any:
    return np.asarray(leaf)[()] if isinstance(leaf, jax.Array) and not _is_opaque(leaf) else leaf


def _is_opaque(leaf: jax.Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) or _is_tracer(leaf)
