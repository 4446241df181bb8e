"""Where a function of one variable, its slope or its curvature jumps."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from widetail.numerics import is_traced

# As many are kept, those nearest to zero: `jnp.round` has no end of them.
MOST = 128
# Halvings of a cell: from its width down to the distance of two neighbouring numbers.
HALVINGS = 44
# The function itself, its slope and its curvature.
LEVELS = 3


class Breaks(NamedTuple):
    """Where a function is not smooth.

    Attributes:
        points: distances from zero, increasing, of all such points on either side.
        level: 0 where the function jumps somewhere, 1 where only its slope does, 2 where only its curvature does;
            None where nothing was found.
    """

    points: tuple[float, ...]
    level: int | None

    def decay(self, derivative: int = 0) -> float | None:
        """The power of one over j with which squares of Hermite coefficients decrease; None for a smooth function.

        A jump has no share in the slope, which is 0 beside it.
        """
        return None if self.level is None else max(self.level - derivative, 0) + 1.5

    def distances(self, like: Any, mean: Any = None) -> Any:
        """How far from zero, or from means, such points are, an axis in front of those of `like`."""
        points = jnp.asarray(self.points, like.dtype).reshape(-1, *(1,) * like.ndim)
        return points if mean is None else jnp.abs(jnp.concatenate([points - mean, points + mean]))


SMOOTH = Breaks((), None)


def find_breaks(fn: Callable[[Any], Any]) -> Breaks:
    """Scan a function of JAX from -1e6 to 1e6 for points where it, its slope or its curvature jumps.

    Cells are 0.027 wide up to 64, and 2 % of the distance from zero beyond. In every cell the half with the larger
    change is halved until the two ends are neighbours: what has changed there is a jump. The cell is then divided at
    the jump, and its parts are looked at in the same way. A function that depends on traced values cannot be looked
    at, and counts as smooth.

    Example:
        >>> import jax.numpy as jnp
        >>> from widetail.gaussian import find_breaks
        >>> find_breaks(lambda z: jnp.where(z > 0.5, 1.0, 0.0))
        Breaks(points=(0.5,), level=0)
    """
    try:
        return _find_breaks(fn)
    except _TracedError:
        return SMOOTH


class _TracedError(Exception):
    pass


@functools.lru_cache(maxsize=256)
def _find_breaks(fn: Callable[[Any], Any]) -> Breaks:
    derivatives = _derivatives(fn)
    found: list[tuple[float, int]] = []
    for level in range(LEVELS):
        points = _jumps(lambda x, level=level: derivatives(x)[level])
        found += [(round(abs(t), 13), level) for t in points if not _is_near(t, found)]
    if not found:
        return SMOOTH
    return Breaks(tuple(sorted({t for t, _ in found})[:MOST]), min(level for _, level in found))


def _is_near(t: float, found: list[tuple[float, int]]) -> bool:
    return any(abs(abs(t) - other) <= _step(t) for other, _ in found)


def _derivatives(fn: Callable[[Any], Any]) -> Callable[[np.ndarray], np.ndarray]:
    """The function, its slope and its curvature on arrays of NumPy, in float64."""

    def value(x):
        return jnp.asarray(fn(x)).astype(x.dtype)

    @jax.jit
    def all_of_them(x):
        found, derivative = [], value
        for _ in range(LEVELS):
            found.append(derivative(x))
            derivative = functools.partial(_slope, derivative)
        return jnp.stack(found)

    def evaluate(x):
        padded = np.concatenate([x, np.zeros(max(len(_EDGES) - len(x), 0))])  # one shape, so that it is compiled once
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            values = all_of_them(jnp.asarray(padded))
        if is_traced(values):
            raise _TracedError
        return np.asarray(values)[:, : len(x)]

    return evaluate


def _slope(fn: Callable[[Any], Any], x: Any) -> Any:
    return jax.jvp(fn, (x,), (jnp.ones_like(x),))[1]


def _cells() -> np.ndarray:
    """Edges of cells, none of them a number at which somebody would put a jump."""
    near = np.arange(0.5, 2400) / (12 * np.pi)
    far = near[-1] * np.exp(0.0201 * np.arange(1, 481))
    half = np.concatenate([near, far])
    return np.concatenate([-half[::-1], half])


_EDGES = _cells()


def _step(t: Any) -> Any:
    """How far beside a point its two sides are looked at."""
    return 1e-12 + 1e-9 * np.abs(t)


@np.errstate(invalid="ignore", over="ignore")
def _jumps(evaluate: Callable[[np.ndarray], np.ndarray]) -> list[float]:
    low, high = _EDGES[:-1], _EDGES[1:]
    found: list[float] = []
    while len(low) and len(found) <= 2 * MOST:
        points = _halve(evaluate, low, high)
        is_jump = _is_jump(evaluate, points)
        low, high, points = low[is_jump], high[is_jump], points[is_jump]
        found += points.tolist()
        apart = 16 * _step(points)
        low, high = np.concatenate([low, points + apart]), np.concatenate([points - apart, high])
        low, high = low[high > low], high[high > low]
    return found


def _change(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    change = np.abs(b - a)
    return np.where(np.isfinite(change), change, 0)


def _halve(evaluate: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """In every cell the point around which the function changes most."""
    at_low, at_high = evaluate(low), evaluate(high)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        value = evaluate(middle)
        is_left = _change(at_low, value) >= _change(value, at_high)
        low, at_low = np.where(is_left, low, middle), np.where(is_left, at_low, value)
        high, at_high = np.where(is_left, middle, high), np.where(is_left, value, at_high)
    return 0.5 * (low + high)


def _is_jump(evaluate: Callable[[np.ndarray], np.ndarray], points: np.ndarray) -> np.ndarray:
    """Whether the sides differ by far more than either changes close by; false at a pole or a vertical slope."""
    step = _step(points)
    below, above = evaluate(points - step), evaluate(points + step)
    jump = _change(below, above)
    change = _change(evaluate(points - 8 * step), below) + _change(above, evaluate(points + 8 * step))
    # Rounding is not a jump: 1 - tanh(z)^2 goes in steps of 1e-16 far out. It is small next to what lies further in.
    order = np.argsort(np.abs(_EDGES))
    largest = np.maximum.accumulate(np.nan_to_num(np.abs(evaluate(_EDGES)), nan=0, posinf=0)[order])
    further_in = largest[np.minimum(np.searchsorted(np.abs(_EDGES)[order], np.abs(points)) + 1, len(order) - 1)]
    return (jump > 1e-7 * further_in) & (change < 0.01 * jump)
