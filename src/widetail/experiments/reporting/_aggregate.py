"""Mean and standard error over seeds or splits."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

Rows = Sequence[Mapping[str, Any]]


class Summary(NamedTuple):
    """A mean, its standard error (NaN for fewer than two numbers), and how many numbers there were."""

    mean: float
    error: float
    size: int

    @property
    def is_clear(self) -> bool:
        """Whether the mean differs from zero by a t-test at 5 %, for independent numbers."""
        return self.size > 1 and abs(self.mean) > float(scipy.stats.t.ppf(0.975, self.size - 1)) * self.error


NOTHING = Summary(math.nan, math.nan, 0)


def summary(values: Sequence[float]) -> Summary:
    """Mean and standard error of independent numbers; the spread has n - 1 degrees of freedom.

    Example:
        >>> summary([1.0, 2.0, 3.0]).mean
        2.0
    """
    numbers = np.asarray(values, np.float64)
    if not numbers.size:
        return NOTHING
    error = numbers.std(ddof=1) / math.sqrt(numbers.size) if numbers.size > 1 else math.nan
    return Summary(float(numbers.mean()), float(error), numbers.size)


def summarise(rows: Rows, by: Sequence[str], value: str | Callable[[Any], Any]) -> dict[tuple[Any, ...], Summary]:
    """Group rows by the entries that `by` names, and summarise one number of each group.

    Args:
        rows: what the tasks found.
        by: names of the entries that make a group.
        value: name of the number, or a function of a row; rows where it is None are left out.
    """
    groups: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        found = value(row) if callable(value) else row.get(value)
        if found is not None:
            groups.setdefault(tuple(row[name] for name in by), []).append(float(found))
    return {key: summary(numbers) for key, numbers in groups.items()}


def paired_differences(
    rows: Rows, by: Sequence[str], pair: str, first: Any, second: Any, over: Sequence[str], value: str
) -> dict[tuple[Any, ...], Summary]:
    """Mean and standard error of value(first) - value(second), of rows that agree in everything else.

    Args:
        rows: what the tasks found.
        by: names of the entries that make a group.
        pair: name of the entry that is `first` or `second`, such as the model.
        first, second: its two values.
        over: names of the entries over which the mean is taken, such as the seed or the split.
        value: name of the number.
    """
    numbers = {
        (*(row[name] for name in (*by, *over)), row[pair]): row.get(value)
        for row in rows
        if row[pair] in (first, second)
    }
    groups: dict[tuple[Any, ...], list[float]] = {}
    for key, number in numbers.items():
        other = numbers.get((*key[:-1], second))
        if key[-1] == first and number is not None and other is not None:
            groups.setdefault(key[: len(by)], []).append(number - other)
    return {key: summary(found) for key, found in groups.items()}
