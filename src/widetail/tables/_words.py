"""Names, rows and cells as messages show them."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

MOST_ROWS = 5
MOST_NAMES = 40


def listed(items: Iterable[str], separator: str = ",") -> str:
    """All items, unless there are so many that nobody would read them.

    Example:
        >>> from widetail import tables
        >>> tables.listed(["'a'", "'b'"])
        "'a', 'b'"
    """
    entries = list(items)
    more = f"{separator} and {len(entries) - MOST_NAMES} more" if len(entries) > MOST_NAMES else ""
    return f"{separator} ".join(entries[:MOST_NAMES]) + more


def nearest_first(wanted: str, names: Sequence[str]) -> list[str]:
    """All names, those that look like the wanted one first, the others in their order.

    Example:
        >>> from widetail import tables
        >>> tables.nearest_first("prize", ["age", "size", "Price"])
        ['Price', 'size', 'age']
    """
    lower = wanted.casefold()

    def likeness(name: str) -> float:
        return difflib.SequenceMatcher(None, lower, name.casefold()).ratio()

    near = sorted((name for name in names if likeness(name) >= 0.6), key=likeness, reverse=True)
    return near + [name for name in names if name not in near]


def rows_text(rows: np.ndarray) -> str:
    """Rows are counted from 1, after the header."""
    shown = ", ".join(str(int(row)) for row in rows[:MOST_ROWS])
    more = f" and {len(rows) - MOST_ROWS} more" if len(rows) > MOST_ROWS else ""
    return f"row{'s' if len(rows) > 1 else ''} {shown}{more}"


def shortened(cell: Any) -> str:
    """A cell in quotes, of which only the start if it is long."""
    text = str(cell)
    return repr(text if len(text) <= 40 else text[:37] + "...")
