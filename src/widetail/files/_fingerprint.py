"""Hashes of data and of kernels, the same in every process: stores and checkpoints are recognised by them."""

import dataclasses
import functools
import hashlib
import types
from typing import Any

import numpy as np

# Code of these is known by its name.
_LIBRARIES = ("widetail", "jax", "numpy", "scipy", "sklearn", "equinox", "builtins")


def fingerprint(*values: Any) -> str:
    """A hash of arrays, numbers, and objects such as kernels: their class, their fields, the functions inside them.

    A user's own function is known by what it does (its instructions, constants, and the values that it closes over),
    not by the file and the line it stands in, nor by its address.
    """
    digest = hashlib.sha256()
    for value in values:
        for part in _parts(value, ()):
            digest.update(part)
            digest.update(b"\0")
    return digest.hexdigest()[:16]


def _numbers(x: np.ndarray) -> bytes:
    x = np.ascontiguousarray(x)
    digest = hashlib.sha256(f"{x.dtype.str}{x.shape}".encode())
    digest.update(x.reshape(-1).view(np.uint8).data)  # no copy: features in a file may be larger than memory
    return digest.digest()


def _parts(value: Any, above: tuple[int, ...]):
    """Bytes that determine a value; `above` holds the objects that it is inside of, which may refer to themselves."""
    if id(value) in above:
        yield b"again"
        return
    above = (*above, id(value))
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        yield f"{type(value).__name__} {value!r}".encode()
    elif isinstance(value, types.ModuleType):  # has a dtype and a shape, if it is NumPy
        yield value.__name__.encode()
    elif hasattr(value, "dtype") and hasattr(value, "shape") and not isinstance(value, type):
        yield _numbers(np.asarray(value))
    elif isinstance(value, (tuple, list)):
        yield f"sequence of {len(value)}".encode()
        for entry in value:
            yield from _parts(entry, above)
    elif isinstance(value, (set, frozenset)):
        yield from _parts(sorted(value, key=repr), above)
    elif isinstance(value, dict):
        for key in sorted(value, key=repr):
            yield from _parts((key, value[key]), above)
    elif isinstance(value, types.CodeType):
        yield value.co_code
        yield from _parts((value.co_consts, value.co_names, value.co_varnames[: value.co_argcount]), above)
    elif isinstance(value, functools.partial):
        yield from _parts((value.func, value.args, value.keywords), above)
    elif isinstance(value, types.MethodType):
        yield from _parts((value.__func__, value.__self__), above)
    elif isinstance(value, types.FunctionType) and not _is_known(value):
        yield from _parts((value.__code__, value.__defaults__, value.__kwdefaults__), above)
        yield from _parts([cell.cell_contents for cell in value.__closure__ or ()], above)
        names = _names(value.__code__)
        yield from _parts({name: value.__globals__[name] for name in names if name in value.__globals__}, above)
    elif isinstance(value, property):
        yield from _parts((value.fget, value.fset), above)
    elif isinstance(value, (classmethod, staticmethod)) or _is_transformed(value):
        yield _name(type(value)).encode()
        yield from _parts(getattr(value, "__wrapped__"), above)  # noqa: B009  (not every kind is known to have it)
    elif isinstance(value, (type, types.BuiltinFunctionType)) or _is_known(value):
        yield _name(value).encode()
        if isinstance(value, type) and not _is_known(value):
            yield from _parts([base for base in value.__mro__[1:] if not _is_known(base)], above)
            own = {name: part for name, part in vars(value).items() if name[:2] != "__" or callable(part)}
            yield from _parts(own, above)
    else:
        yield from _parts(type(value), above)
        yield from _parts(_fields(value), above)


def _names(code: types.CodeType) -> set[str]:
    """Names that a function looks up, those of functions and comprehensions inside of it included."""
    inner = (_names(const) for const in code.co_consts if isinstance(const, types.CodeType))
    return set(code.co_names).union(*inner)


def _is_transformed(value: Any) -> bool:
    """Whether it is a function after `jax.jit` and the like, which would remember where the function stands."""
    return type(value).__module__.split(".")[0] in ("jax", "jaxlib") and callable(getattr(value, "__wrapped__", None))


def _fields(value: Any) -> Any:
    if hasattr(value, "known_by"):  # holds things that differ from process to process
        return value.known_by()
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "get_params"):  # scikit-learn's kernels
        return value.get_params()
    return dict(vars(value)) if hasattr(value, "__dict__") else _name(value)


def _is_known(value: Any) -> bool:
    """Whether a function or class belongs to a library, where its name says which one it is."""
    module = getattr(value, "__module__", None)
    is_named = isinstance(getattr(value, "__qualname__", None), str) and "<" not in value.__qualname__
    return isinstance(module, str) and module.split(".")[0] in _LIBRARIES and is_named


def _name(value: Any) -> str:
    module, name = getattr(value, "__module__", ""), getattr(value, "__qualname__", None)
    return f"{module}.{name}" if name else getattr(value, "__name__", type(value).__qualname__)
