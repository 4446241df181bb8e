"""Parquet files, by polars."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from widetail.cli._errors import CommandError
from widetail.cli._tables import BATCH_ROWS, Table, check_columns, no_rows

BYTES_PER_VALUE = 16  # of a number or a text in memory, besides its characters


class ParquetTable(Table):
    """A Parquet file; numbers, booleans and text, no nested columns."""

    def __init__(self, path: Path):
        self.path = path
        try:
            self.frame = pl.scan_parquet(path, glob=False)
            self.schema = dict(self.frame.collect_schema())
            self.rows = int(self.frame.select(pl.len()).collect().item())
        except pl.exceptions.PolarsError as error:
            raise _damaged(path, error) from None
        if self.rows == 0:
            raise no_rows(path)
        self.columns = check_columns(path, list(self.schema))
        for name, kind in self.schema.items():
            self._check_kind(name, kind)

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pl.DataFrame]:
        # slices unpack only the pages that they need: polars' own batches unpack a row group, which may be the file
        try:
            for start in range(0, self.rows, rows):
                yield self.frame.slice(start, rows).collect()
        except pl.exceptions.PolarsError as error:
            raise _damaged(self.path, error) from None

    def read(self) -> pl.DataFrame:
        from widetail.kernels import available_memory

        needed, free = self.rows * len(self.columns) * BYTES_PER_VALUE, available_memory()
        if needed > 0.5 * free:
            raise CommandError(
                f"{str(self.path)!r} unpacks to {needed / 1e9:.3g} GB ({self.rows:,} rows), and {free / 1e9:.3g} GB "
                f"are free; take a part of the rows or columns."
            )
        return super().read()

    def _check_kind(self, name: str, kind: Any) -> None:
        if kind.is_nested() or not (
            kind.is_numeric() or kind.is_temporal() or str(kind).startswith(("Bool", "Str", "Cat", "Enum", "Null"))
        ):
            raise CommandError(
                f"{str(self.path)!r}: column {name!r} is of type {kind}, but numbers, booleans and text are expected; "
                f"drop or unfold it."
            )


def _damaged(path: Path, error: Any) -> CommandError:
    return CommandError(f"{str(path)!r} is not a Parquet file, or it is damaged: {str(error).splitlines()[0]}")
