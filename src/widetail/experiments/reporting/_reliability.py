"""Reliability of class probabilities, from bins that were counted when they were predicted."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from widetail.experiments.reporting._figures import grid, png
from widetail.metrics import Reliability
from widetail.plots import reliability_curve

Rows = Sequence[Mapping[str, Any]]


def pooled_reliability(rows: Rows) -> Reliability:
    """The bins of all rows together."""
    counts, confidence, accuracy = (
        np.array([row[name] for row in rows], np.float64) for name in ("bin_counts", "bin_confidence", "bin_accuracy")
    )
    total = counts.sum(axis=0)
    share = counts / np.maximum(total, 1)
    return Reliability(
        edges=np.linspace(0, 1, counts.shape[1] + 1),
        counts=total.astype(np.int64),
        confidence=(share * confidence).sum(axis=0),
        accuracy=(share * accuracy).sum(axis=0),
    )


def reliability_figure(cases: Mapping[str, Mapping[str, Rows]]) -> bytes:
    """A panel for every case, a line for every model of it, as PNG."""
    figure, axes = grid(len(cases), 3.4)
    for ax, (title, models) in zip(axes, cases.items(), strict=True):
        for model, rows in models.items():
            reliability_curve(pooled_reliability(rows), label=model, ax=ax)
        ax.set_title(title, fontsize="medium")
        ax.legend(frameon=False, fontsize="x-small")
        ax.set(xlabel="confidence", ylabel="accuracy")
        ax.label_outer()
    return png(figure)
