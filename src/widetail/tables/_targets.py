"""The column that is to be predicted: numbers, or labels of classes."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from widetail.tables._cells import cells_of, present_texts
from widetail.tables._columns import Column, level_key, numbers
from widetail.tables._detect import Detected, detect_columns, looks_measured
from widetail.tables._errors import TableError
from widetail.tables._words import listed, nearest_first, rows_text, shortened

Task = Literal["regression", "classification"]


class Goal(NamedTuple):
    """What a model predicts.

    Attributes:
        column: a number, or a category whose levels are the classes.
        values: numbers or labels, shape (n,).
        others: what the other columns of the table are.
    """

    column: Column
    values: np.ndarray
    others: Detected

    @property
    def task(self) -> Task:
        """What kind of prediction that is."""
        return task_of(self.column)


def task_of(target: Column) -> Task:
    """What kind of prediction a target asks for."""
    return "regression" if target.kind == "number" else "classification"


def detect_goal(
    columns: Mapping[str, Any],
    target: str,
    task: Task | None = None,
    *,
    categorical: Sequence[str] = (),
    **options: Any,
) -> Goal:
    """The target of a table, and what the other columns are, whose way to write numbers it shares.

    Args:
        columns: of the table by name, all rows.
        target: the name of one of them.
        task: None finds out: a target of texts is classified, one of numbers regressed.
        categorical, options: as of `detect_columns`.

    Example:
        >>> from widetail import tables
        >>> goal = tables.detect_goal({"a": ["0,5", "1", "2"], "price": ["1,250", "3,5", "4"]}, "price")
        >>> goal.task, goal.values.tolist()
        ('regression', [1.25, 3.5, 4.0])
    """
    cells = cells_of(target, columns[target])
    missing = np.flatnonzero(cells.is_missing)
    if len(missing):
        raise TableError(
            f"the target {target!r} is missing in {len(missing)} rows: {rows_text(missing + 1)}; leave those rows out."
        )
    is_text = task == "classification" or (task is None and (target in categorical or cells.is_category))
    if is_text:
        others = dict(columns)
        del others[target]
        found = detect_columns(others, categorical=[name for name in categorical if name != target], **options)
        return _classes(target, columns[target], found)
    try:
        found = detect_columns(
            columns, categorical=categorical, numeric=[target] if task == "regression" else [], **options
        )
    except TableError as error:
        if ("categorical", target) in error.remedies:  # a target of numbers, and one cell that is none
            what = error.problem.rsplit("; ", 1)[0]
            raise TableError(f"{what}; correct it, or leave the row out.") from None
        raise TableError(error.problem, *(one for one in error.remedies if one != ("drop", target))) from None
    goal = next((column for column in found.columns if column.name == target), None)
    left_out = {name: reason for name, reason in found.left_out.items() if name != target}
    found = Detected([column for column in found.columns if column.name != target], left_out, found.remarks)
    if goal is None or goal.kind == "category":
        if task is None and looks_measured(cells) and cells.kind == "text" and goal is not None:
            raise TableError(
                f"the target {target!r} holds numbers with something behind them, such as {cells.texts[0]!r}, which "
                f"cannot be regressed; leave units out, or say that they are names.",
                ("task", "classification"),
            )
        if cells.kind == "text" and len(cells.texts) > 1:
            return _classes(target, columns[target], found)
        raise TableError(f"the target {target!r} is {cells.to_list()[0]!r} in all rows; there is nothing to predict.")
    if goal.kind == "date":
        raise TableError(f"the target {target!r} holds dates; make a number of them, such as days since a start.")
    return Goal(goal, numbers(goal, cells), found)


def _classes(target: str, column: Any, others: Detected) -> Goal:
    texts = cells_of(target, column).as_texts()
    counts: dict[str, dict[str, int]] = {}
    for text in present_texts(texts):
        ways = counts.setdefault(level_key(text), {})
        ways[text] = ways.get(text, 0) + 1
    written = {key: min(ways, key=lambda text: (-ways[text], text)) for key, ways in counts.items()}
    if len(written) < 2:
        only = next(iter(written.values()))
        raise TableError(f"the target {target!r} is {only!r} in all rows; two classes or more are needed.")
    goal = Column(target, "category", tuple(sorted(written.values())))
    return Goal(goal, read_labels(goal, column), others)


def read_numbers(target: Column, column: Any, first_row: int = 1) -> np.ndarray:
    """Numbers of the target in other rows, none of them missing."""
    y = numbers(target, cells_of(target.name, column), first_row)
    missing = np.flatnonzero(np.isnan(y))
    if len(missing):
        raise TableError(
            f"the target {target.name!r} is missing in {rows_text(missing + first_row)}; leave such rows out."
        )
    return y


def as_numbers(y: Any) -> Any:
    """Targets as they come: texts that are numbers as numbers, others as they are.

    Args:
        y: a column, shape (n,); anything without a text or a missing cell is returned unchanged.

    Example:
        >>> from widetail import tables
        >>> tables.as_numbers(["88,700", "91,250.5"]).tolist()
        [88700.0, 91250.5]
    """
    array = np.asarray(y)
    if array.ndim != 1 or array.dtype.kind not in "OUT":
        return y
    cells = array.tolist()
    if not any(isinstance(cell, str) or cell is None for cell in cells):
        return y
    name = str(getattr(y, "name", None) or "y")
    try:
        column = detect_columns({name: cells}, numeric=[name]).columns
    except TableError as error:  # what would help there are options of the command line
        raise TableError(f"{error.problem} Pass numbers instead of texts.") from None
    if not column:
        raise TableError(f"the target {name!r} is missing in all rows.")
    return read_numbers(column[0], cells)


def read_labels(target: Column, column: Any, first_row: int = 1) -> np.ndarray:
    """Labels of the target in other rows, written as its levels are."""
    written = {level_key(level): level for level in target.levels}
    texts = cells_of(target.name, column).to_list()
    for row, text in enumerate(texts, first_row):
        if text is None:
            raise TableError(f"the target {target.name!r} is missing in row {row}; leave such rows out.")
        if level_key(text) not in written:
            known = listed(map(repr, nearest_first(text, list(target.levels))))
            raise TableError(
                f"the target of row {row} is {shortened(text)}, which the model has not seen; it knows {known}."
            )
    return np.array([written[level_key(str(text))] for text in texts])
