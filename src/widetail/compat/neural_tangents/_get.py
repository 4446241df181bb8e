"""The argument `get` of kernel functions: one name gives an array, several give a named tuple, None everything."""

import collections
import functools
import inspect
from collections.abc import Callable
from types import GeneratorType
from typing import Any


def canonical_get(get: Any) -> tuple[bool, tuple[str, ...] | None]:
    """Whether one thing was asked for, and the names of what was."""
    if get is None:
        return True, None
    if not get:
        raise ValueError("get must name at least one thing, such as 'nngp' or ('nngp', 'ntk'); got nothing.")
    is_single = isinstance(get, str)
    names = tuple(name.lower() for name in ((get,) if is_single else get))
    if len(set(names)) < len(names):
        raise ValueError(f"get must name everything once; got {get!r}.")
    return is_single, names


@functools.lru_cache(None)
def tuple_class(name: str, fields: tuple[str, ...]) -> Any:
    """One class per name and fields, so that compiled functions recognise it."""
    return collections.namedtuple(name, fields)


def with_get(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function that returns a kernel or a dictionary answer in the form that `get` asks for."""

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(fn)

        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            is_single, names = canonical_get(bound.arguments["get"])
            bound.arguments["get"] = names
            return _answer(fn(*bound.args, **bound.kwargs), name, is_single, names)

        return wrapped

    return decorate


def _answer(out: Any, name: str, is_single: bool, names: tuple[str, ...] | None) -> Any:
    if type(out) in (list, tuple):
        return type(out)(_answer(one, name, is_single, names) for one in out)
    if isinstance(out, GeneratorType):
        return (_answer(one, name, is_single, names) for one in out)
    if names is None:
        return tuple_class(name, tuple(out))(*out.values()) if isinstance(out, dict) else out
    values = out if isinstance(out, dict) else out._asdict() if hasattr(out, "_asdict") else out.asdict()
    for one in names:
        if one not in values:
            raise ValueError(f"get must name some of {', '.join(values)}; got {one!r}.")
    return values[names[0]] if is_single else tuple_class(name, names)(*(values[one] for one in names))
