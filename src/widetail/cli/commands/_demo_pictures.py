"""Figures of the demo."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def coverages(found: Sequence[Any]) -> Any:
    """The share of intervals that hold, a dot for every draw."""
    from widetail.plots.axes import COLOURS, REFERENCE_GREY, axes_or_new

    axes = axes_or_new(None, (9.0, 3.4))
    tables = list(dict.fromkeys(part.table for part in found))
    models = list(dict.fromkeys(part.model for part in found))
    for place, model in enumerate(models):
        mine = [part for part in found if part.model == model]
        at = [tables.index(part.table) + 0.2 * (place - 1) + 0.04 * (part.draw - 1) for part in mine]
        held = [100 * np.mean(part.holds) for part in mine]
        axes.plot(at, held, "os^"[place], color=COLOURS[place], ms=7, alpha=0.85, label=model)
    axes.axhline(90, color=REFERENCE_GREY, lw=1.2)
    axes.annotate("promised", (-0.49, 90.5), color=REFERENCE_GREY, fontsize="small")
    axes.set_xticks(range(len(tables)), tables)
    axes.set_xlim(-0.5, len(tables) - 0.5)
    axes.set_ylim(top=100.9)
    axes.set_ylabel("intervals that hold, per cent")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return axes.figure


def intervals(found: Sequence[Any]) -> Any:
    """Intervals of every model on the same new rows; what lies outside in another colour."""
    from matplotlib import pyplot

    from widetail.plots.axes import COLOURS

    figure, panels = pyplot.subplots(1, len(found), figsize=(4.0 * len(found), 3.9), sharey=True, layout="constrained")
    for axes, part in zip(panels, found, strict=True):
        axes.spines[["top", "right"]].set_visible(False)
        order = np.argsort(part.median, kind="stable")[:: max(1, len(part.y) // 120)]  # a picture of a hundred rows
        rank, holds = np.arange(len(order)), part.holds[order]
        axes.fill_between(rank, part.lower[order], part.upper[order], color="0.87", lw=0, step="mid")
        axes.step(rank, part.median[order], where="mid", color=COLOURS[0], lw=1.6)
        axes.plot(rank[holds], part.y[order][holds], "o", ms=3.2, color="0.35", label="inside")
        axes.plot(rank[~holds], part.y[order][~holds], "X", ms=6, color=COLOURS[1], label="outside")
        axes.set_title(f"{part.model}: {np.mean(part.holds):.0%} hold", fontsize="medium")
        axes.set_xlabel("new rows, by prediction")
        axes.set_ylim(bottom=0)
    panels[0].set_ylabel(found[0].table)
    panels[0].legend(frameon=False, loc="upper left", fontsize="small")
    return figure
