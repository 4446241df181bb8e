"""One column: what it is to a model, and its cells as numbers or texts."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import polars as pl

from widetail.tables._errors import TableError
from widetail.tables._numbers import PLAIN, Decimal, NumberFormat, candidates
from widetail.tables._words import listed, nearest_first, rows_text, shortened

Kind = Literal["number", "category"]

# Cells that stand for no value; all other text is taken at its word.
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")


@dataclass(frozen=True)
class Column:
    """One column that a model uses.

    Attributes:
        name: in the header.
        kind: a number, or a category that becomes one 0/1 feature per level.
        levels: the categories.
        fill: what replaces a missing value: the median, or the most frequent category.
        format: how numbers are written where they are texts.
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    fill: float | str | None = None
    format: NumberFormat = PLAIN

    @property
    def features(self) -> list[str]:
        """Names of the numbers that this column becomes."""
        return [self.name] if self.kind == "number" else [f"{self.name}={level}" for level in self.levels]

    def with_decimal(self, decimal: Decimal) -> "Column":
        """The same column of another table, whose numbers are written with this mark."""
        if decimal == self.format.decimal:
            return self
        between = self.format.thousands
        swapped = {",": ".", ".": ","}.get(between, between)
        return replace(self, format=NumberFormat(decimal, swapped, self.format.unit))


def clean(cells: pl.Series) -> pl.Series:
    """Numbers as float64, everything else as text without spaces around it; null for what is missing.

    Example:
        >>> import polars as pl
        >>> from widetail import tables
        >>> tables.clean(pl.Series(["good ", "NA", ""])).to_list()
        ['good', None, None]
    """
    if cells.dtype.is_numeric():
        return cells.cast(pl.Float64).fill_nan(None)
    text = cells.cast(pl.String).str.strip_chars()
    return pl.select(pl.when(~text.is_in(MISSING)).then(text)).to_series().alias(cells.name)


def numbers(column: Column, cells: pl.Series, first_row: int) -> np.ndarray:
    """A column of numbers, float64 with NaN for missing, or a complaint about the first cell that is none.

    Args:
        column: what the column is.
        cells: a part of it, cleaned.
        first_row: number of its first row, for messages.
    """
    parsed = cells
    if cells.dtype == pl.String:
        parsed = column.format.parse(cells)
        wrong = (parsed.is_null() & cells.is_not_null()).arg_true()
        if len(wrong):
            place = int(wrong[0])
            how = "" if column.format == PLAIN else f", with {column.format.describe()} as in the table that was fitted"
            is_other_format = bool(candidates(cells.slice(place, 1))[0])
            raise TableError(
                f"column {column.name!r} must hold numbers{how}; row {first_row + place} is {shortened(cells[place])}.",
                *([("decimal", "," if column.format.decimal == "." else ".")] if is_other_format else []),
            )
    values = parsed.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise TableError(
            f"column {column.name!r} is infinite in {rows_text(infinite + first_row)}; replace those values."
        )
    return np.array(values, dtype=np.float64)


def texts(cells: pl.Series) -> pl.Series:
    """A column as text, null for missing; whole numbers without a point."""
    if not cells.dtype.is_numeric():
        return cells.cast(pl.String)
    return pl.Series(cells.name, [None if value is None else _label(value) for value in clean(cells)], dtype=pl.String)


def one_hot(column: Column, cells: pl.Series, first_row: int, *, impute: bool) -> np.ndarray:
    """A 0/1 feature per level, NaN where the cell is missing or, with `impute`, unknown."""
    labels = texts(cells).to_list()
    places = {level: number for number, level in enumerate(column.levels)}
    codes = np.array([-1 if label is None else places.get(label, -2) for label in labels], dtype=np.int64)
    unknown = np.flatnonzero(codes == -2)
    if len(unknown) and not impute:
        cell = str(labels[unknown[0]])
        same = unknown[[labels[place] == cell for place in unknown]]
        raise TableError(
            f"column {column.name!r} is {shortened(cell)} in {rows_text(same + first_row)}, which the model has not "
            f"seen; it knows {listed(map(shortened, nearest_first(cell, column.levels)))}. Correct it, or have the "
            f"most frequent one taken.",
            ("impute", None),
        )
    part = np.zeros((len(codes), len(column.levels)))
    known = np.flatnonzero(codes >= 0)
    part[known, codes[known]] = 1.0
    part[codes < 0] = np.nan
    return part


def _label(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
