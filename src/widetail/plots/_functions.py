"""Predictive bands of a function of one variable, and tails of densities."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from widetail.metrics import Array, real_array
from widetail.plots.axes import Axes, axes_or_new, highest_line, label_axes


def predictive_band(
    x: Float[Array, " n"],
    predictive: Any,
    *,
    levels: Sequence[float] = (0.5, 0.9),
    observed: tuple[Any, Any] | None = None,
    label: str | None = None,
    xlabel: str = "x",
    ylabel: str = "y",
    ax: Axes | None = None,
) -> Axes:
    """Median and central intervals of a predictive along one input.

    Args:
        x: inputs that the predictive belongs to, in any order.
        predictive: has `quantile(p)` and `interval(level)`, each with one entry per input.
        levels: probabilities of the central intervals; the wider, the paler.
        observed: inputs and targets of data to draw as dots.
        label: name of the model in the legend.
        xlabel: name of the input, with its unit.
        ylabel: name of the target, with its unit.
        ax: axes to draw on; new ones if None.
    """
    inputs = real_array("x", x)
    if inputs.ndim != 1:
        raise ValueError(f"x must be one input per point, shape (n,), got {inputs.shape}; pass x[:, 0].")
    if not levels or not all(0 < level < 1 for level in levels):
        raise ValueError(f"levels must be numbers strictly between 0 and 1, got {tuple(levels)}.")
    order = np.argsort(inputs)
    ax = axes_or_new(ax, (6.6, 3.8))
    name = f"{label}, " if label else ""
    median = _per_point("quantile(0.5)", predictive.quantile(0.5), inputs)
    (line,) = ax.plot(inputs[order], median[order], lw=1.8, label=f"{name}median")
    widest_first = sorted(levels, reverse=True)
    for level, alpha in zip(widest_first, np.linspace(0.18, 0.36, len(levels)), strict=True):
        lower, upper = (_per_point("interval", bound, inputs)[order] for bound in predictive.interval(level))
        ax.fill_between(
            inputs[order],
            lower,
            upper,
            color=line.get_color(),
            alpha=alpha,
            lw=0,
            label=f"{name}{level:.0%} interval",
        )
    if observed is not None:
        ax.scatter(*observed, s=16, color="black", zorder=3, label="data")
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    label_axes(ax, xlabel, ylabel, "Predictive distribution")
    return ax


def density_tails(
    grid: Float[Array, " n"],
    log_densities: Mapping[str, Float[Array, " n"]],
    *,
    lowest: float = 1e-12,
    xlabel: str = "y",
    ax: Axes | None = None,
) -> Axes:
    """Densities on a logarithmic scale, on which tails can be told apart.

    A Gaussian is a parabola that drops out of the picture; a power law flattens.

    Args:
        grid: where the densities were evaluated.
        log_densities: natural logarithms of the densities by name; Gaussian densities would underflow.
        lowest: smallest density to show.
        xlabel: name of the variable, with its unit.
        ax: axes to draw on; new ones if None.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    points = real_array("grid", grid)
    if not log_densities:
        raise ValueError("log_densities is empty; pass at least one density by name.")
    ax = axes_or_new(ax)
    for name, values in log_densities.items():
        ax.plot(points, _per_point(f"log_densities[{name!r}]", values, points) / np.log(10), lw=1.8, label=name)
    # Powers of ten are written on a linear axis: a logarithmic one would need the densities themselves.
    highest = highest_line(ax)
    ax.set_ylim(np.log10(lowest), highest + 0.05 * (highest - np.log10(lowest)))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda power, _: f"$10^{{{power:.0f}}}$"))
    unit = f" [1/{xlabel.partition('[')[2]}" if "[" in xlabel else ""
    ax.legend(frameon=False)
    label_axes(ax, xlabel, f"density{unit}", "Tails of the density")
    return ax


def _per_point(name: str, values: Any, x: np.ndarray) -> np.ndarray:
    array = np.asarray(values, np.float64)
    if array.shape != x.shape:
        raise ValueError(f"{name} must have one value for each of the {x.size} inputs, got shape {array.shape}.")
    return array
