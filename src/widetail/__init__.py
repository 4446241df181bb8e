"""Infinitely wide Bayesian neural networks with heavy tails.

The public names are listed in `_names.py`. They are loaded when the first of them is used, so that `widetail --help`
and reading the version do not wait for JAX and scikit-learn.
"""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from widetail._names import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'widetail' has no attribute {name!r}")
    # a room by itself: rooms import each other while `_names` waits for all of them
    if not name.startswith("_") and importlib.util.find_spec(f"widetail.{name}") is not None:
        return importlib.import_module(f"widetail.{name}")
    names = importlib.import_module("widetail._names")
    try:
        value = getattr(names, name)
    except AttributeError:
        raise AttributeError(f"module 'widetail' has no attribute {name!r}") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    names = importlib.import_module("widetail._names")
    return sorted(name for name in vars(names) if not name.startswith("_"))
