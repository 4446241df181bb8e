"""Panels to draw on, and drawings as PNG files in memory."""

from io import BytesIO
from typing import Any

from widetail.plots.axes import COLOURS, LINE_STYLES

DOTS_PER_INCH = 130


def panels(columns: int, size: tuple[float, float], *, rows: int = 1) -> tuple[Any, Any]:
    """A figure and its axes in reading order, with our colours and a light frame."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_prop_cycle(color=COLOURS, linestyle=LINE_STYLES)
    return figure, axes.ravel()


def grid(count: int, height: float) -> tuple[Any, Any]:
    """A figure with `count` axes in lines of up to four."""
    columns = min(count, 4)
    rows = -(-count // columns)
    figure, axes = panels(columns, (max(3.3 * columns, 6.6), height * rows), rows=rows)
    for ax in axes[count:]:
        ax.remove()
    return figure, axes[:count]


def png(figure: Any) -> bytes:
    """The drawing as a PNG file; the figure is closed."""
    from matplotlib import pyplot

    file = BytesIO()
    figure.savefig(file, format="png", dpi=DOTS_PER_INCH, facecolor="white", metadata={"Software": None})
    pyplot.close(figure)
    return file.getvalue()
