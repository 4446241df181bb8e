"""Widths of models that have several: they grow in fixed proportions."""

from typing import Any

from widetail.checks import check_count
from widetail.widening._models import Width


def check_widths(widths: Any) -> Width:
    """The proportions of the widths: 1 for single numbers."""
    expected = "widths must be two or more different widths, ascending"
    if not isinstance(widths, (tuple, list)) or len(widths) < 2:
        raise ValueError(f"{expected}; got {widths!r}.")
    numbers = [width if isinstance(width, (tuple, list)) else (width,) for width in widths]
    for number in [number for width in numbers for number in width]:
        check_count("widths", number)
    first = [width[0] if width else 0 for width in numbers]
    if len({len(width) for width in numbers}) > 1 or sorted(set(first)) != first:
        raise ValueError(f"{expected}; got {widths!r}.")
    if not all(in_proportion(width, numbers[0]) for width in numbers):
        raise ValueError(f"{expected}, each of several numbers in the same proportions; got {widths!r}.")
    return tuple(widths[0]) if isinstance(widths[0], (tuple, list)) else 1


def in_proportion(one: Any, other: Any) -> bool:
    """Whether one is a multiple of the other."""
    return all(a * other[0] == b * one[0] for a, b in zip(one, other, strict=True))


def times(width: Width, factor: int) -> Any:
    """A multiple of a width."""
    return width * factor if isinstance(width, int) else tuple(number * factor for number in width)
