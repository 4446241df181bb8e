"""Models of tables that earlier versions wrote: a feature for every category, and a fill for what is missing."""

from pathlib import Path
from typing import Any

import numpy as np

from widetail.cli._errors import CommandError
from widetail.tables import Column, Encoded, JointNormal, NumberFormat, TableEncoder, cells_of, level_key


class FilledTable(TableEncoder):
    """The columns of such a model: medians and most frequent categories in place of missing and unknown cells."""

    def __init__(self, columns: tuple[Column, ...] = (), fills: tuple[Any, ...] = ()):
        super().__init__(standardise=False)
        self.columns_, self.fills = columns, fills
        self.left_out_, self.remarks_, self.has_gaps_ = {}, (), False
        self.names_ = tuple(column.name for column in columns)
        self.feature_names_in_ = np.array(self.names_, dtype=object)
        self.n_features_in_ = len(columns)
        size = len(self.places_)
        self.shift_, self.factor_ = np.zeros(size), np.ones(size)
        self.law_ = JointNormal(np.zeros(size), np.eye(size))

    @property
    def is_plain_(self) -> bool:
        return True

    def with_decimal(self, decimal: Any) -> "FilledTable":
        columns = tuple(column.with_decimal(decimal) for column in self.columns_)
        return FilledTable(columns, self.fills)

    def transform(self, X: Any, first_row: int = 1) -> np.ndarray:
        if isinstance(X, Encoded):
            return X.values
        columns, parts = self._columns_like_first(X), []
        for column, fill in zip(self.columns_, self.fills, strict=True):
            features, is_new = column.read(cells_of(column.name, columns[column.name], first_row), first_row)
            if column.kind == "category":
                features = (features > 0) * 1.0 + 0.0 * features  # NaN stays
                filled = np.array([level_key(level) == level_key(fill) for level in column.levels], dtype=np.float64)
            else:
                filled = np.array([fill], dtype=np.float64)
            features[np.isnan(features[:, 0]) | is_new] = filled
            parts.append(features)
        return np.concatenate(parts, axis=1)


def earlier_model(estimator: Any, schema: dict[str, Any], path: Path) -> tuple[Any, Column]:
    """The estimator with its table, and the target, from the description that such a file has of both."""
    target = schema["target"]
    if isinstance(target, str):  # when all numbers were plain, and spaces around categories counted
        is_number = schema["task"] == "regression"
        labels = [] if is_number else [label.strip() for label in estimator.classes_.tolist()]
        target = {"name": target, "kind": "number" if is_number else "category", "levels": labels}
    columns = [_column(column, path) for column in schema["columns"]]
    fills = [_stripped(column["fill"]) for column in schema["columns"]]
    goal = _column(target, path)
    if goal.kind == "category":
        estimator.classes_ = np.array(goal.levels)
    estimator.table_ = FilledTable(tuple(columns), tuple(fills))
    return estimator, goal


def _column(facts: dict[str, Any], path: Path) -> Column:
    levels = tuple(level.strip() for level in facts["levels"])
    if len(set(map(level_key, levels))) < len(levels):
        raise CommandError(
            f"{str(path)!r} keeps apart categories of {facts['name']!r} that differ in spaces or capitals only, which "
            f"widetail does not do any more; fit the model again."
        )
    return Column(facts["name"], facts["kind"], levels, NumberFormat(**facts.get("format", {})))


def _stripped(fill: Any) -> Any:
    return fill.strip() if isinstance(fill, str) else fill
