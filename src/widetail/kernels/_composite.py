"""Sums, products and multiples of kernels, of networks, and of both."""

import abc
import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from widetail.checks import as_parameter, check_variance
from widetail.files import savable
from widetail.kernels._base import Kernel
from widetail.kernels._values import CrossFn, Get, KernelValues, Rows, RowsFn
from widetail.kernels.engine._by_hand import ByHand


class Composite(Kernel):
    """Two kernels of the same inputs, combined entry by entry."""

    first: Any
    second: Any

    def __check_init__(self):
        _check_kernel("first", self.first)
        _check_kernel("second", self.second)

    @abc.abstractmethod
    def combine(self, first: Any, second: Any) -> Any:
        """Entries of the result from entries of the two."""

    def rows_fn(self, get: Get) -> RowsFn:
        """Prepare the rows for either kernel."""
        firsts, seconds = self.first.rows_fn(get), self.second.rows_fn(get)

        def rows(x: Any) -> Rows:
            sides = firsts(x), seconds(x)
            return Rows(x, sides, self._combined(*(side.diagonal for side in sides)))

        return rows

    def cross_fn(self, get: Get) -> CrossFn:
        """Either kernel on a tile, then the combination."""
        firsts, seconds = self.first.cross_fn(get), self.second.cross_fn(get)

        def cross(rows1: Rows, rows2: Rows) -> KernelValues:
            (first1, second1), (first2, second2) = rows1.statistics, rows2.statistics
            return self._combined(firsts(first1, first2), seconds(second1, second2))

        return cross

    def for_inputs(self, x1: Any, x2: Any = None, get: Get = "nngp", *, tell: bool = True) -> Kernel:
        """Both as accurate as they need to be."""
        parts = {name: getattr(self, name).for_inputs(x1, x2, get, tell=tell) for name in ("first", "second")}
        return dataclasses.replace(self, **parts)

    def _combined(self, first: KernelValues, second: KernelValues) -> KernelValues:
        return KernelValues(
            *(None if a is None or b is None else self.combine(a, b) for a, b in zip(first, second, strict=True))
        )

    def check_shape(self, name: str, input_shape: tuple[int, ...]) -> None:
        self.first.check_shape(name, input_shape)
        self.second.check_shape(name, input_shape)

    def largest_input(self, dtype: Any) -> float:
        return min(self.first.largest_input(dtype), self.second.largest_input(dtype))

    def numbers_per_pair(self, input_shape: tuple[int, ...]) -> int:
        """Those of both, one after the other, and the result of the first kept meanwhile."""
        return 1 + max(self.first.numbers_per_pair(input_shape), self.second.numbers_per_pair(input_shape))


@savable("kernels.Sum")
class Sum(Composite):
    r"""$k_1 + k_2$: of networks, one with two branches and a readout each; written `k1 + k2`.

    Args:
        first, second: networks or kernels of the same inputs.

    Example:
        >>> import numpy as np
        >>> from widetail.kernels import RBF, Linear
        >>> (RBF() + Linear()).kernel(np.array([[0.0], [1.0]])).nngp.round(4)
        array([[1.    , 0.6065],
               [0.6065, 2.    ]])
    """

    @property
    def has_ntk(self) -> bool:  # type: ignore[override]
        """Whether both have a tangent kernel: that of the sum is then the sum of theirs."""
        return self.first.has_ntk and self.second.has_ntk

    def combine(self, first: Any, second: Any) -> Any:
        return first + second

    def by_hand(self) -> ByHand | None:
        """In NumPy, where both are."""
        first, second = self.first.by_hand(), self.second.by_hand()
        return None if first is None or second is None else SumByHand(first, second)


