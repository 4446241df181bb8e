"""Finite draws of the user's model against its limit."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail.widening._models import Width
from widetail.widening._parameters import scale_of


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Second moments of finite models against the kernel of the limit, at one width.

    Attributes:
        width: the width.
        draws: how many models were drawn.
        nngp: empirical second moments, averaged over the outputs of a model too, shape (n, n).
        error: their standard errors, from the spread over draws.
        deviation: largest distance from the limit, in standard errors.
        distance: relative distance from the limit in the Frobenius norm.
    """

    width: Width
    draws: int
    nngp: np.ndarray
    error: np.ndarray
    deviation: float
    distance: float


@dataclasses.dataclass(frozen=True)
class Check:
    """What `check` found; printed by `print`.

    Attributes:
        comparisons: one per width.
        limit: the kernel of the limit.
    """

    comparisons: tuple[Comparison, ...]
    limit: np.ndarray

    @property
    def agrees(self) -> bool:
        """Whether finite models are as the limit says, up to noise and to what a finite width leaves."""
        last = self.comparisons[-1]
        if last.deviation < 5:
            return True
        first = self.comparisons[0]
        shrunk = last.distance < first.distance * (scale_of(first.width) / scale_of(last.width)) ** 0.5 * 1.1
        return shrunk and last.distance < 0.1

    def __str__(self) -> str:
        lines = [
            f"width {c.width}: {c.draws} draws, largest deviation {c.deviation:.1f} standard errors, "
            f"relative distance {c.distance:.3f}"
            for c in self.comparisons
        ]
        return "\n".join([*lines, "agrees with the limit" if self.agrees else "DOES NOT agree with the limit"])


def check(wide: Any, x: Any, widths: tuple[Width, ...], draws: int, key: Any) -> Check:
    """Draw models at each width and compare second moments of their outputs."""
    limit = np.asarray(wide.kernel(x, get="nngp").nngp)
    found = []
    for width, width_key in zip(widths, jax.random.split(key, len(widths)), strict=True):
        finite = wide.at_width(width)
        x32 = jnp.asarray(x, jnp.float32)

        @jax.jit
        def moments(one: Any, finite: Any = finite, x: Any = x32) -> Any:
            y = finite.apply(finite.init(one), x)
            return y @ y.T / y.shape[1]

        values = np.stack([np.asarray(moments(one), float) for one in jax.random.split(width_key, draws)])
        mean, error = values.mean(0), values.std(0, ddof=1) / np.sqrt(draws)
        # an entry that does not vary is off by rounding alone
        floor = 1e-5 * np.abs(limit).max()
        deviation = float(np.max(np.abs(mean - limit) / (error + floor)))
        distance = float(np.linalg.norm(mean - limit) / np.linalg.norm(limit))
        found.append(Comparison(width, draws, mean, error, deviation, distance))
    return Check(tuple(found), limit)
