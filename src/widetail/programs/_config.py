"""Programs of the library as plain data, and back; a program of the user's own is code, which a file cannot carry."""

import importlib
from typing import Any

import numpy as np

from widetail import kernels, nn
from widetail.programs._functions import recognise
from widetail.programs._program import Program


def program_to_config(program: Program) -> dict[str, Any]:
    """A description of JSON types: the name in the library, settings, variances and accuracy."""
    library = importlib.import_module("widetail.programs.library")
    members = {name: getattr(library, name) for name in library.__all__}
    name = next((n for n, own in members.items() if isinstance(own, Program) and own.fn is program.fn), None)
    if name is None:
        raise ValueError(
            f"{program} cannot be saved: it is a function of your own, and a file holds no code. Keep the model in "
            f"memory, or save x, y and program.variances and fit again."
        )
    return {
        "program": name,
        "settings": {setting: _plain(setting, value) for setting, value in program.settings},
        "variances": {variable: np.asarray(value).tolist() for variable, value in program.variances.items()},
        "order": program.options.order,
        "degree": program.options.degree,
        "samples": program.options.samples,
    }


def program_from_config(config: dict[str, Any]) -> Program:
    """The program that `program_to_config` described; a ValueError for anything else."""
    library = importlib.import_module("widetail.programs.library")
    name = config["program"]
    made = getattr(library, name, None) if name in library.__all__ else None
    if not isinstance(made, Program):
        raise ValueError(f"widetail.programs has no program called {name!r}")
    made = made(**{setting: _value(value) for setting, value in config["settings"].items()})
    made = made.with_options(order=config["order"], degree=config.get("degree"), samples=config["samples"])
    return made.with_variances(**config["variances"])


def _plain(name: str, value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, tuple):
        return {"tuple": [_plain(name, entry) for entry in value]}
    activation = recognise(value) if callable(value) or isinstance(value, nn.Activation) else None
    if activation is None:
        raise ValueError(
            f"{name}={value!r} cannot be saved: a file holds numbers, not functions. "
            f"Use an activation of widetail, such as nn.Tanh(), in its place."
        )
    return {"activation": kernels.to_config(activation)}


def _value(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(_value(entry) for entry in value["tuple"])
    activation = kernels.from_config(value["activation"])
    if not isinstance(activation, nn.Activation):
        raise ValueError(f"{activation!r} is not an activation")
    return activation
