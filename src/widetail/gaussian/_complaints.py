"""What is wrong with a function whose Gaussian expectations are wanted."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail.numerics import is_traced

# Radii at which the growth of a function is looked at; exp(x^2) overflows at 27, exp(x) at 710.
_RADII = np.array([1.0, 2.0, 4.0, 6.0, 9.0, 13.0, 18.0, 25.0, 40.0, 80.0, 160.0, 320.0, 640.0])
# log|phi| may grow like |z| to a power below two; from here on it counts as two.
_TOO_FAST = 1.97
_UNDEFINED = "is NaN for some real arguments; it must be defined on the whole line"
_NOT_OF_JAX = "must be made of JAX operations (jnp.tanh, not np.tanh or math.tanh; jnp.where, not if)"
# Where poles are looked for: closer than this a function of interest has no second one.
_PLACES = np.arange(-4800, 4801) / (120 * np.pi)
_HALVINGS = 60
_NEARBY = np.array([1e-10, 1e-8, 1e-6])
# |phi|^2 has no integral where |phi| grows like a distance to the power of -1/2.
_POLE = 0.49


@functools.lru_cache(maxsize=256)
def complaint(fn: Callable[..., Any], vectors: int = 1, scalars: int = 0, *, reaches_poles: bool = True) -> str | None:
    """Why E[phi^2] cannot be computed, or does not exist, for a function of Gaussian variables; None where it can.

    Args:
        fn: a function of JAX arrays that broadcast against each other.
        vectors: how many of its arguments, the first ones, are Gaussian.
        scalars: how many others there are, which are set to one.
        reaches_poles: whether a pole counts. False for arguments that are themselves functions of Gaussian ones, and
            may keep off it, as 1 + z^2 keeps off zero.

    Example:
        >>> import jax.numpy as jnp
        >>> from widetail.gaussian import complaint
        >>> complaint(jnp.tanh), complaint(jnp.log)
        (None, 'is NaN for some real arguments; it must be defined on the whole line')
    """
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(8, vectors))
    directions = np.concatenate([directions, np.eye(vectors), -np.eye(vectors), np.ones((1, vectors))])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    points = directions[:, None, :] * _RADII[:, None]
    shape = points.shape[:-1]
    with jax.enable_x64(True):
        try:
            # not `fn` itself: of what is no Python function JAX can keep no reference
            found = jax.eval_shape(lambda *z: fn(*z), *[jax.ShapeDtypeStruct(shape, np.float64)] * (vectors + scalars))
        except (TypeError, ValueError) as error:
            if isinstance(error, jax.errors.TracerArrayConversionError):
                return _NOT_OF_JAX
            return f"cannot be called on {vectors + scalars} arguments: {error}. It {_NOT_OF_JAX}"
    if jax.tree.structure(found) != jax.tree.structure(0):
        return f"must return one array; it returns {found}"
    if found.shape != shape:
        return f"must act entry by entry, but it maps shape {shape} to {found.shape}"
    if jnp.issubdtype(found.dtype, jnp.complexfloating):
        return "has complex values; they must be real"
    values = _evaluated(fn, points.reshape(-1, vectors).T, scalars)
    if values is None:
        return None  # a function of traced numbers
    values = values.reshape(shape)
    if np.isnan(values[:, _RADII <= 1]).any():
        return _UNDEFINED
    pole = _pole_complaint(fn) if reaches_poles and (vectors, scalars) == (1, 0) else None
    # zero times an overflow is NaN too, so growth is looked at before NaN further out
    other = pole or (_growth_complaint(np.abs(values)) if vectors else None)
    return other or (_UNDEFINED if np.isnan(values[:, _RADII <= 9]).any() else None)


def _evaluated(fn: Callable[..., Any], columns: np.ndarray, scalars: int = 0) -> Any:
    """Values at points, a column for every argument, in float64; None where they are traced."""
    padded = np.ones((len(columns) + scalars, len(_PLACES)))  # one shape, so that it is compiled once
    padded[: len(columns), : columns.shape[1]] = columns
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        values = _compiled(fn)(*map(jnp.asarray, padded))
    return None if is_traced(values) else np.asarray(values, np.float64)[: columns.shape[1]]


@functools.lru_cache(maxsize=4)
def _compiled(fn: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(fn)


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


@np.errstate(invalid="ignore", over="ignore", divide="ignore")
def _pole_complaint(fn: Callable[[Any], Any]) -> str | None:
    """A pole of one over z, or of a power from one half on, has no finite second moment."""

    def size(z: np.ndarray) -> np.ndarray:
        found = np.abs(_evaluated(fn, z.reshape(1, -1)))
        return np.where(np.isnan(found), 0.0, found).reshape(z.shape)

    sizes = size(_PLACES)
    # peaks that stand out of their surroundings
    around = np.median(np.lib.stride_tricks.sliding_window_view(np.pad(sizes, 8, mode="edge"), 17), axis=1)
    inner = slice(1, -1)
    is_peak = (sizes[inner] >= sizes[:-2]) & (sizes[inner] >= sizes[2:]) & (sizes[inner] > 2 * around[inner])
    low, high = _PLACES[:-2][is_peak], _PLACES[2:][is_peak]
    if not len(low):
        return None
    for _ in range(_HALVINGS):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        is_left = size(left) > size(right)
        low, high = np.where(is_left, low, left), np.where(is_left, right, high)
    peaks = 0.5 * (low + high)
    near = np.minimum(*(size(peaks + sign * _NEARBY[:, None]) for sign in (1, -1)))
    powers = np.log(near[:-1] / near[1:]) / np.log(_NEARBY[1:] / _NEARBY[:-1])[:, None]
    is_pole = np.all(powers > _POLE, axis=0)
    if not is_pole.any():
        return None
    return f"has a pole at {round(float(peaks[is_pole][0]), 9) + 0.0:g}, near which its square has no integral"
