"""One column: what it is to a model, and its cells as numbers."""

import unicodedata
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from widetail.files import savable
from widetail.tables._cells import Cells
from widetail.tables._dates import WEEK, YEAR, DateOrder, parse_dates
from widetail.tables._errors import TableError
from widetail.tables._numbers import PLAIN, Decimal, NumberFormat, candidates
from widetail.tables._words import rows_text, shortened

Kind = Literal["number", "category", "date"]
PERIODS = {"time of year": YEAR, "day of week": WEEK, "time of day": 1.0}


class Group(NamedTuple):
    """Features that share one relevance: all that there is to know of one side of a column.

    Attributes:
        name: of the column, or of what it says of a date.
        features: names of the features.
        norm: what the squares of the features of a row add up to, in every row; None for a number.
    """

    name: str
    features: list[str]
    norm: float | None


@savable("tables.Column")
@dataclass(frozen=True)
class Column:
    """One column that a model uses.

    Attributes:
        name: in the header.
        kind: a number; a category, which becomes a feature per level; a date, which becomes a number of days and a
            point on a circle for everything that comes round again.
        levels: the categories that are told apart, as they are mostly written.
        format: how numbers are written where they are texts.
        order: how dates are written where they are texts.
        rounds: what comes round again: "time of year", "day of week", "time of day".
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    format: NumberFormat = PLAIN
    order: DateOrder = "ymd"
    rounds: tuple[str, ...] = ()

    def __post_init__(self):
        if len(set(map(level_key, self.levels))) < len(self.levels) or not set(self.rounds) <= set(PERIODS):
            raise ValueError(f"levels must differ in more than capitals, and rounds be known; got {self}.")

    @property
    def groups(self) -> list[Group]:
        """Its features, in groups that share a relevance."""
        if self.kind == "category":
            # as far apart, on average, as two values of a standardised number: 2 between two rows
            norm = len(self.levels) / max(len(self.levels) - 1, 1)
            return [Group(self.name, [f"{self.name}={level}" for level in self.levels], norm)]
        number = [] if self.kind == "date" and self.order == "time" else [Group(self.name, [self.name], None)]
        return number + [
            Group(f"{self.name}: {part}", [f"{self.name}: {part}, {way}" for way in ("sine", "cosine")], 1.0)
            for part in self.rounds
        ]

    def with_decimal(self, decimal: Decimal) -> "Column":
        """The same column of another table, whose numbers are written with this mark."""
        if decimal == self.format.decimal:
            return self
        between = self.format.thousands
        swapped = {",": ".", ".": ","}.get(between, between)
        return replace(self, format=NumberFormat(decimal, swapped, self.format.unit))

    def read(self, cells: Cells, first_row: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Its features, and where a cell is a level of its own.

        Returns:
            Features (n, d), NaN where the cell is missing, 0 where it is a level that has no feature; and booleans (n,)
            that say where that is.
        """
        nothing_new = np.zeros(len(cells), bool)
        if self.kind == "number":
            return numbers(self, cells, first_row)[:, None], nothing_new
        if self.kind == "date":
            return self._read_dates(cells, first_row), nothing_new
        texts = cells.as_texts()
        places = {level_key(level): place for place, level in enumerate(self.levels)}
        of_text = np.array([places.get(level_key(text), -2) for text in texts.texts] + [-1], dtype=np.int64)
        codes = of_text[texts.values]  # the last one is for missing cells, whose place is -1
        group = self.groups[0]
        features = np.zeros((len(codes), len(self.levels)))
        rows = np.flatnonzero(codes >= 0)
        features[rows, codes[rows]] = np.sqrt(group.norm or 1.0)
        features[codes == -1] = np.nan
        return features, codes == -2

    def _read_dates(self, cells: Cells, first_row: int) -> np.ndarray:
        days = cells.values
        if cells.kind == "text":
            different = parse_dates(cells.texts, self.order)
            days = np.append(different, np.nan)[cells.values]
        wrong = np.isnan(days) & ~cells.is_missing
        if cells.kind == "number" or wrong.any():
            row = int(np.flatnonzero(~cells.is_missing if cells.kind == "number" else wrong)[0])
            raise TableError(
                f"column {self.name!r} must hold dates{_described(self.order)}; row {first_row + row} is "
                f"{shortened(cells.to_list()[row])}."
            )
        columns = [] if self.order == "time" else [days]
        for part in self.rounds:
            angle = 2 * np.pi * days / PERIODS[part]
            columns += [np.sin(angle), np.cos(angle)]
        return np.stack(columns, axis=1)


def _described(order: DateOrder) -> str:
    ways = {"ymd": "year-month-day", "dmy": "day, month, year", "mdy": "month, day, year", "time": "hours:minutes"}
    return f" ({ways[order]})"


def level_key(text: str) -> str:
    """What texts of one level have in common: "Good " and "good" are one.

    Example:
        >>> from widetail import tables
        >>> tables.level_key(" Very  Good") == tables.level_key("very good")
        True
    """
    return " ".join(unicodedata.normalize("NFKC", text).split()).casefold()


def numbers(column: Column, cells: Cells, first_row: int = 1) -> np.ndarray:
    """A column of numbers, float64 with NaN for missing, or a complaint about the first cell that is none.

    Args:
        column: what the column is.
        cells: a part of it.
        first_row: number of its first row, for messages.
    """
    values = cells.values
    if cells.kind != "number":
        texts = cells.as_texts()
        parsed = np.append(column.format.parse(texts.texts), np.nan)
        values = parsed[texts.values]
        wrong = np.flatnonzero(np.isnan(values) & ~cells.is_missing)
        if len(wrong):
            place = int(wrong[0])
            cell = texts.texts[texts.values[place]]
            how = "" if column.format == PLAIN else f", with {column.format.describe()} as in the table that was fitted"
            other = "," if column.format.decimal == "." else "."
            raise TableError(
                f"column {column.name!r} must hold numbers{how}; row {first_row + place} is {shortened(cell)}.",
                *([("decimal", other)] if candidates([cell])[0] else []),
            )
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise TableError(
            f"column {column.name!r} is infinite in {rows_text(infinite + first_row)}; replace those values."
        )
    return np.asarray(values, dtype=np.float64)


def as_json(column: Column) -> dict[str, Any]:
    """What people want to know of a column, as JSON types."""
    written = {"decimal": column.format.decimal, "thousands": column.format.thousands, "unit": column.format.unit}
    facts: dict[str, Any] = {"name": column.name, "kind": column.kind, "levels": list(column.levels), "format": written}
    return facts | ({"dates": column.order, "rounds": list(column.rounds)} if column.kind == "date" else {})
