"""Tables on disk, CSV or Parquet, read a number of rows at a time."""

import abc
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from widetail.cli._errors import CommandError, UsageError

MOST_COLUMNS = 10_000
BATCH_ROWS = 10_000
PARQUET_SUFFIXES = (".parquet", ".pq")


class Table(abc.ABC):
    """A file with named columns.

    Attributes:
        path: of the file.
        columns: their names.
        usual_decimal: the decimal mark that goes with this kind of file, if one does.
    """

    path: Path
    columns: list[str]
    usual_decimal: Literal[".", ","] | None = None

    @abc.abstractmethod
    def batches(self, rows: int = BATCH_ROWS) -> Iterator[Any]:
        """All rows in order as frames of polars, at most `rows` at a time; at least one batch, or a `CommandError`."""

    def read(self) -> Any:
        """All rows."""
        import polars as pl

        return pl.concat(self.batches(), rechunk=True)

    def check_names(self, option: str, names: Sequence[str]) -> list[str]:
        """Names of columns that an option gave, all of which the table must have."""
        for name in names:
            if name not in self.columns:
                from widetail.tables import listed, nearest_first

                known = listed(map(repr, nearest_first(name, self.columns)))
                raise UsageError(f"{option}: there is no column {name!r}; there are {known}.")
        return list(names)

    def split_names(self, option: str, text: str | None) -> list[str]:
        """The same from a text with commas."""
        if text is None:
            return []
        if text in self.columns:  # a name that itself holds a comma
            return [text]
        return self.check_names(option, [name.strip() for name in text.split(",") if name.strip()])


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
    if not any(name.strip() for name in columns):
        raise CommandError(f"{str(path)!r}: the first line is empty; it must name all columns.")
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
