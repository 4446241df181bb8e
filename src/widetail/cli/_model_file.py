"""A fitted model and what is known of its table, in one file that `wt.load` opens as well."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from widetail.cli._errors import CommandError
from widetail.files import whole_file

# Beside "widetail", which the library itself writes, among the metadata of the safetensors file.
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
        import safetensors
        import safetensors.numpy

        with whole_file(path) as temporary:
            self.estimator.save(temporary)
            with safetensors.safe_open(temporary, framework="numpy") as file:
                metadata = dict(file.metadata())
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata[TABLE] = json.dumps({"schema": self.schema.to_json(), "facts": self.facts})
            temporary.write_bytes(safetensors.numpy.save(tensors, metadata=metadata))


def load_model(path: Path) -> TableModel:
    """Read a model that `widetail fit` wrote."""
    if not path.is_file():
        raise CommandError(f"there is no model {str(path)!r}; `widetail fit` makes one.")
    import safetensors

    import widetail as wt
    from widetail.tables import Schema

    estimator = wt.load(path)
    with safetensors.safe_open(path, framework="numpy") as file:
        described = (file.metadata() or {}).get(TABLE)
    if described is None:
        raise CommandError(
            f"{str(path)!r} was saved in Python, so the names of its columns are unknown; use wt.load there."
        )
    try:
        table = json.loads(described)
        return TableModel(estimator, Schema.from_json(table["schema"]), table["facts"])
    except (KeyError, TypeError, ValueError) as error:
        raise CommandError(
            f"{str(path)!r} is damaged or of an older version: what it says of its table cannot be read "
            f"({error!r}); fit it again."
        ) from None
