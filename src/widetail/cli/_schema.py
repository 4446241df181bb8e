"""From columns of a table to the numbers that a model sees, and what must be remembered for new rows."""

import dataclasses
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from widetail.cli._errors import CommandError, UsageError
from widetail.cli._tables import Batch, Table

DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}( .*)?|\d{1,2}:\d{2}(:\d{2}.*)?")
SHOWN = 5

Kind = Literal["number", "category"]
Task = Literal["regression", "classification"]


@dataclass(frozen=True)
class Column:
    """One column that a model uses.

    Attributes:
        name: in the header.
        kind: a number, or a category that becomes one 0/1 feature per level.
        levels: the categories.
        fill: what replaces a missing value: the median, or the most frequent category.
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    fill: float | str | None = None

    @property
    def features(self) -> list[str]:
        """Names of the numbers that this column becomes."""
        return [self.name] if self.kind == "number" else [f"{self.name}={level}" for level in self.levels]


@dataclass(frozen=True)
class Schema:
    """What `fit` has seen, as plain data."""

    columns: tuple[Column, ...]
    target: str | None = None
    task: Task | None = None
    impute: bool = False

    @property
    def features(self) -> list[str]:
        """Names of the columns of the matrix of inputs."""
        return [name for column in self.columns for name in column.features]

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        columns = [{"name": c.name, "kind": c.kind, "levels": list(c.levels), "fill": c.fill} for c in self.columns]
        return {"columns": columns, "target": self.target, "task": self.task, "impute": self.impute}

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "Schema":
        """What `to_json` wrote."""
        columns = tuple(Column(c["name"], c["kind"], tuple(c["levels"]), c["fill"]) for c in facts["columns"])
        return cls(columns, facts["target"], facts["task"], facts["impute"])

    def check_table(self, table: Table, *, with_target: bool = False) -> None:
        """Refuse a table in which a column is missing; further columns do no harm."""
        wanted = [column.name for column in self.columns] + ([str(self.target)] if with_target else [])
        missing = [name for name in wanted if name not in table.columns]
        if missing:
            raise CommandError(
                f"{str(table.path)!r} lacks {_listed(map(repr, missing))}, which the model was fitted with; "
                f"it has {_listed(map(repr, table.columns))}."
            )

    def encode(self, batch: Batch, first_row: int, *, impute: bool) -> np.ndarray:
        """Inputs of a batch, shape (rows, features), float64 and finite.

        Args:
            batch: columns as read.
            first_row: number of its first row, for messages.
            impute: whether missing and unknown values are replaced.
        """
        return self.complete(self.matrix(batch, first_row, impute=impute), first_row, impute=impute)

    def matrix(self, batch: Batch, first_row: int, *, impute: bool) -> np.ndarray:
        """Inputs of a batch with NaN for what is missing."""
        parts = [
            numbers(column.name, batch[column.name], first_row)[:, None]
            if column.kind == "number"
            else _one_hot(column, batch[column.name], first_row, impute)
            for column in self.columns
        ]
        return np.concatenate(parts, axis=1)

    def complete(self, x: np.ndarray, first_row: int, *, impute: bool) -> np.ndarray:
        """Replace what is missing, or complain of it."""
        place = 0
        complaints = []
        for column in self.columns:
            part = x[:, place : place + len(column.features)]
            place += len(column.features)
            missing = np.isnan(part[:, 0])
            if missing.any() and impute:
                part[missing] = _filled(column)
            elif missing.any():
                complaints.append(f"column {column.name!r} in {_rows(np.flatnonzero(missing) + first_row)}")
        if complaints:
            raise CommandError(
                f"missing values: {_listed(complaints, ';')}. Fill them in, leave those rows out, or use --impute."
            )
        return x

    def with_medians(self, x: np.ndarray) -> "Schema":
        """The schema with the medians of a matrix of inputs, in which NaN is missing."""
        columns, place = [], 0
        for column in self.columns:
            median = float(np.nanmedian(x[:, place])) if column.kind == "number" else column.fill
            columns.append(dataclasses.replace(column, fill=median))
            place += len(column.features)
        return dataclasses.replace(self, columns=tuple(columns))


@dataclass
class Profile:
    """What one pass over a column finds."""

    name: str
    rows: int = 0
    missing: list[int] = field(default_factory=list)
    missing_count: int = 0
    numeric: int = 0
    odd: list[tuple[int, str]] = field(default_factory=list)  # the first cells that are not numbers
    levels: Counter = field(default_factory=Counter)

    def add(self, values: np.ndarray, most_levels: int) -> None:
        """Count the cells of a batch."""
        is_missing = _missing(values)
        places = np.flatnonzero(is_missing)
        self.missing_count += len(places)
        self.missing += (places[: SHOWN - len(self.missing)] + self.rows + 1).tolist()
        if values.dtype == object:
            present = values[~is_missing]
            if _parse(present) is not None:
                self.numeric += len(present)
            else:
                flags = np.fromiter((_is_number(cell) for cell in present), dtype=bool, count=len(present))
                self.numeric += int(flags.sum())
                where = np.flatnonzero(~is_missing)[~flags][: SHOWN - len(self.odd)]
                self.odd += [(int(place) + self.rows + 1, str(values[place])) for place in where]
            if len(self.levels) <= most_levels:
                self.levels.update(present.tolist())
        else:
            self.numeric += int(np.sum(~is_missing))
            if len(self.levels) <= most_levels:
                found, counts = np.unique(values[~is_missing], return_counts=True)
                shown = slice(most_levels + 1)
                self.levels.update(dict(zip(map(_label, found[shown]), counts[shown].tolist(), strict=True)))
        self.rows += len(values)

    @property
    def present(self) -> int:
        """Cells with a value."""
        return self.rows - self.missing_count


def profile(table: Table, names: Sequence[str], most_levels: int) -> list[Profile]:
    """One pass over the columns of a table."""
    profiles = [Profile(name) for name in names]
    for batch in table.batches():
        for one in profiles:
            one.add(batch[one.name], most_levels)
    return profiles


def column_of(found: Profile, most_levels: int, *, is_category: bool, option: str = "--drop") -> Column:
    """What a column is to a model, or a complaint that says what to do about it."""
    name = found.name
    if found.present == 0:
        raise CommandError(f"column {name!r} has no values; leave it out with {option} {_quoted(name)}.")
    if found.numeric == found.present and not is_category:
        return Column(name, "number")
    row, cell = found.odd[0] if found.odd else (0, "")
    if found.odd and all(DATE.fullmatch(text.strip()) for _, text in found.odd):
        raise CommandError(
            f"column {name!r} holds dates or times ({cell!r} in row {row}), of which a model makes nothing; add what "
            f"matters as numbers (days since a start, month, hour), and leave it out with {option} {_quoted(name)}."
        )
    if 2 * found.numeric > found.present and not is_category:
        raise CommandError(
            f"column {name!r} holds {_shorten(cell)} in row {row}, where most cells are numbers; correct it, or use "
            f"--categorical {_quoted(name)} if they are names."
        )
    if len(found.levels) > most_levels:
        raise CommandError(
            f"column {name!r} has more than {most_levels} different texts, such as "
            f"{_listed(_shorten(level) for level in list(found.levels)[:3])}; leave it out with {option} "
            f"{_quoted(name)}, or raise --max-categories."
        )
    return Column(name, "category", tuple(sorted(found.levels)), found.levels.most_common(1)[0][0])


def numbers(name: str, values: np.ndarray, first_row: int) -> np.ndarray:
    """A column of numbers with NaN for missing, or a complaint about the first cell that is none."""
    if values.dtype == object:
        filled = np.where(_missing(values), "nan", values)
        parsed = _parse(filled)
        if parsed is None:
            place = next(i for i, cell in enumerate(filled) if not _is_number(cell))
            raise CommandError(
                f"column {name!r} must hold numbers; row {first_row + place} is {_shorten(values[place])}."
            )
        values = parsed
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise CommandError(f"column {name!r} is infinite in {_rows(infinite + first_row)}; replace those values.")
    return np.array(values, dtype=np.float64)


def texts(values: np.ndarray) -> np.ndarray:
    """A column as text with None for missing; whole numbers without a point."""
    if values.dtype == object:
        return values
    labels = np.empty(len(values), dtype=object)
    labels[:] = [None if np.isnan(value) else _label(value) for value in values]
    return labels


def split_names(option: str, text: str | None, table: Table) -> list[str]:
    """Names of columns, separated by commas, that the table has."""
    if text is None:
        return []
    if text in table.columns:  # a name that itself holds a comma
        return [text]
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in table.columns:
            raise UsageError(f"{option}: there is no column {name!r}; there are {_listed(map(repr, table.columns))}.")
    return names


def _one_hot(column: Column, values: np.ndarray, first_row: int, impute: bool) -> np.ndarray:
    labels = texts(values)
    places = {level: number for number, level in enumerate(column.levels)}
    codes = np.array([-1 if label is None else places.get(label, -2) for label in labels], dtype=np.int64)
    unknown = np.flatnonzero(codes == -2)
    if len(unknown) and not impute:
        raise CommandError(
            f"column {column.name!r} is {_shorten(labels[unknown[0]])} in {_rows(unknown + first_row)}, which the "
            f"model has not seen; it knows {_listed(map(_shorten, column.levels))}. Correct it, or use --impute, "
            f"which takes the most frequent."
        )
    part = np.zeros((len(codes), len(column.levels)))
    known = np.flatnonzero(codes >= 0)
    part[known, codes[known]] = 1.0
    part[codes < 0] = np.nan
    return part


def _filled(column: Column) -> Any:
    if column.kind == "number":
        return column.fill
    return np.asarray([level == column.fill for level in column.levels], dtype=np.float64)


def _missing(values: np.ndarray) -> np.ndarray:
    if values.dtype == object:
        return np.array([value is None for value in values], dtype=bool)
    return np.isnan(values)


def _parse(cells: np.ndarray) -> np.ndarray | None:
    """Texts as numbers, or None if one of them is something else."""
    try:
        return cells.astype(str).astype(np.float64)
    except ValueError:
        return None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _label(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def _rows(rows: np.ndarray) -> str:
    """Rows are counted from 1, after the header."""
    shown = ", ".join(str(int(row)) for row in rows[:SHOWN])
    more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    return f"row{'s' if len(rows) > 1 else ''} {shown}{more}"


def _listed(items: Iterable[str], separator: str = ",") -> str:
    entries = list(items)
    more = f"{separator} and {len(entries) - 10} more" if len(entries) > 10 else ""
    return f"{separator} ".join(entries[:10]) + more


def _shorten(cell: Any) -> str:
    text = str(cell)
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _quoted(name: str) -> str:
    return shlex.quote(name)
