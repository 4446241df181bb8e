"""Functions that programs apply to entries: which are known, and which the theory does not cover."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail import nn
from widetail.gaussian import complaint
from widetail.programs.language._derived import Reordered
from widetail.programs.statements import Kind


@functools.lru_cache(maxsize=256)
def recognise(fn: Any) -> nn.Activation | None:
    """The activation of `nn` that `fn` is: one with a closed form, or a known function by quadrature."""
    if isinstance(fn, nn.Activation):
        return fn
    known = _by_function().get(fn)
    if known is not None:
        return known
    text = _jaxpr_text(fn)
    return None if text is None else _by_text().get(text)


@functools.lru_cache
def _by_function() -> dict[Callable[..., Any], nn.Activation]:
    """Functions that users name, with the layers that compute their duals."""
    return {
        jnp.tanh: nn.Tanh(),
        jax.nn.tanh: nn.Tanh(),
        jax.nn.relu: nn.Relu(),
        jax.nn.sigmoid: nn.Sigmoid(),
        jax.nn.leaky_relu: nn.LeakyRelu(0.01),
        jax.scipy.special.erf: nn.Erf(),
        jax.lax.erf: nn.Erf(),
        jnp.abs: nn.Abs(),
        jnp.absolute: nn.Abs(),
        jnp.sign: nn.Sign(),
        jnp.sin: nn.Sin(),
        jnp.cos: nn.Cos(),
        jnp.exp: nn.Exp(),
    }


@functools.lru_cache
def _by_text() -> dict[str, nn.Activation]:
    """The same, and a few spellings more, by what JAX makes of them."""
    spellings: list[tuple[Callable[..., Any], nn.Activation]] = list(_by_function().items())
    spellings += [
        (lambda z: jnp.maximum(z, 0), nn.Relu()),
        (lambda z: jnp.maximum(z, 0.0), nn.Relu()),
        (lambda z: jnp.maximum(0, z), nn.Relu()),
        (lambda z: jnp.maximum(0.0, z), nn.Relu()),
        (lambda z: jnp.where(z > 0, z, 0), nn.Relu()),
        (lambda z: jnp.where(z > 0, z, 0.0), nn.Relu()),
        (lambda z: jax.nn.gelu(z, approximate=False), nn.Gelu()),
    ]
    found = {}
    for fn, activation in spellings:
        text = _jaxpr_text(fn)
        if text is not None:
            found[text] = activation
    return found


def _jaxpr_text(fn: Any) -> str | None:
    """What JAX makes of a function of one entry: equal texts are equal functions."""
    try:
        closed = jax.make_jaxpr(fn)(jax.ShapeDtypeStruct((2,), np.float32))
    except Exception:  # whatever the user's function raises is reported where it is used
        return None
    return str(closed) if not closed.consts else None


def apply_function(fn: Any, arguments: tuple[Any, ...]) -> Any:
    """`fn` of arrays that broadcast against each other, in their dtype."""
    if isinstance(fn, nn.Activation):
        return fn.function(*arguments)
    result = fn(*arguments)
    dtype = jnp.result_type(*arguments) if arguments else jnp.result_type(float)
    return jnp.asarray(result).astype(dtype)


def wrong_with(fn: Any, kinds: Sequence[Kind]) -> str | None:
    """What is wrong with a function of such variables, in the order of its arguments; None where nothing is."""
    is_vector = [kind != "S" for kind in kinds]
    if fn in (jnp.multiply, jnp.divide) or (len(is_vector) == 1 and recognise(fn) is not None):
        return None
    # the check wants vectors first
    order = sorted(range(len(is_vector)), key=lambda index: not is_vector[index])
    probe = fn.function if isinstance(fn, nn.Activation) else fn
    probe = probe if order == sorted(order) else Reordered(probe, tuple(order))
    return complaint(probe, sum(is_vector), len(is_vector) - sum(is_vector), reaches_poles="H" not in kinds)


def piecewise_linear(activation: nn.Activation | None) -> tuple[float, float] | None:
    """The numbers (a, b) of an activation a |x| + b x; None for any other."""
    if isinstance(activation, nn.Relu):
        return 0.5, 0.5
    if isinstance(activation, nn.Abs):
        return 1.0, 0.0
    if isinstance(activation, nn.LeakyRelu):
        below = float(activation.negative_slope)
        return 0.5 * (1 - below), 0.5 * (1 + below)
    return None
