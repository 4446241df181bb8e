"""Functions that programs apply to entries: which are known, and which the theory does not cover."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail import nn
from widetail.programs._derived import Reordered

# Radii at which the growth of a function is looked at; exp(x^2) overflows at 27, exp(x) at 710.
_RADII = np.array([1.0, 2.0, 4.0, 6.0, 9.0, 13.0, 18.0, 25.0, 40.0, 80.0, 160.0, 320.0, 640.0])
# log|phi| may grow like |z| to a power below two; from here on it counts as two.
_TOO_FAST = 1.97


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


_UNDEFINED = "is NaN for some real arguments; it must be defined on the whole line"


@functools.lru_cache(maxsize=256)
def complaint(fn: Any, vectors: int, scalars: int) -> str | None:
    """What is wrong with a function of entries of so many vectors and scalars; None where nothing is."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(8, vectors))
    directions = np.concatenate([directions, np.eye(vectors), -np.eye(vectors), np.ones((1, vectors))])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    points = directions[:, None, :] * _RADII[:, None]
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        columns = [jnp.asarray(points[..., k]) for k in range(vectors)]
        columns += [jnp.ones(points.shape[:-1])] * scalars
        try:
            values = apply_function(fn, tuple(columns))
        except jax.errors.TracerArrayConversionError:
            return "must be made of JAX operations (jnp.tanh, not np.tanh)"
        except TypeError as error:
            return f"cannot be called on {vectors + scalars} arguments: {error}"
        if jnp.shape(values) != points.shape[:-1]:
            return f"must act entry by entry, but it maps shape {points.shape[:-1]} to {jnp.shape(values)}"
        values = np.asarray(values)
    if np.isnan(values[:, _RADII <= 1]).any():
        return _UNDEFINED
    # zero times an overflow is NaN too, so growth is looked at before NaN further out
    too_fast = _growth_complaint(np.abs(values)) if vectors else None
    return too_fast or (_UNDEFINED if np.isnan(values[:, _RADII <= 9]).any() else None)


def wrong_with(fn: Any, is_vector: Sequence[bool]) -> str | None:
    """What is wrong with a function of vectors and scalars, in the order of its arguments; None where nothing is."""
    if fn in (jnp.multiply, jnp.divide) or (len(is_vector) == 1 and recognise(fn) is not None):
        return None
    # the check wants vectors first
    order = sorted(range(len(is_vector)), key=lambda index: not is_vector[index])
    probe = fn if order == sorted(order) else Reordered(fn, tuple(order))
    return complaint(probe, sum(is_vector), len(is_vector) - sum(is_vector))


def _growth_complaint(sizes: np.ndarray) -> str | None:
    """A controlled function grows slower than the exponential of a square."""
    for row in sizes:
        is_usable = np.isfinite(row) & (row > np.e**2)
        radii, logs = _RADII[is_usable], np.log(row[is_usable])
        if len(radii) >= 2:
            power = np.log(logs[-1] / logs[-2]) / np.log(radii[-1] / radii[-2])
            if power >= _TOO_FAST:
                return (
                    "is not controlled: it grows like the exponential of a square or faster, so its expectation "
                    "under a Gaussian may not exist. The theory needs |phi(z)| <= exp(C |z|^(2 - eps) + c)"
                )
        elif not np.isfinite(row[_RADII <= 25]).all():
            return (
                "is not controlled: it overflows within 25 standard deviations. "
                "The theory needs |phi(z)| <= exp(C |z|^(2 - eps) + c)"
            )
    return None


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
