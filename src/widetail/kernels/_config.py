"""Kernels and networks as plain data, and back: no pickle, no code in a file."""

import dataclasses
import importlib
from typing import Any

import numpy as np

from widetail.kernels._base import Kernel

# Where a description may name classes from; a file cannot make anything else run.
ROOMS = ("widetail.nn", "widetail.kernels")


def to_config(kernel: Any) -> dict[str, Any]:
    """A description of JSON types: the class, and its fields.

    Raises:
        ValueError: the kernel holds a function of the user's own, which a file cannot carry.

    Example:
        >>> from widetail import nn
        >>> from widetail.kernels import from_config, to_config
        >>> net = nn.mlp(depth=1, activation="erf")
        >>> from_config(to_config(net)) == net
        True
    """
    if not isinstance(kernel, Kernel):
        raise ValueError(f"only networks and kernels of widetail can be saved; got {kernel!r}.")
    programs = importlib.import_module("widetail.programs._config")
    if isinstance(kernel, programs.Program):
        return programs.program_to_config(kernel)
    room = next((room for room in ROOMS if getattr(importlib.import_module(room), type(kernel).__name__, None)), None)
    if room is None:
        raise ValueError(f"{type(kernel).__name__} is not part of widetail, so it cannot be saved.")
    fields = {field.name: _plain(field.name, getattr(kernel, field.name)) for field in dataclasses.fields(kernel)}
    return {"room": room, "class": type(kernel).__name__, "fields": fields}


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Kernel):
        return to_config(value)
    if name == "layers":
        return [to_config(layer) for layer in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, tuple):
        return {"tuple": [_plain(name, entry) for entry in value]}
    if hasattr(value, "dtype"):
        array = np.asarray(value, dtype=np.float64)
        return float(array) if array.ndim == 0 else {"array": array.tolist()}
    raise ValueError(
        f"{name}={value!r} cannot be saved: a file holds numbers, not functions. "
        f"Use an activation of widetail, such as nn.Tanh(), in its place."
    )


def from_config(config: Any) -> Kernel:
    """The kernel or network that `to_config` described; a ValueError for anything else."""
    try:
        if "program" in config:
            return importlib.import_module("widetail.programs._config").program_from_config(config)
        room, name, fields = config["room"], config["class"], config["fields"]
        if room not in ROOMS:
            raise ValueError(f"unknown room {room!r}")
        kind = getattr(importlib.import_module(room), name, None)
        if not (isinstance(kind, type) and issubclass(kind, Kernel)):
            raise ValueError(f"{room} has no kernel or layer called {name!r}")
        if set(fields) - {field.name for field in dataclasses.fields(kind)}:
            raise ValueError(f"{name} has no fields {sorted(fields)}")
        arguments = {key: _value(value) for key, value in fields.items() if key != "layers"}
        layers = [from_config(layer) for layer in fields.get("layers", [])]
        return kind(*layers, **arguments)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is not the description of a network: {error!r}") from None


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        if "tuple" in value:
            return tuple(_value(entry) for entry in value["tuple"])
        if "array" in value:
            return np.asarray(value["array"], dtype=np.float64)
        return from_config(value)
    return value
