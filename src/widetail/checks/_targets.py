"""Targets: what is observed at the rows of x."""

from typing import Any

import jax
import numpy as np


def check_targets(x: Any, y: Any) -> np.ndarray:
    """Targets as float64, shape (n,) or (n, outputs), one row for every row of x."""
    if not isinstance(y, (np.ndarray, jax.Array)):
        y = np.asarray(y)
    if not (np.issubdtype(y.dtype, np.number) or y.dtype == bool) or np.issubdtype(y.dtype, np.complexfloating):
        raise ValueError(f"y must hold real numbers; got dtype {y.dtype}. Encode classes as numbers first.")
    y = np.asarray(y, dtype=np.float64)
    if y.ndim not in (1, 2) or 0 in y.shape:
        raise ValueError(f"y must have shape (n,) or (n, outputs); got {y.shape}.")
    if len(y) != len(x):
        raise ValueError(f"x and y disagree on the number of rows: x has {len(x)}, y has {len(y)}.")
    if not np.all(np.isfinite(y)):
        bad = np.flatnonzero(~np.all(np.isfinite(y.reshape(len(y), -1)), axis=1))
        raise ValueError(f"y must be finite; {len(bad)} rows are NaN or infinite, the first is row {bad[0]}.")
    return y


def two_dimensional(y: np.ndarray) -> np.ndarray:
    """Targets with an axis of outputs."""
    return y[:, None] if y.ndim == 1 else y


def like_targets(values: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(..., outputs) without its last axis when the targets had none."""
    return values[..., 0] if y.ndim == 1 else values
