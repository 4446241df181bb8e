"""Checks of types at run time, which jaxtyping's import hook puts around every function of the library.

jaxtyping binds and checks the arguments of each call twice, in case that an axis is named twice. Where an annotation
has no axes, the type checker alone says the same: so a third of the time of the quick tests is saved.
"""

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

import jaxtyping
from beartype.roar import BeartypeCallHintViolation

_with_axes = jaxtyping.jaxtyped


def jaxtyped(fn: Any = None, *, typechecker: Callable[[Any], Any]) -> Any:
    """What the hook puts around functions and classes in the place of jaxtyping's decorator of that name."""
    if fn is None:
        return functools.partial(jaxtyped, typechecker=typechecker)
    if inspect.isclass(fn):
        # once: a class that inherits the method has it with its checks
        if dataclasses.is_dataclass(fn) and inspect.isfunction(own := vars(fn).get("__init__")):
            fn.__init__ = own if hasattr(own, "__wrapped__") else jaxtyped(own, typechecker=typechecker)
        return fn
    # programs look for the user's line behind the frames of jaxtyping
    if not inspect.isfunction(fn) or fn.__module__.startswith("widetail.programs"):
        return _with_axes(fn, typechecker=typechecker)
    if not fn.__annotations__:
        return fn
    checked: Callable[..., Any] | None = None

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal checked
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return fn(*args, **kwargs)
        if checked is None:  # most functions are never called by most processes
            has_axes = any(_has_axes(hint, fn) for hint in fn.__annotations__.values())
            checked = _with_axes(fn, typechecker=typechecker) if has_axes else typechecker(fn)
        try:
            return checked(*args, **kwargs)
        except BeartypeCallHintViolation as violation:
            raise jaxtyping.TypeCheckError(str(violation)) from None

    return call


def _has_axes(hint: Any, fn: Callable[..., Any]) -> bool:
    """Whether a type names axes, or is a name that the module does not know."""
    if isinstance(hint, str):
        try:
            hint = eval(hint, fn.__globals__)
        except NameError:
            return True
    if inspect.isclass(hint) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return any(_has_axes(part, fn) for part in typing.get_args(hint) if not isinstance(part, str))


def install() -> None:
    """To be called before the library is imported."""
    jaxtyping.jaxtyped = jaxtyped
