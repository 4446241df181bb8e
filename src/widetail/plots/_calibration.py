"""Calibration of class probabilities and of intervals."""

from typing import Any

import numpy as np
from jaxtyping import Float, Integer
from scipy.stats import binom, binomtest

from widetail.metrics import Array, Reliability, real_array, reliability
from widetail.plots.axes import (
    BAND_GREY,
    REFERENCE_GREY,
    Axes,
    axes_or_new,
    has_null_band,
    highest_line,
    label_axes,
    mark_null_band,
)

_SQUARE = (4.4, 4.2)


def reliability_diagram(
    probabilities: Float[Array, "n classes"],
    labels: Integer[Array, " n"],
    *,
    bins: int = 15,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Accuracy against confidence of the most probable class, with 95 % (Wilson) intervals of the accuracy.

    Points below the diagonal are overconfident. Call it again with the same `ax` to compare models; the
    legend gives the expected calibration error of each.

    Args:
        probabilities: one row per point, one column per class.
        labels: column numbers of the true classes.
        bins: bins of equal width of the confidence.
        label: name of the model in the legend.
        ax: axes to draw on; new ones if None.
    """
    return reliability_curve(reliability(probabilities, labels, bins=bins), label=label, ax=ax)


def reliability_curve(result: Reliability, *, label: str | None = None, ax: Axes | None = None) -> Axes:
    """The diagram of `reliability_diagram`, from points that were sorted into bins before.

    Args:
        result: what `metrics.reliability` returned.
        label: name of the model in the legend.
        ax: axes to draw on; new ones if None.
    """
    filled = np.flatnonzero(result.counts)
    counts, accuracy = result.counts[filled], result.accuracy[filled]
    intervals = [
        binomtest(round(share * n), int(n)).proportion_ci(0.95, method="wilson")
        for share, n in zip(accuracy, counts, strict=True)
    ]
    error = np.array([(share - ci.low, ci.high - share) for share, ci in zip(accuracy, intervals, strict=True)]).T
    ax = axes_or_new(ax, _SQUARE)
    _draw_diagonal(ax)
    name = f"{label}, ECE {result.ece:.3f}" if label else f"ECE {result.ece:.3f}"
    _, caps, bars = ax.errorbar(
        result.confidence[filled],
        accuracy,
        np.maximum(error, 0),
        marker="o",
        markersize=4,
        capsize=2,
        label=name,
    )
    for artist in (*caps, *bars):
        artist.set(alpha=0.45, linewidth=1)
    ax.legend(loc="upper left", frameon=False)
    label_axes(ax, "confidence (probability of the predicted class)", "accuracy", "Reliability")
    return ax


def pit_histogram(
    pit: Float[Array, " n"],
    *,
    bins: int = 20,
    level: float = 0.95,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Histogram of the probability integral transform, with the band that calibrated predictions stay in.

    Flat is calibrated, a bowl is too narrow, a hump is too wide, a slope is biased.

    Args:
        pit: values in [0, 1], from `metrics.pit`.
        bins: bins of equal width.
        level: each bar alone lies in the band with at least this probability if the truth is uniform.
        label: name of the model in the legend.
        ax: axes to draw on; new ones if None.
    """
    values = _checked_pit(pit)
    _check_level(level)
    expected = values.size / bins
    low, high = binom.interval(level, values.size, 1 / bins)
    ax = axes_or_new(ax)
    if _draw_band(ax, [0, 1], low / expected, high / expected, level):
        ax.axhline(1, color=REFERENCE_GREY, lw=1, ls="--", zorder=1)
    counts, edges = np.histogram(values, bins=bins, range=(0, 1))
    # Drawn as a line, so that every further model gets the next colour of the axes.
    heights = np.concatenate([[0], np.repeat(counts / expected, 2), [0]])
    ax.plot(np.repeat(edges, 2), heights, lw=1.8, label=label, clip_on=False)
    ax.set_xlim(0, 1)
    tallest = max(highest_line(ax), high / expected)
    ax.set_ylim(0, 1.3 * tallest)  # room for the legend
    ax.legend(loc="upper center", ncols=2, frameon=False)
    label_axes(ax, "probability integral transform of y", "density (uniform = 1)", f"PIT of {values.size} points")
    return ax


def coverage_curve(
    pit: Float[Array, " n"], *, level: float = 0.95, label: str | None = None, ax: Axes | None = None
) -> Axes:
    """Share of points inside central intervals, against the share that the intervals promise.

    Below the diagonal the intervals are too narrow. The central interval of probability q holds y exactly
    when |2 pit - 1| <= q, so the values of `metrics.pit` are all that is needed.

    Args:
        pit: values in [0, 1], from `metrics.pit`.
        level: at each promised share alone, calibrated predictions stay in the band with this probability.
        label: name of the model in the legend.
        ax: axes to draw on; new ones if None.
    """
    values = _checked_pit(pit)
    _check_level(level)
    promised = np.linspace(0, 1, 201)
    observed = np.searchsorted(np.sort(np.abs(2 * values - 1)), promised, side="right") / values.size
    ax = axes_or_new(ax, _SQUARE)
    _draw_diagonal(ax)
    low, high = binom.interval(level, values.size, promised)
    _draw_band(ax, promised, low / values.size, high / values.size, level)
    ax.plot(promised, observed, lw=1.8, label=label)
    ax.legend(loc="upper left", frameon=False)
    label_axes(ax, "promised coverage", "observed coverage", "Coverage of central intervals")
    return ax


def _draw_band(ax: Axes, x: Any, low: Any, high: Any, level: float) -> bool:
    """Where calibrated predictions are, unless the axes show it already; whether it was drawn."""
    if has_null_band(ax):
        return False
    label = f"{level:.0%} band if calibrated"
    mark_null_band(ax.fill_between(x, low, high, color=BAND_GREY, lw=0, label=label))
    return True


def _draw_diagonal(ax: Axes) -> None:
    if not ax.lines:
        ax.plot([0, 1], [0, 1], color=REFERENCE_GREY, lw=1, ls="--")
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
        ax.set_aspect("equal")


def _checked_pit(pit: Array) -> np.ndarray:
    values = real_array("pit", pit)
    if values.ndim != 1 or values.min() < 0 or values.max() > 1:
        raise ValueError(
            f"pit must be one value in [0, 1] per point, got shape {values.shape} from {values.min():.3g} to "
            f"{values.max():.3g}; pass what metrics.pit returns."
        )
    return values


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level}.")
