"""Which rows speak for which, and where an interval ends once every row has spoken."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

# floor(0.1 * 10) is to be 1 although 1 - 0.9 is below 0.1
ROUNDING = 1e-9

Groups = tuple[Any, Any]  # labels of the observed rows, and of the new ones


def check_coverage(coverage: float) -> float:
    """A probability strictly between 0 and 1."""
    value = np.asarray(coverage)
    if value.ndim or not np.issubdtype(value.dtype, np.number) or not 0 < value < 1:
        raise ValueError(f"coverage must be one number strictly between 0 and 1, such as 0.9; got {coverage!r}.")
    return float(value)


def rows_to_leave_out(coverage: float, observations: float) -> int:
    """How many of so many observations an interval may leave on one side; 0 if it has to be infinite."""
    return int(np.floor((1 - coverage) * (observations + 1) + ROUNDING))


def fewest_rows(coverage: float) -> int:
    """Observations below which nothing but an infinite interval has this coverage."""
    return int(np.ceil(1 / (1 - coverage) - 1 - ROUNDING))


class Rows:
    """Observed rows, how often each was, and which of them speak for which new row."""

    def __init__(self, n: int, m: int, counts: np.ndarray | None, groups: Groups | None):
        self.counts = np.ones(n) if counts is None else counts
        self.new = np.zeros(m, dtype=np.intp)
        self.old = np.zeros(n, dtype=np.intp)
        self.names: np.ndarray | None = None
        if groups is not None:
            old, new = _labels(groups, n, m)
            self.names, which = np.unique(np.concatenate([old, new]), return_inverse=True)
            self.old, self.new = which[:n], which[n:]

    def warn_of_few(self, coverage: float) -> None:
        """Name the groups whose intervals will be infinite."""
        need = fewest_rows(coverage)
        asked, have = (
            np.unique(self.new),
            np.bincount(self.old, self.counts, minlength=int(self.new.max(initial=0)) + 1),
        )
        few = [group for group in asked if rows_to_leave_out(coverage, float(have[group])) < 1]
        if not few:
            return
        if self.names is None:
            found = f"there are {have[0]:g} rows"
        else:
            named = ", ".join(f"{self.names[group].item()!r} has {have[group]:g}" for group in few[:3])
            found = f"of the groups, {named}" + (f", and {len(few) - 3} more have too few" if len(few) > 3 else "")
        warnings.warn(
            f"coverage={coverage:g} needs {need} observed rows at least, and {found}: no finite interval can have the "
            f"guarantee, so these are infinite. Ask for less coverage"
            f"{'' if self.names is None else ', or join groups'}.",
            stacklevel=4,
        )

    def ends(self, lower: np.ndarray, upper: np.ndarray, coverage: float, part: slice) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the intervals of some new rows, shapes (m,), from what every observed row says of them, (n, m)."""
        low, high = np.full(lower.shape[1], -np.inf), np.full(lower.shape[1], np.inf)
        for group, columns in _places(self.new[part]):
            rows = np.flatnonzero(self.old == group)
            leave = rows_to_leave_out(coverage, float(np.sum(self.counts[rows])))
            if leave:
                inside = np.ix_(rows, columns)
                low[columns] = -_largest_but(-lower[inside], self.counts[rows], leave)
                high[columns] = _largest_but(upper[inside], self.counts[rows], leave)
        return low, high


def in_parts(
    m: int, size: int, work: Callable[[slice], tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """Intervals of m new rows, some at a time: what every row says of every other would fill the memory."""
    parts = [work(slice(start, min(start + size, m))) for start in range(0, m, size)]
    lower, upper = zip(*parts, strict=True)
    return np.concatenate(lower), np.concatenate(upper)


def _places(groups: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    for group in np.unique(groups):
        yield int(group), np.flatnonzero(groups == group)


def _largest_but(values: np.ndarray, counts: np.ndarray, leave: int) -> np.ndarray:
    """The `leave`-th largest value of every column, rows counting as often as they were observed."""
    if np.all(counts == 1):
        return np.partition(values, len(values) - leave, axis=0)[len(values) - leave]
    order = np.argsort(-values, axis=0, kind="stable")
    seen = np.cumsum(counts[order], axis=0)
    place = np.argmax(seen >= leave - ROUNDING * leave, axis=0)
    columns = np.arange(values.shape[1])
    return values[order[place, columns], columns]


def _labels(groups: Groups, n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(groups, tuple) or len(groups) != 2:
        raise ValueError(
            f"groups must be a pair, (labels of observed rows, labels of new rows); got {type(groups).__name__}."
        )
    old, new = (np.asarray(part) for part in groups)
    if old.shape != (n,) or new.shape != (m,):
        raise ValueError(
            f"groups must hold {n} labels of observed rows and {m} of new ones; got shapes {old.shape} and {new.shape}."
        )
    if (old.dtype.kind in "OSU") != (new.dtype.kind in "OSU"):
        raise ValueError(f"groups: labels must be of one type; got {old.dtype} and {new.dtype}.")
    for name, part in (("observed", old), ("new", new)):
        missing = np.array([value is None or value != value for value in part.tolist()], dtype=bool)
        if missing.any():
            raise ValueError(f"groups: {missing.sum()} of the {name} rows have no label; give them one of their own.")
    return old, new
