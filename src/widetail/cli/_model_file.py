"""A fitted model and what is known of its table, in one file that `wt.load` opens as well."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from widetail.cli._errors import CommandError

# The name of the note beside the model.
TABLE = "table"


@dataclass(frozen=True)
class TableModel:
    """An estimator and the columns that it was fitted to.

    Attributes:
        estimator: as `wt.load` gives it.
        schema: columns, categories and the target.
        facts: what `fit` learned and an estimator does not keep in its file.
    """

    estimator: Any
    schema: Any  # a widetail.tables.Schema, which loads polars
    facts: dict[str, Any]

    def reading(self, decimal: Literal[".", ","] | None) -> "TableModel":
        """The same model for a table with another decimal mark."""
        return replace(self, schema=self.schema.with_decimal(decimal))

    def save(self, path: Path) -> None:
        """Write all of it, whole or not at all."""
        from widetail.estimators import save

        # for frames in Python; the commands put columns in order themselves
        self.estimator.feature_names_in_ = np.array(self.schema.features, dtype=object)
        save(self.estimator, path, {TABLE: {"schema": self.schema.to_json(), "facts": self.facts}})


def load_model(path: Path) -> TableModel:
    """Read a model that `widetail fit` wrote."""
    if path.is_dir():
        raise CommandError(f"{str(path)!r} is a folder; name the file that `widetail fit` wrote.")
    if not path.is_file():
        raise CommandError(f"there is no model {str(path)!r}; `widetail fit` makes one.")
    from widetail.estimators import load_with_metadata
    from widetail.files import damage_named
    from widetail.tables import Schema

    estimator, metadata = load_with_metadata(path)
    if TABLE not in metadata:
        raise CommandError(
            f"{str(path)!r} was saved in Python, so the names of its columns are unknown; use wt.load there."
        )
    with damage_named(path, "model of a table"):
        table = metadata[TABLE]
        described = table["schema"]
        if isinstance(described["target"], str):
            described = _with_formats(described, estimator)
        vars(estimator).pop("feature_names_in_", None)  # the commands predict from matrices, which have no names
        model = TableModel(estimator, Schema.from_json(described), table["facts"])
    for column in (*model.schema.columns, model.schema.target):
        if len(set(column.levels)) < len(column.levels):
            raise CommandError(
                f"{str(path)!r} keeps apart categories of {column.name!r} that differ in spaces only, which widetail "
                f"does not do any more; fit the model again."
            )
    return model


def _with_formats(schema: dict[str, Any], estimator: Any) -> dict[str, Any]:
    """The schema of a model that was written when all numbers were plain, and spaces around categories counted."""
    columns = [column | {"levels": [level.strip() for level in column["levels"]]} for column in schema["columns"]]
    for column in columns:
        column["format"] = {}
        if column["kind"] == "category":
            column["fill"] = column["fill"].strip()
    target = {"name": schema["target"], "kind": "number", "levels": [], "fill": None, "format": {}}
    if schema["task"] == "classification":
        estimator.classes_ = np.array([label.strip() for label in estimator.classes_.tolist()])
        target |= {"kind": "category", "levels": estimator.classes_.tolist()}
    return {"columns": columns, "target": target, "impute": schema["impute"]}
