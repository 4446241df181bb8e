"""Inputs of kernels of finite models: arrays or trees of them, and the precision that they ask for."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from widetail.numerics import is_traced


def first_row(x: Any) -> Any:
    """The first row, without the axis of rows, as shape and dtype."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], jnp.result_type(leaf.dtype)), x)


def checked_rows(x1: Any, x2: Any) -> tuple[Any, Any]:
    """Arrays with rows, of one kind on both sides."""
    x1 = _arrays("x1", x1)
    if x2 is None:
        return x1, None
    x2 = _arrays("x2", x2)
    shapes1, shapes2 = (jax.tree.map(lambda leaf: leaf.shape[1:], x) for x in (x1, x2))
    if shapes1 != shapes2:
        raise ValueError(f"x1 and x2 must agree in all axes but the first; got rows of shapes {shapes1} and {shapes2}.")
    return x1, x2


def _arrays(name: str, x: Any) -> Any:
    x = jax.tree.map(lambda leaf: leaf if eqx.is_array(leaf) else np.asarray(leaf), x)
    if isinstance(x, list):  # nested lists of numbers are one array
        x = np.asarray(x)
    for leaf in jax.tree.leaves(x):
        if leaf.dtype == object or leaf.ndim < 1 or 0 in leaf.shape:
            raise ValueError(f"{name} must be a non-empty array of numbers with rows first; got shape {leaf.shape}.")
        if not is_traced(leaf) and jnp.issubdtype(leaf.dtype, jnp.floating) and not np.isfinite(np.sum(leaf)):
            raise ValueError(f"{name} must be finite; it has NaN or infinite entries. Impute or drop them.")
    if not jax.tree.leaves(x):
        raise ValueError(f"{name} must be an array with rows first; got {x!r}.")
    return x


def precision(*trees: Any) -> Any:
    """Double precision if anything that goes in has it."""
    leaves = [leaf for leaf in jax.tree.leaves(trees) if eqx.is_array(leaf)]
    return jax.enable_x64(any(leaf.dtype == np.float64 for leaf in leaves) or doubles_allowed())


def doubles_allowed() -> bool:
    """Whether JAX is in double precision here."""
    return jnp.zeros((), float).dtype == np.float64


def in_kind_of(values: np.ndarray, x: Any) -> Any:
    """NumPy for NumPy, JAX for JAX."""
    return jnp.asarray(values) if isinstance(jax.tree.leaves(x)[0], jax.Array) else values
