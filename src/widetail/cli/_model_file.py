"""A fitted model and what is known of its table, in one file that `wt.load` opens as well."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

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

        save(self.estimator, path, {TABLE: {"schema": self.schema.to_json(), "facts": self.facts}})


def load_model(path: Path) -> TableModel:
    """Read a model that `widetail fit` wrote."""
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
        return TableModel(estimator, Schema.from_json(table["schema"]), table["facts"])
