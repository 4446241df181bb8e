"""Which classes a file may name, and objects as plain data and back: no pickle, no code in a file.

A class registers itself with `savable` and a name that later versions keep. What `to_config` writes holds numbers,
texts and names of registered classes only, and `from_config` builds everything with the constructors of those classes,
which check what they are given. The rooms below know nothing of those above: a class is found by its name.
"""

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import numpy as np

MOST_OBJECTS = 10_000  # in one description
DEEPEST = 64  # objects inside of objects
MOST_LABEL_BYTES = 100_000_000  # of an array of texts, whose length a file says in a few bytes

T = TypeVar("T", bound=type)


class _Registered(NamedTuple):
    kind: type
    positional: str | None
    without: tuple[str, ...]
    renamed: dict[str, str]


_BY_NAME: dict[str, _Registered] = {}
_NAMES: dict[type, str] = {}


def savable(
    name: str,
    *,
    positional: str | None = None,
    without: tuple[str, ...] = (),
    renamed: dict[str, str] | None = None,
) -> Callable[[T], T]:
    """Register a class, so that files can hold its objects.

    A dataclass, an `eqx.Module` or a NamedTuple needs nothing else: its fields are written, and its constructor gets
    them back. Other classes, and those whose fields are not what should be kept, have a method `saved_fields()` that
    gives a dictionary and a class method `from_saved(fields)` that makes an object of it.

    Args:
        name: in files; never changed afterwards. By habit the room and the class, "nn.Dense".
        positional: the field that the constructor takes as `*arguments`.
        without: fields that are not kept and get their defaults when read. Paths belong here: a file that could
            name one could make us overwrite it.
        renamed: names that fields have in older files, and the names that they have now.
    """

    def register(kind: T) -> T:
        if _BY_NAME.get(name, _Registered(kind, None, (), {})).kind.__qualname__ != kind.__qualname__:
            raise ValueError(f"two classes want to be saved as {name!r}: {_BY_NAME[name].kind} and {kind}.")
        _BY_NAME[name] = _Registered(kind, positional, without, renamed or {})
        _NAMES[kind] = name
        return kind

    return register


def registered() -> dict[str, type]:
    """The classes that files can name, by their names."""
    return {name: entry.kind for name, entry in _BY_NAME.items()}


def fields_not_saved(kind: type) -> tuple[str, ...]:
    """Fields of a registered class that files do not hold."""
    return _BY_NAME[_NAMES[kind]].without


def to_config(value: Any, arrays: dict[str, np.ndarray] | None = None) -> Any:
    """A description of JSON types.

    Args:
        value: an object of a registered class; or numbers, texts, arrays, and lists, tuples and dictionaries of them.
        arrays: where arrays go, by a name that says whose they are; in the description itself by default.

    Raises:
        ValueError: part of it cannot be written: a function, or an object of a class that is not registered.

    Example:
        >>> from widetail.files import from_config, to_config
        >>> from widetail import nn
        >>> from_config(to_config(nn.Conv(3))) == nn.Conv(3)
        True
    """
    return _describe(value, (), arrays)


def from_config(config: Any, arrays: dict[str, np.ndarray] | None = None, expected: type[Any] = object) -> Any:
    """What `to_config` described; a ValueError for anything else.

    Args:
        config: the description.
        arrays: the arrays that it names.
        expected: what it must be.
    """
    found = _Reader(arrays or {}).read(config, 0)
    if not isinstance(found, expected):
        raise ValueError(f"a {expected.__name__} was expected, and the description is of {_short(found)}")
    return found


def _describe(value: Any, path: tuple[str, ...], arrays: dict[str, np.ndarray] | None) -> Any:
    def inner(name: Any, part: Any) -> Any:
        return _describe(part, (*path, str(name)), arrays)

    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if np.isnan(value):
            raise ValueError(f"{_called(path)} is NaN, which cannot be saved.")
        return float(value) if np.isfinite(value) else {"float": repr(float(value))}
    if type(value) in _NAMES:
        name = _NAMES[type(value)]
        return {"kind": name, "fields": {key: inner(key, part) for key, part in _fields_of(value).items()}}
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return {"tuple": [inner(i, part) for i, part in enumerate(value)]}
    if isinstance(value, list):
        return [inner(i, part) for i, part in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: inner(key, part) for key, part in value.items()}}
    if hasattr(value, "dtype") and hasattr(value, "shape") and not isinstance(value, type):
        return _describe_array(np.asarray(value), path, arrays)
    if callable(value):
        raise ValueError(
            f"{_called(path)}={value!r} cannot be saved: a file holds numbers, not functions. "
            f"Use an activation of widetail, such as nn.Tanh(), in its place."
        )
    reason = getattr(type(value), "not_saved", f"{type(value).__name__} is not part of widetail.")
    raise ValueError(f"{_called(path)}={value!r} cannot be saved: {reason}")


def _describe_array(array: np.ndarray, path: tuple[str, ...], arrays: dict[str, np.ndarray] | None) -> Any:
    if array.dtype.kind not in "biufUO":
        raise ValueError(f"{_called(path)} of dtype {array.dtype} cannot be saved; use numbers or texts.")
    if array.dtype.kind == "O" and not all(isinstance(entry, str) for entry in array.flat):
        raise ValueError(f"{_called(path)} {array[:5]!r} cannot be saved; use numbers or texts.")
    if array.ndim == 0 and array.dtype.kind != "O":
        return _describe(array.item(), path, arrays)
    if array.dtype.kind in "UO":
        return {"array": array.tolist(), "dtype": "object" if array.dtype.kind == "O" else array.dtype.str}
    if arrays is None:
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{_called(path)} holds NaN or infinite numbers, which cannot be saved.")
        return {"array": array.tolist(), "dtype": array.dtype.str}
    name = ".".join(path)
    arrays[name] = np.ascontiguousarray(array)
    return {"array": name}


