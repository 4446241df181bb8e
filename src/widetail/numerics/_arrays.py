"""NumPy or JAX arrays, single or double precision."""

import functools
from collections.abc import Callable
from typing import Any, Literal, TypeVar

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
        leaf.devices()  # the cheapest method that only concrete arrays have
    except jax.errors.ConcretizationTypeError:
        return True
    return False


def namespace(*trees: Any) -> Any:
    """`jax.numpy` if any leaf of `trees` is a JAX array, `numpy` otherwise: code that uses it runs in either.

    NumPy compiles nothing: a formula of ten operations takes microseconds instead of a second the first time.
    """
    return jnp if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(trees)) else np


def concrete(values: jax.Array) -> Any:
    """What JAX drew or computed as NumPy arrays, so that nothing is compiled to go on with it; tracers as they are."""
    return values if _is_tracer(values) else np.asarray(values)


def double_precision(fn: Fn) -> Fn:
    """Run `fn` in float64 whatever the user's `jax_enable_x64` flag says, on NumPy arrays and into NumPy arrays.

    A float64 `jax.Array` is truncated by the next operation when the flag is off, hence NumPy. Infinities and
    NaN on the way are the business of `fn`, as they are in JAX: NumPy does not warn of them.
    Inside a transformation `fn` is traced on JAX arrays, in the precision of its arguments.
    """

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_traced(args, kwargs) or _is_tracer(jnp.zeros(())):  # the latter: constants inside of jit
            args, kwargs = jax.tree.map(_to_jax, (args, kwargs))
            return fn(*args, **kwargs)
        with jax.enable_x64(True), np.errstate(all="ignore"):
            args, kwargs = jax.tree.map(_to_float64, (args, kwargs))
            result = fn(*args, **kwargs)
            return jax.tree.map(_to_numpy, result)

    return call  # type: ignore[return-value]


def _to_float64(leaf: Any) -> Any:
    is_float_array = isinstance(leaf, (jax.Array, np.ndarray)) and jnp.issubdtype(leaf.dtype, jnp.floating)
    return np.asarray(leaf, np.float64) if is_float_array else leaf


def _to_jax(leaf: Any) -> Any:
    # Constants beside traced arrays: one namespace for all of them.
    return jnp.asarray(leaf) if isinstance(leaf, (np.ndarray, np.generic)) else leaf


def _to_numpy(leaf: Any) -> Any:
    return np.asarray(leaf)[()] if isinstance(leaf, jax.Array) and not _is_opaque(leaf) else leaf


def _is_opaque(leaf: jax.Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) or _is_tracer(leaf)


def with_rows(values: np.ndarray, rows: int, fill: Literal["last", "zero"] = "last") -> np.ndarray:
    """`values` followed by copies of its last row, or by zeros, up to `rows` rows: blocks of one shape compile once."""
    missing = rows - len(values)
    if not missing:
        return values
    last = np.zeros_like(values[:1]) if fill == "zero" else values[-1:]
    return np.concatenate([values, np.broadcast_to(last, (missing, *values.shape[1:]))])


# Below this many elements NumPy has finished before JAX has compiled, and is not much slower afterwards.
_WORTH_COMPILING = 100_000


def compiled_if_large(size: Callable[..., int]) -> Callable[[Fn], Fn]:
    """Compile a function that is written for either namespace, but leave small concrete cases to NumPy.

    Args:
        size: number of elements that the function will work on, given its arguments.
    """

    def decorate(fn: Fn) -> Fn:
        jitted = jax.jit(fn)

        @functools.wraps(fn)
        def call(*args: Any) -> Any:
            is_small = namespace(args) is np and size(*args) < _WORTH_COMPILING
            return fn(*args) if is_small else jax.tree.map(concrete, jitted(*args))

        return call  # type: ignore[return-value]

    return decorate
