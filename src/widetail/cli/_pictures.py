"""Figures that several commands draw."""

from typing import Any

import numpy as np


def calibration(pits: dict[str, np.ndarray], bins: int) -> Any:
    """Where observations fall in their predictive distributions, model by model: histogram and coverage."""
    from matplotlib import pyplot

    from widetail import plots
    from widetail.plots.axes import COLOURS, LINE_STYLES

    figure, both = pyplot.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
    for axes in both:
        axes.set_prop_cycle(color=COLOURS, linestyle=LINE_STYLES)
        axes.spines[["top", "right"]].set_visible(False)
    for name, pit in pits.items():
        plots.pit_histogram(pit, bins=bins, label=name or None, ax=both[0])
        plots.coverage_curve(pit, label=name or None, ax=both[1])
    return figure


def scale(prior: Any, posterior: Any) -> Any:
    """Densities of the logarithm of the readout variance, before and after the data."""
    from widetail.plots.axes import axes_or_new, label_axes

    grid = log_grid(prior, posterior, 400)
    axes = axes_or_new(None, (6.4, 3.6))
    for name, law in (("prior", prior), ("posterior", posterior)):
        density = np.exp(np.asarray(law.log_prob_of_log(grid)))
        (line,) = axes.plot(np.exp(grid), density, lw=1.8, label=name)
        axes.fill_between(np.exp(grid), density, color=line.get_color(), alpha=0.15, lw=0)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    label_axes(axes, "readout variance", "density of its logarithm", "What the data say about the scale")
    return axes.figure


def log_grid(prior: Any, posterior: Any, points: int) -> np.ndarray:
    """Logarithms of the readout variance over which both laws can be seen."""
    ends = [np.log(np.asarray(law.quantile(p))) for law in (prior, posterior) for p in (0.005, 0.995)]
    low, high = float(np.min(ends)), float(np.max(ends))
    margin = max(0.02 * (high - low), 0.05)
    return np.linspace(low - margin, high + margin, points)
