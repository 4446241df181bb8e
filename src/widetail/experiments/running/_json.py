"""Configurations and results as plain JSON values."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from widetail.priors import ScalePrior


def as_json(value: Any) -> Any:
    """Dataclasses, priors, tuples and NumPy numbers as what JSON knows; NaN and infinities become null.

    Example:
        >>> import numpy as np
        >>> as_json({"nll": np.float64(1.5), "widths": (16, 32), "crps": float("inf")})
        {'nll': 1.5, 'widths': [16, 32], 'crps': None}
    """
    if isinstance(value, ScalePrior):
        return value.to_config()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(entry) for key, entry in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return as_json(value.tolist())
    if isinstance(value, (list, tuple)):
        return [as_json(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{value!r} is of {type(value).__name__}, which a line of results cannot hold.")


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two plain configurations, one line each."""
    missing = "nothing"
    return [
        f"{name}: {old.get(name, missing)!r} there, {new.get(name, missing)!r} here"
        for name in dict.fromkeys([*old, *new])
        if old.get(name, missing) != new.get(name, missing)
    ]
