"""Shifts of a regression target: outliers and heavy-tailed noise."""

import numpy as np
from jaxtyping import Bool, Float

from widetail.datasets.shifts._seed import Seed

Target = Float[np.ndarray, " n"]


def with_outliers(
    y: Target, fraction: float | int, *, size: float | int = 5.0, seed: Seed
) -> tuple[Target, Bool[np.ndarray, " n"]]:
    """Move some targets far away, up or down with equal chance.

    Args:
        y: targets.
        fraction: share of the points that become outliers; `round(fraction * n)` of them.
        size: how far they are moved, in standard deviations of `y`.
        seed: an integer, or a NumPy generator that is advanced.

    Returns:
        The new targets, and which of them were moved.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction must lie in [0, 1], got {fraction}.")
    _check_positive("size", size)
    generator = np.random.default_rng(seed)
    moved = np.zeros(y.size, bool)
    moved[generator.choice(y.size, round(fraction * y.size), replace=False)] = True
    direction = generator.choice([-1.0, 1.0], y.size)
    return y + np.where(moved, direction * size * y.std(), 0.0), moved


def with_heavy_tailed_noise(y: Target, df: float | int, *, scale: float | int = 0.1, seed: Seed) -> Target:
    """Add Student-t noise of `df` degrees of freedom.

    Args:
        y: targets.
        df: degrees of freedom; the variance of the noise is infinite up to 2, its mean undefined up to 1.
        scale: scale parameter of the noise (not its standard deviation), in standard deviations of `y`.
        seed: an integer, or a NumPy generator that is advanced.
    """
    _check_positive("df", df)
    _check_positive("scale", scale)
    return y + scale * y.std() * np.random.default_rng(seed).standard_t(df, y.size)


def _check_positive(name: str, value: float | int) -> None:
    if not value > 0:
        raise ValueError(f"{name} must be positive, got {value}.")
