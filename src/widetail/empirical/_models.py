"""Any finite model as a function of its parameters and a batch of rows."""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

Apply = Callable[[Any, Any], Any]


class Model(NamedTuple):
    """`apply(params, x)` for inputs with rows first; `params` is a pytree of floating-point arrays."""

    apply: Apply
    params: Any


def as_model(model: Any, params: Any = None) -> Model:
    """What the kernels of this room are computed from.

    Args:
        model: a function `apply(params, x)` of a batch; `net.at_width(n)`; a Flax NNX module, which takes a batch; or
            an Equinox module, which takes one row.
        params: parameters, for a function and for `net.at_width(n)`; the other two hold their own.
    """
    nnx = _flax_nnx()
    if nnx is not None and isinstance(model, nnx.Module):
        _refuse_params(model, params)
        return _from_nnx(nnx, model)
    apply: Any = getattr(model, "apply", None)
    if callable(apply) and hasattr(model, "init"):
        _require_params(model, params)
        return _differentiable(lambda p, x: apply(p, x), params)
    if isinstance(model, eqx.Module) and params is None:
        if not callable(model):
            raise ValueError(f"model must be callable on one row; got {type(model).__name__} without __call__.")
        return _differentiable(lambda m, x: jax.vmap(m)(x), model)
    if callable(model):
        _require_params(model, params)
        return _differentiable(model, params)
    raise ValueError(
        f"model must be a function apply(params, x), net.at_width(n), an Equinox module or a Flax NNX module; "
        f"got {type(model).__name__}."
    )


def _differentiable(apply: Apply, params: Any) -> Model:
    """The model as a function of its floating-point arrays; all else in `params` stays as it is."""
    fixed = eqx.filter(params, _is_floating, inverse=True)
    free = floating(params)
    if not jax.tree.leaves(free):
        raise ValueError("params must hold floating-point arrays; there are none, so there is no tangent kernel.")
    return Model(lambda p, x: apply(eqx.combine(p, fixed), x), free)


def floating(params: Any) -> Any:
    """Floating-point arrays alone, None in place of anything else."""
    free = eqx.filter(params, _is_floating)
    return jax.tree.map(lambda leaf: leaf if eqx.is_array(leaf) else jnp.asarray(leaf), free)


def _is_floating(leaf: Any) -> bool:
    """Arrays and numbers, traced ones included (which `eqx.is_inexact_array_like` stumbles over)."""
    return isinstance(leaf, (jax.Array, np.ndarray, np.generic, float)) and jnp.issubdtype(
        jnp.result_type(leaf), jnp.inexact
    )


def _from_nnx(nnx: Any, model: Any) -> Model:
    graph, params, rest = nnx.split(model, nnx.Param, ...)

    def apply(p: Any, x: Any) -> Any:
        return nnx.merge(graph, p, rest)(x)

    return _differentiable(apply, params)


def _flax_nnx() -> Any:
    """Flax's `nnx`, where the user has imported it: a model of it cannot exist otherwise."""
    return getattr(sys.modules.get("flax"), "nnx", None)


def _require_params(model: Any, params: Any) -> None:
    if params is None:
        raise ValueError(
            f"params must be given for {type(model).__name__}: the parameters that apply(params, x) takes, for example "
            f"from net.at_width(n).init(key, x.shape[1:])."
        )


def _refuse_params(model: Any, params: Any) -> None:
    if params is not None:
        raise ValueError(f"params must be None for {type(model).__name__}, which holds its own parameters.")
