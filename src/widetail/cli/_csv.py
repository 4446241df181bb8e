"""CSV files, by the standard library.

polars reads faster, but fills cells that a row lacks with nulls, and cannot say which row has too many.
"""

import csv
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import polars as pl

from widetail.cli._errors import CommandError
from widetail.cli._tables import BATCH_ROWS, Table, check_columns, no_rows

DELIMITERS = ",;\t|"
# what some spreadsheets write before the header, for each other
SEPARATOR_LINES = [f"sep={delimiter}" for delimiter in (*DELIMITERS.replace("\t", ""), "")]
MOST_CHARACTERS_OF_A_LINE = 1 << 26
WIDE_ENCODINGS = {b"\xff\xfe": "UTF-16LE", b"\xfe\xff": "UTF-16BE"}


class CsvTable(Table):
    """Text with a header; UTF-8, quotes and line ends as spreadsheets write them."""

    def __init__(self, path: Path, delimiter: str | None):
        self.path = path
        with path.open("rb") as file:
            start = file.read(1 << 16)
        if start[:2] in WIDE_ENCODINGS:
            raise CommandError(self._recode(WIDE_ENCODINGS[start[:2]]))
        if b"\0" in start:
            raise CommandError(f"{str(path)!r} holds NUL bytes, so it is not a CSV file; export it as CSV or Parquet.")
        header = next(self._lines(), "")
        self.lines_before = int(header.strip().lower() in SEPARATOR_LINES)
        header = next(itertools.islice(self._lines(), self.lines_before, None), "")
        self.delimiter = delimiter or max(DELIMITERS, key=header.count)
        # spreadsheets separate by semicolons where commas stand before decimals
        self.usual_decimal = {",": ".", ";": ","}.get(self.delimiter)  # type: ignore
        self.columns = check_columns(path, [name.strip() for name in next(self._records())])

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pl.DataFrame]:
        records = self._records()
        next(records)
        kept: list[list[str]] = []
        number = 0
        for record in records:
            if not record:  # an empty line, which spreadsheets leave at the end
                continue
            number += 1
            if len(record) != len(self.columns):
                raise CommandError(
                    f"{str(self.path)!r}: row {number} has {len(record)} cells, the header has {len(self.columns)}; "
                    f"quote cells that hold {self.delimiter!r}."
                )
            kept.append(record)
            if len(kept) == rows:
                yield self._frame(kept)
                kept = []
        if kept:
            yield self._frame(kept)
        if not number:
            raise no_rows(self.path)

    def _frame(self, records: list[list[str]]) -> pl.DataFrame:
        columns = zip(self.columns, zip(*records, strict=True), strict=True)
        return pl.DataFrame([pl.Series(name, cells, dtype=pl.String) for name, cells in columns])

    def _records(self) -> Iterator[list[str]]:
        lines = itertools.islice(self._lines(), self.lines_before, None)
        reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
        while True:
            before = reader.line_num + self.lines_before
            try:
                yield next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                line = reader.line_num + self.lines_before
                raise CommandError(f"{str(self.path)!r}: {_complaint(error, before + 1, line)}") from None

    def _lines(self) -> Iterator[str]:
        with self.path.open(encoding="utf-8-sig", newline="") as file:
            number = 0
            while True:
                number += 1
                line = self._line(file, number)
                if not line:
                    return
                if "\0" in line:
                    raise CommandError(f"{str(self.path)!r}: line {number} holds a NUL byte; export the file again.")
                yield line

    def _line(self, file: TextIO, number: int) -> str:
        try:
            line = file.readline(MOST_CHARACTERS_OF_A_LINE)
        except UnicodeDecodeError as error:
            # the decoder works ahead in blocks, so the line is only roughly known
            byte = error.object[error.start]
            raise CommandError(
                f"{self._recode('LATIN1')} (Byte {byte:#x} near line {number} cannot be UTF-8.)"
            ) from None
        if len(line) == MOST_CHARACTERS_OF_A_LINE:
            raise CommandError(f"{str(self.path)!r}: line {number} never ends; is it a CSV file?")
        return line

    def _recode(self, encoding: str) -> str:
        return (
            f"{str(self.path)!r} is not UTF-8 text; if it is CSV, convert it, for example with "
            f"`iconv -f {encoding} -t UTF-8 {self.path.name}`."
        )


def _complaint(error: csv.Error, first: int, last: int) -> str:
    """What is wrong with a row that begins in line `first`, of which the reader has got to line `last`."""
    if "field limit" in str(error) and first == last:
        return (
            f"a cell of line {first} has more than {csv.field_size_limit():,} characters, the most that are read; "
            f"shorten it, or export the table without that column."
        )
    if "field limit" in str(error) or "unexpected end" in str(error):
        return f"a quote is opened in line {first} and not closed by line {last}; close or remove it."
    return f"line {last}: {error}; a quote inside of a quoted cell must be doubled."
