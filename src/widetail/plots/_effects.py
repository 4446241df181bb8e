"""What every feature adds to a prediction, and what predictions are along it, a panel each."""

from collections.abc import Callable, Iterable, Mapping
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

    def panel(axes: Any, name: str, ylabel: str) -> None:
        axes.axhline(0.0, color=REFERENCE_GREY, lw=0.8)
        values, dist = parts[name]
        predictive_band(values, dist, xlabel=name, ylabel=ylabel, ax=axes)
        axes.get_legend().remove()

    return _panels({name: dist for name, (_, dist) in parts.items()}, panel, ylabel, columns)


def dependences(found: Iterable[Any], *, ylabel: str = "average prediction", columns: int = 3) -> Any:
    """A panel for the partial dependence on every column, all on the same scale, the widest first.

    Args:
        found: what `ScaleMixtureRegressor.partial_dependence` gives, one for each column.
        ylabel: name of the target, with its unit.
        columns: panels in a line.

    Returns:
        The figure; bands are 50 and 90 % intervals of the average, levels of a category have bars in their place.
    """
    by_name = {one.name: one for one in found}

    def panel(axes: Any, name: str, ylabel: str) -> None:
        values, average = by_name[name].values, by_name[name].average
        is_number = np.issubdtype(values.dtype, np.number)
        if is_number or np.issubdtype(values.dtype, np.datetime64):
            x = values if is_number else values.astype(float)
            predictive_band(x, average, xlabel=name, ylabel=ylabel, ax=axes)
            axes.get_legend().remove()
            if not is_number:
                ticks = values[[0, len(values) // 2, -1]]
                axes.set_xticks(ticks.astype(float), [str(tick) for tick in ticks])
            return
        places, median = np.arange(len(values)), np.asarray(average.quantile(0.5))
        for level, width in ((0.9, 1.5), (0.5, 4.0)):
            low, high = average.interval(level)
            axes.vlines(places, low, high, color=COLOURS[0], lw=width)
        axes.plot(places, median, "o", color=COLOURS[0])
        axes.set_xticks(places, [str(value)[:12] for value in values], rotation=40, ha="right")
        axes.set_xlim(-0.5, len(values) - 0.5)
        axes.set_xlabel(name)
        axes.set_ylabel(ylabel)

    return _panels({name: one.average for name, one in by_name.items()}, panel, ylabel, columns)


def _panels(dists: Mapping[str, Any], draw: Callable[[Any, str, str], None], ylabel: str, columns: int) -> Any:
    """A figure with a panel for each name, the one whose median reaches farthest first."""
    if not dists:
        raise ValueError("one feature at least must be named; there is none to draw.")
    from matplotlib import pyplot

    reach = {name: float(np.ptp(np.asarray(dist.quantile(0.5)))) for name, dist in dists.items()}
    order = sorted(dists, key=lambda name: -reach[name])
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
        draw(axes, name, ylabel if axes in panels[:, 0] else " ")
        axes.set_title("")
    return figure
