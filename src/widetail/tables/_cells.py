"""Columns of any frame (pandas, polars, NumPy) as numbers, dates or texts, with what is missing marked.

Nothing here imports a library of frames: a frame brings its own methods.
"""

import datetime
import decimal
import numbers
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from widetail.tables._errors import CellTypeError, TableError
from widetail.tables._words import shortened

# Texts that stand for no value; all others are taken at their word.
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>", "NaT")
DAY = 86400.0
EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Cells:
    """One column as it came.

    Attributes:
        name: of the column.
        kind: what the cells are.
        values: numbers, or days since 1970 of dates, NaN where missing; of texts the place in `texts`, -1 where
            missing.
        texts: the different texts, in order of appearance, without spaces around them.
        is_category: whether the frame itself says that they are categories.
    """

    name: str
    kind: Literal["number", "date", "text"]
    values: np.ndarray
    texts: tuple[str, ...] = ()
    is_category: bool = False

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_missing(self) -> np.ndarray:
        """Booleans (n,)."""
        return self.values < 0 if self.kind == "text" else np.isnan(self.values)

    def as_texts(self) -> "Cells":
        """The same cells as texts, whole numbers without a point, dates as 2024-02-29."""
        if self.kind == "text":
            return self
        write = label if self.kind == "number" else written_date
        different, places = np.unique(self.values, return_inverse=True)  # NaN is the last one
        known = different[~np.isnan(different)]
        codes = np.where(np.isnan(self.values), -1, places)
        return Cells(self.name, "text", codes, tuple(write(value) for value in known), self.is_category)

    def to_list(self) -> list[str | None]:
        """Texts, None for missing."""
        as_texts = self.as_texts()
        return [None if place < 0 else as_texts.texts[place] for place in as_texts.values]


def is_frame(data: Any) -> bool:
    """Whether something has named columns: a frame of pandas or polars."""
    return hasattr(data, "shape") and hasattr(data, "dtypes") and hasattr(data, "columns")


def columns_of(data: Any) -> dict[str, Any]:
    """The columns of a frame or of an array (n, d) by name, none of them read yet.

    Columns of an array are called x0, x1, ...

    Example:
        >>> import numpy as np
        >>> from widetail import tables
        >>> list(tables.columns_of(np.zeros((3, 2))))
        ['x0', 'x1']
    """
    if is_frame(data):
        names = [str(name) for name in data.columns]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise TableError(f"two columns are called {shortened(twice[0])}; rename one of them.")
        get = data.iloc.__getitem__ if hasattr(data, "iloc") else None
        return {
            name: data[column] if get is None else get((slice(None), place))
            for place, (name, column) in enumerate(zip(names, data.columns, strict=True))
        }
    if hasattr(data, "collect"):
        raise TableError("this is a query, not a table yet; call .collect() on it.")
    array = np.asarray(data)
    if array.ndim != 2:
        raise TableError(f"a table has rows and columns, shape (n, d); got an array of shape {array.shape}.")
    return {f"x{place}": array[:, place] for place in range(array.shape[1])}


def cells_of(name: str, column: Any, first_row: int = 1) -> Cells:
    """One column, read.

    Args:
        name: for messages.
        column: a series of pandas or polars, an array, or a list.
        first_row: number of its first row, for messages.

    Example:
        >>> from widetail import tables
        >>> tables.cells_of("quality", ["good ", None, "bad", "good"]).to_list()
        ['good', None, 'bad', 'good']
    """
    kind = str(getattr(column, "dtype", "")).lower()
    is_category = kind.startswith(("categor", "enum"))
    if is_category and hasattr(column, "astype"):
        column = column.astype(object)  # of pandas
    values = column.to_numpy() if hasattr(column, "to_numpy") else column
    array = values if isinstance(values, np.ndarray) else np.array(list(values), dtype=object)
    if array.dtype.kind in "biuf" and not is_category:
        return Cells(name, "number", array.astype(np.float64))
    if array.dtype.kind == "M":
        return Cells(name, "date", _days(array))
    if array.dtype.kind == "m":
        return Cells(name, "number", _days(array))
    if array.dtype.kind in "OUT" or is_category:
        return _from_objects(name, array.tolist(), is_category, first_row)
    raise TableError(f"column {name!r} is of type {array.dtype}, of which a model makes nothing.", ("drop", name))


def _days(moments: np.ndarray) -> np.ndarray:
    unit = np.datetime64(0, "s") if moments.dtype.kind == "M" else np.timedelta64(0, "s")
    seconds = (moments - unit) / np.timedelta64(1, "s")  # NaN for NaT
    return seconds / DAY


def _from_objects(name: str, values: list[Any], is_category: bool, first_row: int) -> Cells:
    """Python objects: all numbers, all dates, or texts."""
    values = [None if _is_missing(value) else value for value in values]
    present = [value for value in values if value is not None]
    if not is_category and present:
        if all(isinstance(value, (numbers.Real, decimal.Decimal)) for value in present):
            return Cells(name, "number", np.array([np.nan if v is None else float(v) for v in values]))
        if all(isinstance(value, (datetime.date, np.datetime64)) for value in present):
            return Cells(name, "date", np.array([np.nan if v is None else day_of(v) for v in values]))
        if all(isinstance(value, (datetime.timedelta, np.timedelta64)) for value in present):
            return Cells(name, "number", _days(np.array([np.timedelta64("NaT") if v is None else v for v in values])))
    places: dict[str, int] = {}
    codes = np.full(len(values), -1, dtype=np.int64)
    for row, value in enumerate(values):
        if value is not None:
            text = _text_of(name, value, first_row + row)
            if text not in MISSING:
                codes[row] = places.setdefault(text, len(places))
    return Cells(name, "text", codes, tuple(places), is_category)


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    try:
        return bool(value != value)  # NaN and NaT
    except (TypeError, ValueError):
        return False


def _text_of(name: str, value: Any, row: int) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (numbers.Real, decimal.Decimal)):
        return label(float(value))
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    raise CellTypeError(
        f"column {name!r} holds a {type(value).__name__} in row {row}; every cell of the argument must be a date, a "
        f"string or a number."
    )


def label(value: float) -> str:
    """A number as a text, whole ones without a point."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def day_of(moment: Any) -> float:
    """Days since 1970; of a moment in a time zone in UTC."""
    if isinstance(moment, np.datetime64):
        return float(_days(np.array([moment]))[0])
    if not isinstance(moment, datetime.datetime):
        return float((datetime.datetime(moment.year, moment.month, moment.day) - EPOCH).days)
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return (moment - EPOCH).total_seconds() / DAY


def written_date(day: float) -> str:
    """A day since 1970 as 2024-02-29, with the time where there is one."""
    moment = np.datetime64(round(day * DAY), "s")
    text = str(moment)
    return text[:10] if text.endswith("T00:00:00") else text.replace("T", " ")


def present_texts(cells: Cells) -> list[str]:
    """Every text that occurs, as often as it does, in order."""
    return [cells.texts[place] for place in cells.values if place >= 0]
