"""Axes to draw on, with colours that everybody can tell apart."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes = Any  # matplotlib is imported when something is drawn, not before

# Okabe and Ito (2008), without the yellow that is lost on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Line styles as well, for print without colours.
LINE_STYLES = ("-", "--", "-.", ":", "-", "--", "-.")
REFERENCE_GREY = "0.45"
BAND_GREY = "0.85"

_NULL_BAND = "null band"


def axes_or_new(ax: Axes | None, size: tuple[float, float] = (5.2, 3.8)) -> Axes:
    """`ax`, or the axes of a new figure with our colours and a light frame."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plots need matplotlib: install it with `pip install widetail[plot]`.") from error
    _, new = pyplot.subplots(figsize=size, layout="constrained")
    new.set_prop_cycle(color=COLOURS, linestyle=LINE_STYLES)
    new.spines[["top", "right"]].set_visible(False)
    return new


def has_null_band(ax: Axes) -> bool:
    """Whether an earlier call has drawn what a calibrated prediction would give."""
    return any(artist.get_gid() == _NULL_BAND for artist in ax.collections)


def mark_null_band(artist: Any) -> None:
    """Let `has_null_band` find `artist`."""
    artist.set_gid(_NULL_BAND)


def highest_line(ax: Axes) -> float:
    """The largest value that any line of `ax` reaches."""
    return max(float(np.max(np.asarray(line.get_ydata()))) for line in ax.lines)


def label_axes(ax: Axes, xlabel: str, ylabel: str, title: str) -> None:
    """Titles; those that somebody has already set stay."""
    if not ax.get_xlabel():
        ax.set_xlabel(xlabel)
    if not ax.get_ylabel():
        ax.set_ylabel(ylabel)
    if not ax.get_title():
        ax.set_title(title, fontsize="medium")
