"""Tables on disk, CSV or Parquet, read a number of rows at a time."""

import abc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from widetail.cli._errors import CommandError, UsageError

MOST_COLUMNS = 10_000
BATCH_ROWS = 10_000
PARQUET_SUFFIXES = (".parquet", ".pq")
# Cells that stand for no value; all other text is taken at its word.
MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL"})

Batch = dict[str, np.ndarray]
"""Columns by name: float64 with NaN for missing, or objects that are text, or None for missing."""


class Table(abc.ABC):
    """A file with named columns."""

    path: Path
    columns: list[str]

    @abc.abstractmethod
    def batches(self, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """All rows in order, at most `rows` at a time; at least one batch, or a `CommandError`."""


def open_table(path: Path, delimiter: str | None = None) -> Table:
    """Look at the head of a file; errors name it and say what to do."""
    if not path.exists():
        raise CommandError(f"there is no file {str(path)!r}.")
    if not path.is_file():
        raise CommandError(f"{str(path)!r} is not a file; name a .csv or a .parquet file.")
    with path.open("rb") as file:
        start = file.read(4)
    if not start:
        raise CommandError(f"{str(path)!r} is empty; a header and rows are expected.")
    if start == b"PAR1" or path.suffix.lower() in PARQUET_SUFFIXES:
        from widetail.cli._parquet import ParquetTable

        return ParquetTable(path)
    from widetail.cli._csv import CsvTable

    return CsvTable(path, _one_character(delimiter))


def _one_character(delimiter: str | None) -> str | None:
    if delimiter is None:
        return None
    delimiter = {"tab": "\t", "\\t": "\t"}.get(delimiter, delimiter)
    if len(delimiter) != 1:
        raise UsageError(f"--delimiter must be one character, or 'tab'; got {delimiter!r}.")
    return delimiter


def check_columns(path: Path, columns: list[str]) -> list[str]:
    """Names that are there, are different, and are not absurdly many."""
    if len(columns) > MOST_COLUMNS:
        raise CommandError(
            f"{str(path)!r} has {len(columns)} columns, at most {MOST_COLUMNS} are read; select those that matter."
        )
    unnamed = [number for number, name in enumerate(columns, 1) if not name.strip()]
    if unnamed:
        raise CommandError(f"{str(path)!r}: column {unnamed[0]} has no name; the first line must name all columns.")
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise CommandError(
            f"{str(path)!r}: {len(twice)} column names occur more than once, such as {twice[0]!r}; rename."
        )
    return columns


def no_rows(path: Path) -> CommandError:
    """The complaint about a table that is nothing but a header."""
    return CommandError(f"{str(path)!r} has a header but no rows.")


def text_or_none(values: Any) -> np.ndarray:
    """Cells as an array of objects, with None for those that stand for no value."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = [None if value is None or value.strip() in MISSING else value for value in values]
    return cells
