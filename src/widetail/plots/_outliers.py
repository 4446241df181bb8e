"""Targets beside their predictions, with outliers marked."""

from typing import Any

import numpy as np
from jaxtyping import Float

from widetail.metrics import Array, real_array
from widetail.plots.axes import REFERENCE_GREY, Axes, axes_or_new, label_axes


def left_out(
    y: Float[Array, " n"],
    predicted: Float[Array, " n"],
    *,
    outliers: Any = (),
    name: str = "y",
    first: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Targets against their predictions from the other rows, with outliers marked.

    Args:
        y: targets.
        predicted: of each, from all other rows: `posterior.left_out().location`.
        outliers: indices of rows to mark, the most extreme first: `posterior.outliers()`. The first ten are numbered.
        name: of the target, with its unit.
        first: number of the first row.
        ax: axes to draw on; new ones if None.
    """
    target, location = real_array("y", y), real_array("predicted", predicted)
    if target.ndim != 1 or location.shape != target.shape:
        raise ValueError(
            f"y and predicted must be one number per row, both of shape (n,); got {target.shape}, {location.shape}."
        )
    marked = np.asarray(outliers, dtype=int)
    if np.any((marked < 0) | (marked >= len(target))):
        raise ValueError(f"outliers must be indices of rows, from 0 to {len(target) - 1}; got {marked}.")
    ax = axes_or_new(ax, (4.8, 4.4))
    ends = [float(np.min(location)), float(np.max(location))]
    ax.plot(ends, ends, color=REFERENCE_GREY, lw=1.0, ls="--")
    rest = np.setdiff1d(np.arange(len(target)), marked)
    ax.scatter(location[rest], target[rest], s=14, alpha=0.6, label="rows")
    if len(marked):
        ax.scatter(location[marked], target[marked], s=34, marker="x", color="#D55E00", label="outliers")
    for row in marked[:10]:
        ax.annotate(
            str(row + first), (location[row], target[row]), (4, 4), textcoords="offset points", fontsize="small"
        )
    ax.legend(frameon=False)
    label_axes(ax, f"{name} as predicted from the other rows", name, "Rows left out one at a time")
    return ax
