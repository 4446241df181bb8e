"""A fitted model and what is known of its table, in one file that `wt.load` opens as well."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from widetail.cli._errors import CommandError

# The name of the note beside the model.
TABLE = "table"


@dataclass(frozen=True)
class TableModel:
    """An estimator and the column that it predicts.

    Attributes:
        estimator: as `wt.load` gives it; it takes frames.
        target: a widetail.tables.Column: a number, or a category whose levels are the classes.
        facts: what `fit` learned and an estimator does not keep in its file.
    """

    estimator: Any
    target: Any
    facts: dict[str, Any]

    @property
    def task(self) -> Literal["regression", "classification"]:
        """What kind of prediction that is."""
        from widetail.tables import task_of

        return task_of(self.target)

    @property
    def features(self) -> list[str]:
        """Names of the numbers that the columns become."""
        return [name for group in self.estimator.table_.groups_ for name in group.features]

    def reading(self, decimal: Literal[".", ","] | None) -> "TableModel":
        """The same model for a table with another decimal mark."""
        if decimal is None:
            return self
        self.estimator.table_ = self.estimator.table_.with_decimal(decimal)
        return replace(self, target=self.target.with_decimal(decimal))

    def encoded(self, frame: Any, first_row: int) -> Any:
        """Rows of a table as the estimator takes them, encoded once for all that is asked of it.

        Args:
            frame: columns as read.
            first_row: number of its first row, for messages.
        """
        from widetail.tables import Encoded

        return Encoded(self.estimator.table_.transform(frame, first_row))

    def save(self, path: Path) -> None:
        """Write all of it, whole or not at all."""
        from widetail.estimators import save
        from widetail.files import to_config

        save(self.estimator, path, {TABLE: {"target": to_config(self.target), "facts": self.facts}})


def load_model(path: Path) -> TableModel:
    """Read a model that `widetail fit` wrote."""
    if path.is_dir():
        raise CommandError(f"{str(path)!r} is a folder; name the file that `widetail fit` wrote.")
    if not path.is_file():
        raise CommandError(f"there is no model {str(path)!r}; `widetail fit` makes one.")
    from widetail.estimators import load_with_metadata
    from widetail.files import damage_named, from_config
    from widetail.tables import Column

    estimator, metadata = load_with_metadata(path)
    if TABLE not in metadata:
        raise CommandError(
            f"{str(path)!r} was saved in Python, so the names of its columns are unknown; use wt.load there."
        )
    with damage_named(path, "model of a table"):
        table = metadata[TABLE]
        if "schema" in table:
            from widetail.cli._earlier import earlier_model

            return TableModel(*earlier_model(estimator, table["schema"], path), table["facts"])
        target = from_config(table["target"], expected=Column)
        if estimator.table_ is None:
            raise ValueError("it does not know its columns")
        return TableModel(estimator, target, table["facts"])


def check_names(model: TableModel, table: Any, *, with_target: bool = False) -> None:
    """Refuse a table in which a column is missing; further columns do no harm."""
    from widetail.tables import TableError, listed, nearest_first

    wanted = [column.name for column in (*model.estimator.table_.columns_, *([model.target] if with_target else []))]
    missing = [name for name in wanted if name not in table.columns]
    if missing:
        raise TableError(
            f"the table lacks {listed(map(repr, missing))}, which the model was fitted with; it has "
            f"{listed(map(repr, nearest_first(missing[0], table.columns)))}."
        )
