"""Counts: positive integers and the like."""

import numbers
from typing import Any


def check_count(name: str, value: Any, least: int = 1) -> int:
    """An integer of at least `least`, as a Python integer.

    Example:
        >>> import numpy as np
        >>> check_count("width", np.int64(64))
        64
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        expected = "a positive integer" if least == 1 else f"an integer of at least {least}"
        raise ValueError(f"{name} must be {expected}; got {value!r}.")
    return int(value)
