"""The columns of a table to the matrix that a model sees, and what must be remembered for new rows."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from widetail.tables._columns import Column, clean, numbers, one_hot
from widetail.tables._errors import TableError
from widetail.tables._numbers import Decimal, NumberFormat
from widetail.tables._words import listed, nearest_first, rows_text

Task = Literal["regression", "classification"]


@dataclass(frozen=True)
class Schema:
    """What `fit` has seen, as plain data.

    Attributes:
        columns: those that a model predicts from.
        target: what it predicts, if anything: a number, or a category whose levels are the classes.
        impute: whether missing and unknown cells are replaced.
    """

    columns: tuple[Column, ...]
    target: Column | None = None
    impute: bool = False

    @property
    def task(self) -> Task | None:
        """What kind of prediction the target asks for."""
        if self.target is None:
            return None
        return "regression" if self.target.kind == "number" else "classification"

    @property
    def features(self) -> list[str]:
        """Names of the columns of the matrix of inputs."""
        return [name for column in self.columns for name in column.features]

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "Schema":
        """What `to_json` wrote."""
        target = facts["target"]
        columns = tuple(_column_from_json(column) for column in facts["columns"])
        return cls(columns, None if target is None else _column_from_json(target), facts["impute"])

    def check_names(self, names: Sequence[str], *, with_target: bool = False) -> None:
        """Refuse a table in which a column is missing; further columns do no harm."""
        wanted = [column.name for column in (*self.columns, *([self.target] if with_target and self.target else []))]
        missing = [name for name in wanted if name not in names]
        if missing:
            raise TableError(
                f"the table lacks {listed(map(repr, missing))}, which the model was fitted with; it has "
                f"{listed(map(repr, nearest_first(missing[0], names)))}."
            )

    def with_decimal(self, decimal: Decimal | None) -> "Schema":
        """The same columns of another table, whose numbers are written with another decimal mark."""
        if decimal is None:
            return self
        columns = tuple(column.with_decimal(decimal) for column in self.columns)
        target = None if self.target is None else self.target.with_decimal(decimal)
        return dataclasses.replace(self, columns=columns, target=target)

    def encode(self, frame: pl.DataFrame, first_row: int = 1, *, impute: bool | None = None) -> np.ndarray:
        """Inputs of some rows, shape (rows, features), float64 and finite.

        Args:
            frame: columns as read.
            first_row: number of its first row, for messages.
            impute: whether missing and unknown cells are replaced, if not as the schema says.
        """
        impute = self.impute if impute is None else impute
        return self.complete(self.matrix(frame, first_row, impute=impute), first_row, impute=impute)

    def matrix(self, frame: pl.DataFrame, first_row: int = 1, *, impute: bool) -> np.ndarray:
        """Inputs of some rows with NaN for what is missing."""
        parts = []
        for column in self.columns:
            cells = clean(frame[column.name])
            if column.kind == "number":
                parts.append(numbers(column, cells, first_row)[:, None])
            else:
                parts.append(one_hot(column, cells, first_row, impute=impute))
        return np.concatenate(parts, axis=1)

    def complete(self, x: np.ndarray, first_row: int = 1, *, impute: bool) -> np.ndarray:
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
                complaints.append(f"column {column.name!r} in {rows_text(np.flatnonzero(missing) + first_row)}")
        if complaints:
            raise TableError(
                f"missing values: {listed(complaints, ';')}. Fill them in, leave those rows out, or replace them.",
                ("impute", None),
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


def _column_from_json(facts: dict[str, Any]) -> Column:
    return Column(facts["name"], facts["kind"], tuple(facts["levels"]), facts["fill"], NumberFormat(**facts["format"]))


def _filled(column: Column) -> Any:
    if column.kind == "number":
        return column.fill
    return np.asarray([level == column.fill for level in column.levels], dtype=np.float64)
