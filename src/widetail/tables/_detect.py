"""What the columns of a table are, found out from all of their cells."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from widetail.tables._cells import Cells, cells_of, present_texts
from widetail.tables._columns import Column, level_key
from widetail.tables._dates import DateOrder, orders_of, parse_dates, rounds_of
from widetail.tables._errors import TableError
from widetail.tables._numbers import PLAIN, Decimal, NumberFormat, candidates
from widetail.tables._words import listed, shortened

# a number and something behind it, such as "12 kg"
MEASURE = re.compile(r"[^\w]*[0-9]+(?:[.,' ][0-9]+)*\s?[^0-9]{0,10}\Z")
# Up to so many categories all of them are told apart; of more those that occur twice or more often.
FEW_LEVELS = 20


class Detected(NamedTuple):
    """What the columns of a table are.

    Attributes:
        columns: those that can be used.
        left_out: the others by name, and why.
        remarks: on what is not obvious.
    """

    columns: list[Column]
    left_out: dict[str, str]
    remarks: list[str]


def detect_columns(
    columns: Mapping[str, Any],
    *,
    categorical: Collection[str] = (),
    numeric: Collection[str] = (),
    max_levels: int = 100,
    decimal: Decimal | None = None,
    usual_decimal: Decimal | None = None,
) -> Detected:
    """Every column as a `Column`, or why it is left out.

    Texts become numbers where all of a column are, in one of the ways in which people write numbers, and dates where
    all are. What could be two numbers ("1,234") is read as the other columns of the table are written, then as is
    usual; if neither says anything it is an error.

    Args:
        columns: by name, as `columns_of` gives them; all rows.
        categorical: columns that are categories even if they look like numbers.
        numeric: columns that must be numbers, and stay even if they are constant.
        max_levels: most categories of a column that are told apart; the rarer ones are treated as new ones are.
        decimal: the decimal mark of all numbers that are texts; None finds out.
        usual_decimal: the mark that is usual for this kind of file.

    Example:
        >>> from widetail import tables
        >>> found = tables.detect_columns({"a": ["0,31", "1,2"], "q": ["good", "bad"], "c": [7, 7]})
        >>> [column.kind for column in found.columns], found.left_out
        (['number', 'category'], {'c': 'it is the same in all rows'})
        >>> found.remarks
        ["'a': numbers with decimal commas, '0,31' is 0.31"]
    """
    cells = {name: cells_of(name, column) for name, column in columns.items()}
    found = {name: _Found(one, name in categorical or one.is_category) for name, one in cells.items()}
    other_columns = _mark_of_the_others(found.values())
    kept: list[Column] = []
    left_out: dict[str, str] = {}
    remarks: list[str] = []
    by_format: dict[NumberFormat, list[str]] = {}
    for name, one in found.items():
        if np.all(one.cells.is_missing):
            left_out[name] = "all of its cells are missing"
            continue
        if one.fitting:
            form = _chosen(name, one, decimal, other_columns, usual_decimal, remarks)
            column = Column(name, "number", format=form)
            if one.fitting[0] != PLAIN or form.thousands:
                by_format.setdefault(form, []).append(name)
        elif one.is_number:
            column = Column(name, "number", format=NumberFormat(decimal or other_columns or "."))
        elif name in numeric:
            row, cell = one.first(~one.reads)
            raise TableError(f"column {name!r} must hold numbers; row {row} is {shortened(cell)}.")
        elif one.orders:
            column = _date_column(name, one, remarks)
        else:
            column = _category(name, one, max_levels, remarks, is_named=name in categorical)
        reason = None if name in numeric else _reason_against(column, one)
        if reason is None:
            kept.append(column)
        else:
            left_out[name] = reason
    for form, names in by_format.items():
        cell, value = _example(found[names[0]].texts, form)
        remarks.append(f"{listed(map(repr, names))}: numbers with {form.describe()}, {cell!r} is {value:g}")
    return Detected(kept, left_out, remarks)


class _Found:
    """What the cells of one column may be."""

    def __init__(self, cells: Cells, is_category: bool):
        self.cells = cells.as_texts() if is_category else cells
        self.texts = list(self.cells.texts)
        self.is_number = self.cells.kind == "number"
        self.fitting: list[NumberFormat] = []
        self.orders: list[DateOrder] = ["ymd"] if self.cells.kind == "date" else []
        self.reads = self.looks_like_date = np.zeros(len(self.texts), bool)
        if self.texts and not is_category:
            self.fitting, self.reads = candidates(self.texts)
            if not self.fitting:
                self.orders, self.looks_like_date = orders_of(self.texts)

    def share(self, of_texts: np.ndarray) -> float:
        """The share of the cells, without missing ones, whose text is among these."""
        places = self.cells.values[self.cells.values >= 0]
        return float(np.mean(of_texts[places]))

    def first(self, of_texts: np.ndarray) -> tuple[int, str]:
        """Row and text of the first cell whose text is among these."""
        if self.cells.kind != "text":
            row = int(np.flatnonzero(~self.cells.is_missing)[0])
            return row + 1, str(self.cells.to_list()[row])
        place = int(np.flatnonzero(of_texts)[0])
        return int(np.flatnonzero(self.cells.values == place)[0]) + 1, self.texts[place]


def _mark_of_the_others(columns: Iterable[_Found]) -> Decimal | None:
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
        cell = shortened(found.texts[0])
        raise TableError(f"column {name!r} holds {cell}, which is no number with {NumberFormat(given).describe()}.")
    if given is not None or len(first) == 1:
        return first[given or next(iter(first))]
    values = {mark: form.parse(found.texts) for mark, form in first.items()}
    if np.array_equal(values["."], values[","]):  # whole numbers: what the others say may matter for new rows
        return first[other_columns or "."]
    is_plain = first["."].thousands == ""
    mark = other_columns or ("." if is_plain else usual)
    cell, value = _example(found.texts, first[mark or "."], than=first["." if mark == "," else ","])
    if mark is None:
        raise TableError(
            f"column {name!r} holds {cell!r}, which may be {first['.'].parse([cell])[0]:g} or "
            f"{first[','].parse([cell])[0]:g}; say which mark stands before the decimals.",
            ("decimal", "."),
            ("decimal", ","),
        )
    if is_plain and mark == "." and usual == ",":
        remarks.append(f"{name!r}: {cell!r} is read as {value:g}, not with points between thousands")
    return first[mark]


def _example(texts: list[str], form: NumberFormat, than: NumberFormat = PLAIN) -> tuple[str, float]:
    """The first text that another form reads otherwise, or the first, and its value."""
    values, others = form.parse(texts), than.parse(texts)
    place = int(np.argmax((values != others) & ~(np.isnan(values) & np.isnan(others))))
    return texts[place], float(values[place])


def _date_column(name: str, found: _Found, remarks: list[str]) -> Column:
    order, days = found.orders[0], found.cells.values
    if found.cells.kind == "text":
        days = parse_dates(found.texts, order)
        if {"dmy", "mdy"} <= set(found.orders):
            order = "mdy" if "/" in found.texts[0] else "dmy"
            first = "the month" if order == "mdy" else "the day"
            remarks.append(f"{name!r}: {found.texts[0]!r} is read as a date with {first} first")
            days = parse_dates(found.texts, order)
    rounds = rounds_of(days[~np.isnan(days)])
    if order == "time":
        rounds = {"time of day": 1.0}
    return Column(name, "date", order=order, rounds=tuple(rounds))


def _category(name: str, found: _Found, max_levels: int, remarks: list[str], *, is_named: bool) -> Column:
    """A column of texts, or a complaint that says what to do about it."""
    if not is_named and not found.cells.is_category:
        _check_texts(name, found)
    spelled: dict[str, Counter[str]] = {}
    for text in present_texts(found.cells):
        spelled.setdefault(level_key(text), Counter())[text] += 1
    counts = {key: sum(ways.values()) for key, ways in spelled.items()}
    most_frequent = sorted(counts, key=lambda key: (-counts[key], key))
    if len(counts) > FEW_LEVELS:
        most_frequent = [key for key in most_frequent if counts[key] > 1][:max_levels]
        if most_frequent:
            rest = len(counts) - len(most_frequent)
            if rest:
                remarks.append(
                    f"{name!r}: {len(most_frequent)} of {len(counts)} texts are told apart, the rest is rare"
                )
    levels = sorted(min(spelled[key], key=lambda text: (-spelled[key][text], text)) for key in most_frequent)
    several = [ways for key, ways in spelled.items() if len(ways) > 1 and key in most_frequent]
    if several:
        remarks.append(f"{name!r}: {listed(map(repr, sorted(several[0])))} are taken as one")
    if levels and not (is_named or found.cells.is_category) and looks_measured(found.cells):
        remarks.append(
            f"{name!r}: texts such as {shortened(levels[0])} hold numbers but are read as names; leave their units out"
        )
    return Column(name, "category", tuple(levels))


def _check_texts(name: str, found: _Found) -> None:
    """Refuse texts among numbers or dates."""
    for mask, what in ((found.reads, "numbers"), (found.looks_like_date, "dates")):
        if len(mask) and 2 * found.share(mask) > 1:
            is_odd = ~mask
            if not is_odd.any():  # all look like dates, and some day is none
                order = max(("ymd", "mdy", "dmy", "time"), key=lambda o: np.sum(~np.isnan(parse_dates(found.texts, o))))
                is_odd = np.isnan(parse_dates(found.texts, order))
            row, cell = found.first(is_odd)
            raise TableError(
                f"column {name!r} holds {shortened(cell)} in row {row}, where most cells are {what}; correct it, or "
                f"say that they are names.",
                ("categorical", name),
            )


def _reason_against(column: Column, found: _Found) -> str | None:
    """Why nothing can be learned from a column, if so."""
    if column.kind == "category":
        if not column.levels and looks_measured(found.cells) and np.isnan(PLAIN.parse(found.texts[:100])).all():
            example = shortened(found.texts[0])
            return f"its texts, such as {example}, hold numbers with something behind them; leave that out"
        if not column.levels:
            return "every text is different"
        only_one = len({level_key(text) for text in found.cells.texts}) == 1
        return "it is the same in all rows" if only_one else None
    if found.cells.kind == "text":
        parsed = column.format.parse(found.texts) if column.kind == "number" else parse_dates(found.texts, column.order)
    else:
        parsed = found.cells.values[~found.cells.is_missing]
    return "it is the same in all rows" if len(np.unique(parsed)) == 1 else None


def looks_measured(cells: Cells) -> bool:
    """Whether most texts are a number with something behind it, which a model would not see."""
    return cells.kind == "text" and 2 * sum(bool(MEASURE.match(text)) for text in cells.texts) > len(cells.texts)
