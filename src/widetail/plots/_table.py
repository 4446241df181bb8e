"""Tables of results with the best entry marked, as Markdown and as HTML."""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

_MISSING = "\N{EN DASH}"


@dataclass(frozen=True, eq=False)
class ResultTable:
    """Numbers by row and column, one winner per row (or per column).

    Attributes:
        rows: names of the rows.
        columns: names of the columns.
        values: the numbers; NaN where there is none.
        errors: standard errors, written after a ±; None for none, NaN where there is none.
        title: caption.
        corner: heading of the column of row names.
        best: whether the "lowest" or the "highest" number wins; None marks nothing.
        compare: "columns" looks for the best column in each row, "rows" for the best row in each column.
        beside: columns that are shown but do not compete, such as numbers from elsewhere.
        digits: digits after the point.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    values: Float[np.ndarray, "rows columns"]
    errors: Float[np.ndarray, "rows columns"] | None = None
    title: str = ""
    corner: str = ""
    best: Literal["lowest", "highest"] | None = "lowest"
    compare: Literal["columns", "rows"] = "columns"
    beside: Sequence[str] = field(default=())
    digits: int = 3

    def __post_init__(self) -> None:
        """Refuse numbers that do not fit the names."""
        shape = (len(self.rows), len(self.columns))
        for name, numbers in (("values", self.values), ("errors", self.errors)):
            if numbers is not None and numbers.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, a number per row and column, got {numbers.shape}.")
        unknown = sorted(set(self.beside) - set(self.columns))
        if unknown:
            raise ValueError(f"beside must name columns of the table; {unknown} are not among them.")
        if self.best not in ("lowest", "highest", None):
            raise ValueError(f"best must be 'lowest', 'highest' or None, got {self.best!r}.")
        if self.compare not in ("columns", "rows"):
            raise ValueError(f"compare must be 'columns' or 'rows', got {self.compare!r}.")

    def is_best(self) -> Bool[np.ndarray, "rows columns"]:
        """Which entries win; all of those that look the same as the winner when written."""
        if self.best is None:
            return np.zeros(self.values.shape, bool)
        competes = np.isfinite(self.values) & ~np.isin(list(self.columns), list(self.beside))
        shown = np.round(self.values, self.digits) * (1 if self.best == "lowest" else -1)
        shown = np.where(competes, shown, np.inf)
        winner = shown.min(axis=1 if self.compare == "columns" else 0, keepdims=True)
        return competes & (shown == winner)

    def to_markdown(self) -> str:
        """A table in GitHub's Markdown; the best entries are bold."""
        cells = self._cells(_markdown_text, "**{}**")
        head = [_markdown_text(name) for name in (self.corner, *self.columns)]
        rule = [":--"] + ["--:"] * len(self.columns)
        body = [[_markdown_text(name), *line] for name, line in zip(self.rows, cells, strict=True)]
        lines = ["| " + " | ".join(line) + " |" for line in (head, rule, *body)]
        title = [f"**{_markdown_text(self.title)}**", ""] if self.title else []
        return "\n".join([*title, *lines]) + "\n"

    def to_html(self) -> str:
        """An HTML table of class `results`.

        The best entries are `<strong>` in cells of class `best`; cells of columns that do not compete are of class
        `beside`.
        """
        cells = self._cells(html.escape, "<strong>{}</strong>")
        best = self.is_best()
        beside = [name in self.beside for name in self.columns]
        head = f'<th scope="col">{html.escape(self.corner)}</th>' + "".join(
            f'<th scope="col"{_class("beside" * aside)}>{html.escape(name)}</th>'
            for name, aside in zip(self.columns, beside, strict=True)
        )
        lines = []
        for name, line, marks in zip(self.rows, cells, best, strict=True):
            entries = "".join(
                f"<td{_class('best' * mark or 'beside' * aside)}>{cell}</td>"
                for cell, mark, aside in zip(line, marks.tolist(), beside, strict=True)
            )
            lines.append(f'<tr><th scope="row">{html.escape(name)}</th>{entries}</tr>')
        caption = [f"<caption>{html.escape(self.title)}</caption>"] if self.title else []
        return "\n".join(
            [
                '<table class="results">',
                *caption,
                f"<thead><tr>{head}</tr></thead>",
                "<tbody>",
                *lines,
                "</tbody>",
                "</table>\n",
            ]
        )

    def _cells(self, escape: Callable[[str], str], mark: str) -> list[list[str]]:
        best = self.is_best()
        return [
            [
                mark.format(escape(self._entry(i, j))) if best[i, j] else escape(self._entry(i, j))
                for j in range(len(self.columns))
            ]
            for i in range(len(self.rows))
        ]

    def _entry(self, i: int, j: int) -> str:
        value = self.values[i, j]
        if np.isnan(value):
            return _MISSING
        text = _number(value, self.digits)
        if self.errors is not None and not np.isnan(self.errors[i, j]):
            text += f" ± {_number(self.errors[i, j], self.digits)}"
        return text


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _number(value: float, digits: int) -> str:
    """Fixed digits, a true minus sign, and no minus before zero."""
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.removeprefix("-")
    return text.replace("-", "\N{MINUS SIGN}").replace("inf", "∞")


def _markdown_text(text: str) -> str:
    return text.replace("|", "\\|")
