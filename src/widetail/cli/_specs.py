"""Priors and networks as they are written on the command line."""

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from widetail.cli._errors import UsageError

Value = int | float | bool | str


class Call(NamedTuple):
    """A name with its arguments, as written."""

    name: str
    positional: list[Value]
    named: dict[str, Value]


def parse_call(option: str, text: str) -> Call:
    """Read `name(value, key=value)`: names and numbers, nothing that could run."""
    try:
        # names may have dashes, which Python would take for differences
        tree = ast.parse(re.sub(r"(?<=[A-Za-z])-(?=[A-Za-z])", "_", text.strip()), mode="eval").body
        if isinstance(tree, ast.Name):
            return Call(tree.id, [], {})
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
            raise ValueError("a name is expected" if not text.strip() else "it is not a name with arguments")
        if len({entry.arg for entry in tree.keywords}) < len(tree.keywords):
            raise ValueError("an argument is given twice")
        named = {str(entry.arg): _value(entry.value) for entry in tree.keywords}
        return Call(tree.func.id, [_value(entry) for entry in tree.args], named)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        complaint = error.msg if isinstance(error, SyntaxError) else str(error)
        raise UsageError(f"{option} {text!r}: {complaint}; write it like name(1.5, key=2).") from None


def _value(node: ast.expr) -> Value:
    if isinstance(node, ast.Name):
        return {"true": True, "false": False}.get(node.id.lower(), node.id)
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = None
    if not isinstance(value, (int, float)):
        raise ValueError(f"{ast.unparse(node)!r} is neither a name nor a number")
    return value


def parse_prior(text: str) -> Any:
    """A prior of the readout variance from `inverse-gamma(2, 2)` and the like."""
    import widetail as wt

    families = (wt.InverseGamma, wt.BurrXII, wt.LogNormal, wt.Gamma, wt.HalfCauchy, wt.BetaPrime)
    families += (wt.Contaminated, wt.PointMass)
    names = {_dashed(family.__name__): family for family in families}
    return _build("--prior", parse_call("--prior", text), names)


def parse_net(text: str) -> Callable[[int], Any]:
    """A network from `mlp(depth=3, activation=erf)` and the like, as a function of the number of input features.

    What is written is checked at once; features count only for `ard=true`, one prior variance per feature.
    """
    from widetail import kernels, nn

    call = parse_call("--net", text)

    def make(features: int) -> Any:
        builders = {
            "mlp": _mlp(features),
            "resnet": nn.resnet,
            "cnn": nn.cnn,
            "rbf": kernels.RBF,
            "matern": kernels.Matern,
        }
        return _build("--net", call, builders)

    make(1)
    return make


def _mlp(features: int) -> Any:
    import numpy as np

    from widetail import nn

    def mlp(
        depth: int = 2, activation: str = "relu", weight_var: float = 2.0, bias_var: float = 0.1, ard: bool = False
    ) -> Any:
        first = np.full(features, weight_var) if ard else weight_var
        return nn.mlp(depth, activation, weight_var=first, bias_var=bias_var)

    return mlp


def _build(option: str, call: Call, makers: Mapping[str, Any]) -> Any:
    by_key = {_key(name): (name, maker) for name, maker in makers.items()}
    if _key(call.name) not in by_key:
        raise UsageError(
            f"{option}: nothing is called {call.name.replace('_', '-')!r}; possible are {_listing(makers)}."
        )
    name, maker = by_key[_key(call.name)]
    signature = inspect.signature(maker)
    try:
        bound = signature.bind(*call.positional, **call.named)
    except TypeError as error:
        raise UsageError(f"{option} {name}: {error}; it is written {_shape(name, maker)}.") from None
    arguments = {key: _as_default(value, signature.parameters[key].default) for key, value in bound.arguments.items()}
    try:
        return maker(**arguments)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{option} {name}: {error}") from None


def _as_default(value: Value, default: Any) -> Any:
    """Whole numbers where a real one is expected; the words of the grammar are plain strings."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if is_whole and (default is inspect.Parameter.empty or isinstance(default, float)) else value


def _listing(makers: Mapping[str, Any]) -> str:
    return ", ".join(_shape(name, maker) for name, maker in makers.items())


def _shape(name: str, maker: Any) -> str:
    entries = []
    for key, parameter in inspect.signature(maker).parameters.items():
        has_default = parameter.default is not inspect.Parameter.empty
        entries.append(f"{key}={str(parameter.default).lower()}" if has_default else key)
    return f"{name}({', '.join(entries)})"


def _key(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _dashed(name: str) -> str:
    """InverseGamma as inverse-gamma, BurrXII as burr-xii."""
    return "".join(
        f"-{letter.lower()}" if letter.isupper() and place and name[place - 1].islower() else letter.lower()
        for place, letter in enumerate(name)
    )
