"""Functions that the language derives from others; equal ones compare equal, so that compiled code is reused."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def reversed_subtract(a: Any, b: Any) -> Any:
    return b - a


def reversed_divide(a: Any, b: Any) -> Any:
    return b / a


class WithNumber:
    """A function of two numbers whose second one is fixed; equal where both are, unlike a lambda."""

    def __init__(self, fn: Callable[..., Any], number: float):
        self.fn = fn
        self.number = number
        self.__name__ = getattr(fn, "__name__", "function")

    def __call__(self, value: Any) -> Any:
        return self.fn(value, jnp.asarray(self.number, value.dtype))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WithNumber) and (self.fn, self.number) == (other.fn, other.number)

    def __hash__(self) -> int:
        return hash((self.fn, self.number))


class Reordered:
    """A function with its arguments in another order: position k of `order` says where argument k belongs."""

    def __init__(self, fn: Any, order: tuple[int, ...]):
        self.fn = fn
        self.order = order

    def __call__(self, *arguments: Any) -> Any:
        placed = sorted(zip(self.order, arguments, strict=True), key=lambda pair: pair[0])
        return self.fn(*(argument for _, argument in placed))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reordered) and (self.fn, self.order) == (other.fn, other.order)

    def __hash__(self) -> int:
        return hash((self.fn, self.order))


class SoftmaxEntry:
    """One entry of a softmax, as a function of all logits."""

    def __init__(self, index: int):
        self.index = index
        self.__name__ = f"softmax[{index}]"

    def __call__(self, *logits: Any) -> Any:
        return jax.nn.softmax(jnp.stack(logits), axis=0)[self.index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxEntry) and self.index == other.index

    def __hash__(self) -> int:
        return hash((SoftmaxEntry, self.index))
