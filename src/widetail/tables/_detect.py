"""What the columns of a table are, found out from all of its cells."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable

import polars as pl

from widetail.tables._columns import Column, clean, texts
from widetail.tables._errors import TableError
from widetail.tables._numbers import PLAIN, Decimal, NumberFormat, candidates
from widetail.tables._words import listed, shortened

DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}( .*)?|\d{1,2}:\d{2}(:\d{2}.*)?")
# a number and something behind it, such as "12 kg"
MEASURE = r"^[^\w]*[0-9]+(?:[.,' ][0-9]+)*\s?[^0-9]{0,10}$"


def detect_columns(
    frame: pl.DataFrame,
    *,
    categorical: Collection[str] = (),
    numeric: Collection[str] = (),
    most_levels: int = 100,
    decimal: Decimal | None = None,
    usual_decimal: Decimal | None = None,
) -> tuple[list[Column], list[str]]:
    """Every column as a `Column`, and remarks on what is not obvious.

    Texts become numbers where all of a column are, in one of the ways in which people write numbers. What could be
    two numbers ("1,234") is read as the other columns of the table are written, then as is usual; if neither says
    anything it is an error.

    Args:
        frame: text or numbers, all rows.
        categorical: columns that are categories even if they look like numbers.
        numeric: columns that must be numbers.
        most_levels: most categories that a column may have.
        decimal: the decimal mark of all numbers that are texts; None finds out.
        usual_decimal: the mark that is usual for this kind of file.

    Example:
        >>> import polars as pl
        >>> from widetail import tables
        >>> columns, remarks = tables.detect_columns(pl.DataFrame({"a": ["0,31", "1,2"], "q": ["good", "bad"]}))
        >>> [column.kind for column in columns]
        ['number', 'category']
        >>> remarks
        ["'a': numbers with decimal commas, '0,31' is 0.31"]
    """
    found = {name: _Found(clean(frame[name]), name in categorical) for name in frame.columns}
    other_columns = _mark_of_the_others(found.values())
    columns, remarks, by_format = [], [], defaultdict(list)
    for name, one in found.items():
        if not len(one.present):
            raise TableError(f"column {name!r} has no values.", ("drop", name))
        if one.fitting:
            form = _chosen(name, one, decimal, other_columns, usual_decimal, remarks)
            columns.append(Column(name, "number", format=form))
            if one.fitting[0] != PLAIN or form.thousands:
                by_format[form].append(name)
        elif one.is_number:
            columns.append(Column(name, "number", format=NumberFormat(decimal or other_columns or ".")))
        elif name in numeric:
            row, cell = _first_odd(one)
            raise TableError(f"column {name!r} must hold numbers; row {row} is {shortened(cell)}.")
        else:
            columns.append(_category(name, one, most_levels, is_named=name in categorical))
            remarks += _remarks_on_texts(name, frame[name], columns[-1])
    for form, names in by_format.items():
        cell, value = _example(found[names[0]].present, form)
        remarks.append(f"{listed(map(repr, names))}: numbers with {form.describe()}, {cell!r} is {value:g}")
    return columns, remarks


class _Found:
    """What the cells of one column are."""

    def __init__(self, cells: pl.Series, is_category: bool):
        self.cells = cells
        self.present = cells.drop_nulls()
        self.is_number = cells.dtype.is_numeric() and not is_category
        self.fitting: list[NumberFormat] = []
        self.reads = pl.Series([], dtype=pl.Boolean)
        if cells.dtype == pl.String and len(self.present) and not is_category:
            self.fitting, self.reads = candidates(self.present)


def _mark_of_the_others(columns: Iterable["_Found"]) -> Decimal | None:
    """The decimal mark of all columns that can be read with one mark only, if it is the same in all of them."""
    by_column: list[set[Decimal]] = [{form.decimal for form in one.fitting} for one in columns]
    needed: set[Decimal] = {mark for marks in by_column if len(marks) == 1 for mark in marks}
    return needed.pop() if len(needed) == 1 else None


def _chosen(
    name: str,
    found: _Found,
    given: Decimal | None,
    other_columns: Decimal | None,
    usual: Decimal | None,
    remarks: list[str],
) -> NumberFormat:
    """One of the formats that fit all cells."""
    first = {form.decimal: form for form in reversed(found.fitting)}  # the simplest with each mark
    if given is not None and given not in first:
        cell = shortened(found.present[0])
        raise TableError(f"column {name!r} holds {cell}, which is no number with {NumberFormat(given).describe()}.")
    if given is not None or len(first) == 1:
        return first[given or next(iter(first))]
    values = {mark: form.parse(found.present) for mark, form in first.items()}
    if values["."].equals(values[","]):  # whole numbers: what the others say may matter for new rows
        return first[other_columns or "."]
    is_plain = first["."].thousands == ""
    mark = other_columns or ("." if is_plain else usual)
    cell, value = _example(found.present, first[mark or "."], than=first["." if mark == "," else ","])
    if mark is None:
        raise TableError(
            f"column {name!r} holds {cell!r}, which may be {first['.'].parse(pl.Series([cell]))[0]:g} or "
            f"{first[','].parse(pl.Series([cell]))[0]:g}; say which mark stands before the decimals.",
            ("decimal", "."),
            ("decimal", ","),
        )
    if is_plain and mark == "." and usual == ",":
        remarks.append(f"{name!r}: {cell!r} is read as {value:g}, not with points between thousands")
    return first[mark]


def _example(cells: pl.Series, form: NumberFormat, than: NumberFormat = PLAIN) -> tuple[str, float]:
    """The first cell that another form reads otherwise, and its value."""
    values, others = form.parse(cells), than.parse(cells)
    place = int(values.ne_missing(others).arg_true()[0])
    return str(cells[place]), float(values[place])


def _category(name: str, found: _Found, most_levels: int, *, is_named: bool) -> Column:
    """A column of texts, or a complaint that says what to do about it."""
    present = texts(found.present)
    if not is_named:
        _check_texts(name, found)
    counts = present.value_counts(sort=True, name="count")
    if len(counts) > most_levels:
        few = listed(shortened(level) for level in present.unique(maintain_order=True)[:3])
        raise TableError(
            f"column {name!r} has more than {most_levels} different texts, such as {few}.",
            ("drop", name),
            ("max_categories", str(len(counts))),
        )
    levels = sorted(counts[counts.columns[0]].to_list())
    most = counts.filter(pl.col("count") == pl.col("count").max())[counts.columns[0]]
    first = present.filter(present.is_in(most.to_list()))[0]  # of equally frequent ones the first in the table
    return Column(name, "category", tuple(levels), first)


def _check_texts(name: str, found: _Found) -> None:
    """Refuse dates, and texts among numbers."""
    if not len(found.reads):
        return
    row, cell = _first_odd(found)
    if all(DATE.fullmatch(text) for text in found.present.filter(~found.reads).head(5)):
        raise TableError(
            f"column {name!r} holds dates or times ({cell!r} in row {row}), of which a model makes nothing; add what "
            f"matters as numbers (days since a start, month, hour).",
            ("drop", name),
        )
    if 2 * found.reads.sum() > len(found.present):
        raise TableError(
            f"column {name!r} holds {shortened(cell)} in row {row}, where most cells are numbers; correct it, or say "
            f"that they are names.",
            ("categorical", name),
        )


def _first_odd(found: _Found) -> tuple[int, str]:
    """Row and text of the first cell that is not a number in the form that reads most cells."""
    place = int((~found.reads).arg_true()[0])
    return int(found.cells.is_not_null().arg_true()[place]) + 1, str(found.present[place])


def looks_measured(cells: pl.Series) -> bool:
    """Whether most texts are a number with something behind it, which a model would not see."""
    return cells.dtype == pl.String and 2 * cells.str.contains(MEASURE).sum() > len(cells)


def _remarks_on_texts(name: str, raw: pl.Series, column: Column) -> list[str]:
    remarks = []
    if raw.dtype == pl.String:
        padded = raw.filter((raw != raw.str.strip_chars()) & raw.str.strip_chars().is_in(column.levels))
        if len(padded):
            remarks.append(f"{name!r}: spaces around texts are left out, as in {shortened(padded[0])}")
    by_letters = defaultdict(list)
    for level in column.levels:
        by_letters[level.casefold()].append(level)
    for levels in by_letters.values():
        if len(levels) > 1:
            remarks.append(
                f"{name!r}: {listed(map(repr, levels))} differ in capitals only, and stay different categories"
            )
    if looks_measured(pl.Series(column.levels, dtype=pl.String)):
        remarks.append(
            f"{name!r}: texts such as {shortened(column.levels[0])} hold numbers but are read as names; "
            f"leave their units out"
        )
    return remarks
