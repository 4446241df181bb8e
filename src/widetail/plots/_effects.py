"""What every feature adds to a prediction, a panel each."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from widetail.plots._functions import predictive_band
from widetail.plots.axes import COLOURS, REFERENCE_GREY


def effects(parts: Mapping[str, tuple[Any, Any]], *, ylabel: str = "adds to y", columns: int = 3) -> Any:
    """A panel for every part of a sum of functions of single features, all on the same scale, the widest first.

    Args:
        parts: by the name of the feature: its values, shape (n,), and the predictive of what it adds there, such as
            `ScaleMixtureRegressor.predict_effect` gives.
        ylabel: name of the target, with its unit.
        columns: panels in a line.

    Returns:
        The figure.
    """
    if not parts:
        raise ValueError("parts must name one feature at least.")
    from matplotlib import pyplot

    reach = {name: float(np.ptp(np.asarray(dist.quantile(0.5)))) for name, (_, dist) in parts.items()}
    order = sorted(parts, key=lambda name: -reach[name])
    lines = -(-len(order) // columns)
    size = (3.4 * min(columns, len(order)), 2.7 * lines)
    figure, panels = pyplot.subplots(
        lines, min(columns, len(order)), figsize=size, sharey=True, squeeze=False, layout="constrained"
    )
    for axes in panels.flat[len(order) :]:
        axes.remove()
    for axes, name in zip(panels.flat, order, strict=False):
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_prop_cycle(color=COLOURS)
        axes.axhline(0.0, color=REFERENCE_GREY, lw=0.8)
        values, dist = parts[name]
        predictive_band(values, dist, xlabel=name, ylabel=ylabel if axes in panels[:, 0] else " ", ax=axes)
        axes.get_legend().remove()
    return figure
