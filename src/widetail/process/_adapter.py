"""Kernels of the user's own."""

from collections.abc import Callable
from typing import Any

import numpy as np

from widetail.kernels import Get, Kernel, KernelValues

ROWS_PER_BLOCK = 256


class CallableKernel:
    """A function `k(x1, x2)` in place of a network: any library's kernel that can be called on two arrays.

    Its `diag(x)` method is used where there is one (as scikit-learn's kernels have).
    """

    has_ntk = False

    def __init__(self, function: Callable[[Any, Any], Any]):
        self.function = function

    def kernel(self, x1: Any, x2: Any = None, get: Get = "nngp") -> KernelValues:
        """The matrix of the function, checked for its shape and for NaN."""
        other = x1 if x2 is None else x2
        values = np.asarray(self.function(x1, other), dtype=np.float64)
        expected = (len(x1), len(other))
        if values.shape != expected:
            raise ValueError(
                f"kernel: the function must return an array of shape {expected} for {expected[0]} and {expected[1]} "
                f"rows; got {values.shape}."
            )
        if not np.all(np.isfinite(values)):
            raise ValueError("kernel: the function returned NaN or infinite values; check it and its inputs.")
        # a fresh array that may be factored in place, even where the function returned one of its own
        return KernelValues(values.copy() if np.may_share_memory(values, x1) or not values.flags.owndata else values)

    def diagonal(self, x: Any, get: Get = "nngp") -> KernelValues:
        """The function of each row with itself."""
        if hasattr(self.function, "diag"):
            return KernelValues(np.asarray(self.function.diag(x), dtype=np.float64))  # type: ignore[attr-defined]
        blocks = [x[start : start + ROWS_PER_BLOCK] for start in range(0, len(x), ROWS_PER_BLOCK)]
        return KernelValues(np.concatenate([np.diagonal(self.kernel(block).nngp) for block in blocks]))

    def __repr__(self) -> str:
        return repr(self.function)


def as_kernel(net: Any) -> Kernel | CallableKernel:
    """A network or kernel as it is; any other callable wrapped."""
    if isinstance(net, (Kernel, CallableKernel)):
        return net
    if isinstance(net, type):
        raise ValueError(f"kernel: got the class {net.__name__}; call it, {net.__name__}(...).")
    if callable(net):
        return CallableKernel(net)
    raise ValueError(
        f"kernel must be a network (wt.nn), a kernel (wt.kernels), or a function k(x1, x2) that returns a matrix; "
        f"got {net!r}."
    )