def _fields_of(value: Any) -> dict[str, Any]:
    if hasattr(value, "saved_fields"):
        return value.saved_fields()
    without = fields_not_saved(type(value))
    return {name: getattr(value, name) for name in _annotations(type(value)) if name not in without}


@functools.cache
def _annotations(kind: type) -> dict[str, Any]:
    """The fields of a class and what its constructor takes for them: anything, where it converts what it is given."""
    if not dataclasses.is_dataclass(kind):
        return {name: Any for name in getattr(kind, "_fields")}  # noqa: B009, C420
    taken = inspect.signature(kind).parameters
    fields = [field for field in dataclasses.fields(kind) if field.init and field.name in taken]
    is_free = {field.name: "converter" in field.metadata for field in fields}
    return {name: Any if is_free[name] else taken[name].annotation for name in is_free}


class _Reader:
    """Builds objects from a description, and counts them."""

    def __init__(self, arrays: dict[str, np.ndarray]):
        self.arrays = arrays
        self.objects = 0

    def read(self, config: Any, depth: int) -> Any:
        if config is None or isinstance(config, (bool, int, float, str)):
            return config
        if depth > DEEPEST:
            raise ValueError(f"more than {DEEPEST} objects are inside of each other")
        if isinstance(config, list):
            return [self.read(part, depth + 1) for part in config]
        if not isinstance(config, dict):
            raise ValueError(f"this cannot be part of a description: {_short(config)}")
        if set(config) == {"tuple"} and isinstance(config["tuple"], list):
            return tuple(self.read(part, depth + 1) for part in config["tuple"])
        if set(config) == {"dict"} and isinstance(config["dict"], dict):
            return {key: self.read(part, depth + 1) for key, part in config["dict"].items()}
        if set(config) == {"float"} and config["float"] in ("inf", "-inf"):
            return float(config["float"])
        if "array" in config:
            return self._array(config)
        if set(config) == {"kind", "fields"} and isinstance(config["fields"], dict):
            return self._object(config["kind"], config["fields"], depth)
        raise ValueError(f"this is not the description of a network, a prior or a model: {_short(config)}")

    def _array(self, config: dict[str, Any]) -> np.ndarray:
        values = config["array"]
        if isinstance(values, str):
            array = self.arrays.get(values)
            if array is None:
                raise ValueError(f"the array {_short(values)} is missing")
        else:
            text = config.get("dtype", "<f8")
            dtype = np.dtype(object if text == "object" else text)
            if not isinstance(values, list) or dtype.kind not in "biufUO":
                raise ValueError(f"this is not an array: {_short(config)}")
            if dtype.itemsize * len(values) > MOST_LABEL_BYTES:
                raise ValueError("an array of texts is too large")
            if dtype.kind in "UO" and not all(isinstance(value, str) for value in values):
                raise ValueError(f"an array of texts holds something else: {_short(values)}")
            array = np.asarray(values, dtype=dtype)
        if array.dtype.kind in "biuf" and not np.all(np.isfinite(array)):
            raise ValueError("its arrays hold NaN or infinite numbers")
        if array.size == 0:
            raise ValueError("an array is empty")
        return array

    def _object(self, name: Any, fields: dict[str, Any], depth: int) -> Any:
        entry = _BY_NAME.get(name) if isinstance(name, str) else None
        if entry is None:
            raise ValueError(f"{_short(name)} is not a class that can be saved, or its module is not imported")
        self.objects += 1
        if self.objects > MOST_OBJECTS:
            raise ValueError(f"it describes more than {MOST_OBJECTS} objects")
        fields = {entry.renamed.get(key, key): part for key, part in fields.items()}
        values = {key: self.read(part, depth + 1) for key, part in fields.items() if key not in entry.without}
        try:
            return _build(entry, values)
        except Exception as error:  # whatever a constructor says of values that no user passed
            raise ValueError(f"{name} cannot be made of what the description says: {error}") from error


def _build(entry: _Registered, values: dict[str, Any]) -> Any:
    maker = getattr(entry.kind, "from_saved", None)
    if maker is not None:
        return maker(values)
    annotations = _annotations(entry.kind)
    for name, value in values.items():
        if name not in annotations:
            raise ValueError(f"it has no field {name!r}")
        parts = value if name == entry.positional and isinstance(value, tuple) else (value,)
        if not all(fits(part, annotations[name]) for part in parts):
            raise ValueError(f"{name} is {_short(value)}")
    first = values.pop(entry.positional, ()) if entry.positional else ()
    return entry.kind(*first, **values)


def fits(value: Any, annotation: Any) -> bool:
    """Whether a value is what an annotation says, as far as annotations say it; a description may hold anything."""
    if annotation in (Any, inspect.Parameter.empty):
        return True
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in inner)
    if origin in (Union, types.UnionType):
        return any(fits(value, choice) for choice in inner)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        wanted = [inner[0]] * len(value) if len(inner) == 2 and inner[1] is ... else inner
        return len(value) == len(wanted) and all(map(fits, value, wanted))
    if annotation is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    kind = origin or annotation
    return isinstance(value, kind) if isinstance(kind, type) else True


def _called(path: tuple[str, ...]) -> str:
    return path[-1] if path else "the object"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
