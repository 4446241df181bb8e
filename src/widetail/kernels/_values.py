"""Arguments and results of kernel evaluations."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from jaxtyping import Array, Float

Get = Literal["nngp", "ntk", "both"]


class KernelValues(NamedTuple):
    """The two kernels of a wide network; what was not asked for is None."""

    nngp: Any = None
    ntk: Any = None


class Rows(NamedTuple):
    """One side of a kernel evaluation: a block of inputs with all that depends on it alone.

    Attributes:
        inputs: the inputs as the kernel wants them (scaled, say), rows first.
        statistics: per-row numbers, computed once and used against every row of the other side.
        diagonal: the kernels of each row with itself, shape (n,).
    """

    inputs: Float[Array, "n *features"]
    statistics: Any
    diagonal: KernelValues


RowsFn = Callable[[Float[Array, "n *features"]], Rows]
CrossFn = Callable[[Rows, Rows], KernelValues]