class SumByHand(ByHand):
    """`Sum` in NumPy.

    Args:
        first, second: what is added.
    """

    def __init__(self, first: ByHand, second: ByHand):
        self.parts = first, second
        self.most_pairs = min(first.most_pairs, second.most_pairs)

    def side(self, x: np.ndarray) -> tuple[Any, Any]:
        first, second = self.parts
        return first.side(x), second.side(x)

    def diagonal(self, side: tuple[Any, Any]) -> np.ndarray:
        return sum(part.diagonal(own) for part, own in zip(self.parts, side, strict=True))  # type: ignore[return-value]

    def values(self, side1: tuple[Any, Any], side2: tuple[Any, Any]) -> np.ndarray:
        total = self.parts[0].values(side1[0], side2[0])
        total += self.parts[1].values(side1[1], side2[1])
        return total

    def gradient(self, side1: tuple[Any, Any], side2: tuple[Any, Any], weights: np.ndarray) -> list[Any]:
        """Those of the first, then those of the second."""
        both = zip(self.parts, side1, side2, strict=True)
        return [one for part, own1, own2 in both for one in part.gradient(own1, own2, weights)]


@savable("kernels.Product")
class Product(Composite):
    r"""$k_1 k_2$, entry by entry; written `k1 * k2`.

    It is the covariance of the product of two independent functions, one of either kernel. No network of ours has it,
    so it has no tangent kernel.

    Args:
        first, second: networks or kernels of the same inputs.

    Example:
        >>> import numpy as np
        >>> from widetail.kernels import RBF, Linear
        >>> (RBF() * Linear()).kernel(np.array([[0.5], [1.0]])).nngp.round(4)
        array([[0.25  , 0.4412],
               [0.4412, 1.    ]])
    """

    def rows_fn(self, get: Get) -> RowsFn:
        return super().rows_fn("nngp")

    def cross_fn(self, get: Get) -> CrossFn:
        return super().cross_fn("nngp")

    def for_inputs(self, x1: Any, x2: Any = None, get: Get = "nngp", *, tell: bool = True) -> Kernel:
        return super().for_inputs(x1, x2, "nngp", tell=tell)

    def combine(self, first: Any, second: Any) -> Any:
        return first * second


@savable("kernels.Scaled")
class Scaled(Kernel):
    r"""$c\,k$, the kernel of functions that are larger by $\sqrt{c}$; written `c * k`.

    Of a network it is that of the network with its output multiplied by $\sqrt{c}$, so it multiplies the tangent kernel
    too.

    Args:
        base: a network or a kernel.
        variance: $c$, a positive number.

    Example:
        >>> import numpy as np
        >>> from widetail.kernels import RBF, Linear
        >>> (2 * RBF() + 0.5 * Linear()).kernel(np.array([[0.0], [1.0]])).nngp.round(4)
        array([[2.    , 1.2131],
               [1.2131, 2.5   ]])
    """

    base: Any
    variance: Any = eqx.field(converter=as_parameter)

    def __check_init__(self):
        _check_kernel("base", self.base)
        check_variance("variance", self.variance, positive=True)

    @property
    def has_ntk(self) -> bool:  # type: ignore[override]
        """Whether the kernel has a tangent kernel."""
        return self.base.has_ntk

    def rows_fn(self, get: Get) -> RowsFn:
        """Those of the kernel, kept beside their multiple."""
        base = self.base.rows_fn(get)

        def rows(x: Any) -> Rows:
            side = base(x)
            return Rows(x, side, self._multiple(side.diagonal))

        return rows

    def cross_fn(self, get: Get) -> CrossFn:
        """The kernel on a tile, then the multiple."""
        base = self.base.cross_fn(get)
        return lambda rows1, rows2: self._multiple(base(rows1.statistics, rows2.statistics))

    def for_inputs(self, x1: Any, x2: Any = None, get: Get = "nngp", *, tell: bool = True) -> Kernel:
        """The kernel as accurate as it needs to be."""
        return dataclasses.replace(self, base=self.base.for_inputs(x1, x2, get, tell=tell))

    def _multiple(self, values: KernelValues) -> KernelValues:
        return KernelValues(*(None if k is None else jnp.asarray(self.variance, k.dtype) * k for k in values))

    def check_shape(self, name: str, input_shape: tuple[int, ...]) -> None:
        self.base.check_shape(name, input_shape)

    def largest_input(self, dtype: Any) -> float:
        return self.base.largest_input(dtype)

    def numbers_per_pair(self, input_shape: tuple[int, ...]) -> int:
        return self.base.numbers_per_pair(input_shape)


def _check_kernel(name: str, part: Any) -> None:
    if not isinstance(part, Kernel):
        raise ValueError(f"{name} must be a network or a kernel of widetail; got {part!r}.")
