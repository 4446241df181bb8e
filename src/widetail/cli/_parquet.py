"""Parquet files, by polars, after a look at what they claim to unpack to."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from widetail.cli._errors import CommandError
from widetail.cli._tables import BATCH_ROWS, Table, check_columns, no_rows

BYTES_PER_VALUE = 16  # of a text or a number in memory, besides its characters


class ParquetTable(Table):
    """A Parquet file; numbers, booleans and text, no nested columns."""

    def __init__(self, path: Path):
        self.path = path
        rows, row_group, unpacked = _read_footer(path)
        if rows == 0:
            raise no_rows(path)
        try:
            self.frame = pl.scan_parquet(path, glob=False)
            self.schema = dict(self.frame.collect_schema())
        except pl.exceptions.PolarsError as error:
            raise _damaged(path, error) from None
        self.columns = check_columns(path, list(self.schema))
        self._check_memory(row_group * len(self.columns) * BYTES_PER_VALUE + unpacked)
        for name, kind in self.schema.items():
            self._check_kind(name, kind)

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pl.DataFrame]:
        try:
            for frame in self.frame.collect_batches(chunk_size=rows, maintain_order=True):
                yield from frame.iter_slices(rows)
        except pl.exceptions.PolarsError as error:
            raise _damaged(self.path, error) from None

    def _check_memory(self, needed: int) -> None:
        from widetail.kernels import available_memory

        free = available_memory()
        if needed > 0.5 * free:
            raise CommandError(
                f"{str(self.path)!r} unpacks to {needed / 1e9:.3g} GB at a time, of {free / 1e9:.3g} GB that are free "
                f"(the file itself has {self.path.stat().st_size / 1e9:.3g} GB); split it, or write smaller row groups."
            )

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


def _read_footer(path: Path) -> tuple[int, int, int]:
    """Number of rows, rows of the largest row group, and bytes that the largest row group unpacks to."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(max(size - 8, 0))
        tail = file.read(8)
        length = struct.unpack("<I", tail[:4])[0] if len(tail) == 8 else 0
        if start != b"PAR1" or tail[4:] != b"PAR1" or length > size - 12:
            raise CommandError(f"{str(path)!r} is not a Parquet file, or it is cut short.")
        file.seek(size - 8 - length)
        footer = file.read(length)
    try:
        facts = _Thrift(footer).structure()
        groups = facts.get(4, [])
        unpacked = [sum(chunk[3][6] for chunk in group[1]) for group in groups]
        rows = [int(group[3]) for group in groups]
        return int(facts[3]), max(rows, default=0), max(unpacked, default=0)
    except (IndexError, KeyError, TypeError, RecursionError) as error:
        raise CommandError(f"{str(path)!r} has a footer that cannot be read: {error!r}") from None


class _Thrift:
    """The compact protocol of Thrift, in which footers are written; fields by their numbers."""

    def __init__(self, data: bytes):
        self.data = data
        self.place = 0

    def byte(self) -> int:
        self.place += 1
        return self.data[self.place - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def integer(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def binary(self) -> bytes:
        length = self.varint()
        self.place += length
        return self.data[self.place - length : self.place]

    def structure(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while True:
            head = self.byte()
            if head == 0:
                return fields
            number = number + (head >> 4) if head >> 4 else self.integer()
            kind = head & 0x0F
            fields[number] = kind == 1 if kind in (1, 2) else self.value(kind)

    def value(self, kind: int) -> Any:
        if kind in (1, 2, 3):
            return self.byte()
        if kind in (4, 5, 6):
            return self.integer()
        if kind == 7:
            self.place += 8
            return None
        if kind == 8:
            return self.binary()
        if kind in (9, 10):
            head = self.byte()
            count = head >> 4 if head >> 4 != 15 else self.varint()
            if count > len(self.data):
                raise IndexError(f"a list of {count} entries")
            return [self.value(head & 0x0F) for _ in range(count)]
        if kind == 12:
            return self.structure()
        return self.unknown(kind)

    def unknown(self, kind: int) -> Any:
        raise TypeError(f"a value of kind {kind}")
