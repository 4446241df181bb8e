"""Tables of means and standard errors, with numbers from elsewhere beside them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from widetail.experiments.reporting._aggregate import NOTHING, Summary
from widetail.experiments.reporting._paper import PaperTable, printed
from widetail.plots import ResultTable

Entry = Callable[[str], tuple[float, float]]  # from the key of a row to a number and its error


def ours(summaries: Mapping[tuple[Any, ...], Summary], *rest: Any, factor: float = 1.0) -> Entry:
    """The column of the groups (row, *rest)."""

    def entry(row: str) -> tuple[float, float]:
        mean, error, _ = summaries.get((row, *rest), NOTHING)
        return factor * mean, factor * error

    return entry


def papers(table: PaperTable, column: str, factor: Callable[[str], float] = lambda row: 1.0) -> Entry:
    """A column of the paper, times what belongs to the row; errors too."""

    def entry(row: str) -> tuple[float, float]:
        value, error = printed(table, row, column)
        return factor(row) * value, factor(row) * error

    return entry


def side_by_side(
    title: str,
    corner: str,
    rows: Mapping[str, str],
    columns: Mapping[str, Entry],
    *,
    beside: Sequence[str] = (),
    best: Literal["lowest", "highest"] | None = "lowest",
    digits: int = 2,
) -> ResultTable:
    """One table from columns of any origin; a column without a single number is left out.

    Args:
        title: caption.
        corner: heading of the row names.
        rows: key and name of every row.
        columns: name and entries of every column.
        beside: columns that do not compete.
        best: which entry of a row to mark.
        digits: digits after the point.
    """
    entries = np.array([[entry(row) for entry in columns.values()] for row in rows], np.float64)
    has_any = np.isfinite(entries[..., 0]).sum(axis=0) > 0
    names = [name for name, kept in zip(columns, has_any, strict=True) if kept]
    return ResultTable(
        rows=list(rows.values()),
        columns=names,
        values=entries[:, has_any, 0],
        errors=entries[:, has_any, 1],
        title=title,
        corner=corner,
        best=best,
        beside=[name for name in beside if name in names],
        digits=digits,
    )


def between(numbers: Sequence[float], digits: int = 3) -> str:
    """The range of some numbers, in words."""
    low, high = (f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}") for value in (min(numbers), max(numbers)))
    return low if low == high else f"{low} to {high}"
