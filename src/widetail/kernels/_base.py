"""The interface of a kernel, and what every kernel can do."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from widetail import files
from widetail.kernels._inputs import check_get, check_inputs
from widetail.kernels._values import CrossFn, Get, KernelValues, RowsFn
from widetail.kernels.engine._by_hand import ByHand, evaluate_by_hand, is_for_numpy, pull_back_by_hand
from widetail.kernels.engine._cost import Cost, estimate
from widetail.kernels.engine._engine import evaluate, evaluate_diagonal
from widetail.kernels.engine._memory import check_memory
from widetail.kernels.engine._pullback import check_cotangent, pull_back
from widetail.numerics import is_traced

Progress = bool | Callable[[int, int], None]


class Kernel(eqx.Module):
    """A positive semi-definite function of two inputs, or the two of them that a wide network has.

    A new kernel gives a function that prepares the rows of one side (`rows_fn`) and one that combines two
    prepared sides (`cross_fn`), both pure JAX. Evaluation at scale, gradients, cost estimates and the checking
    of inputs come with this base.
    """

    has_ntk: ClassVar[bool] = False
    __array_ufunc__: ClassVar[None] = None  # a NumPy array times a kernel is an error, not an array of kernels

    @abc.abstractmethod
    def rows_fn(self, get: Get) -> RowsFn:
        """A function that prepares inputs (n, ...) for one side, at a cost linear in n."""

    @abc.abstractmethod
    def cross_fn(self, get: Get) -> CrossFn:
        """A function that combines two prepared sides into arrays of shape (n1, n2).

        Made once per evaluation and called once per tile, so it should have little to look up.
        """

    @abc.abstractmethod
    def check_shape(self, name: str, input_shape: tuple[int, ...]) -> None:
        """Raise a ValueError that names the argument when one input cannot have this shape."""

    def largest_input(self, dtype: Any) -> float:
        """Beyond this size of its entries products on the way to a covariance overflow; infinite by default."""
        return np.inf

    @abc.abstractmethod
    def numbers_per_pair(self, input_shape: tuple[int, ...]) -> int:
        """How many numbers one pair of inputs carries through the widest layer; it sets the tile size."""

    def kernel(
        self,
        x1: Any,
        x2: Any = None,
        get: Get = "both",
        *,
        max_memory: float | int | None = None,
        progress: Progress = False,
    ) -> KernelValues:
        """The kernels between the rows of `x1` and of `x2`.

        Outside of JAX transformations the result is computed in tiles on all cores, the upper triangle
        only when `x2` is None, and its memory is that of the result plus a small workspace. Under jit,
        grad and vmap the same call traces to plain JAX operations on whole arrays.

        Args:
            x1: inputs, rows first: vectors (n1, d), sequences (n1, time, d) or images
                (n1, height, width, channels); float32 or float64, which is also the precision of the
                computation, whatever `jax_enable_x64` says. NumPy in, NumPy out; JAX in, JAX out.
            x2: inputs (n2, ...) of the same kind, or None for `x1` with itself.
            get: "nngp", "ntk" or "both"; what is not asked for is not computed and comes back as None.
            max_memory: bytes that the call may use; the memory that is free now by default.
            progress: True for a bar on a terminal, or a function of (tiles done, tiles in all).

        Returns:
            `KernelValues` with `nngp` and `ntk`, arrays of shape (n1, n2).

        Raises:
            MemoryError: before anything is computed, when the result cannot fit.

        Example:
            >>> import numpy as np
            >>> from widetail import nn
            >>> net = nn.Sequential(nn.Dense(weight_var=2.0), nn.Relu())
            >>> net.kernel(np.eye(3), get="nngp").nngp.shape
            (3, 3)
        """
        check_get(self, get)
        x1, x2 = check_inputs(self, x1, x2)
        if not is_traced(self, x1, x2):
            hand = self.for_numpy(x1, x2, get)
            if hand is None:
                own = self.for_inputs(x1, x2, get)
                return evaluate(own, x1, x2, get, max_memory=max_memory, progress=progress)
            check_memory((len(x1), len(x1 if x2 is None else x2)), KernelValues(nngp=True), x1.dtype, max_memory)
            return KernelValues(evaluate_by_hand(hand, x1, x2, progress))
        rows_fn, cross_fn = self.rows_fn(get), self.cross_fn(get)
        rows1 = rows_fn(jnp.asarray(x1))
        if x2 is not None:
            return cross_fn(rows1, rows_fn(jnp.asarray(x2)))
        values = cross_fn(rows1, rows1)
        on_diagonal = np.diag_indices(x1.shape[0])
        return KernelValues(
            *(
                None if k is None else k.at[on_diagonal].set(jnp.asarray(d, k.dtype))
                for k, d in zip(values, rows1.diagonal, strict=True)
            )
        )

    def diagonal(self, x: Any, get: Get = "both") -> KernelValues:
        """The kernels of each row of `x` with itself, shape (n,), at a cost linear in n.

        Example:
            >>> import numpy as np
            >>> from widetail import nn
            >>> net = nn.Sequential(nn.Dense(weight_var=2.0), nn.Relu())
            >>> net.diagonal(np.eye(2), get="nngp").nngp
            array([0.5, 0.5])
        """
        check_get(self, get)
        x, _ = check_inputs(self, x, None)
        if is_traced(self, x):
            return self.rows_fn(get)(jnp.asarray(x)).diagonal
        hand = self.for_numpy(x, None, get)
        if hand is not None:
            return KernelValues(hand.diagonal(hand.side(x)))
        return evaluate_diagonal(self.for_inputs(x, None, get), x, get)

    def cost(self, x1: Any, x2: Any = None, get: Get = "both") -> Cost:
        """Time and memory that `kernel(x1, x2, get)` would take, from running one tile of it.

        Args:
            x1: inputs as in `kernel`, or just their shape.
            x2: inputs, a shape, or None for `x1` with itself.
            get: as in `kernel`.
        """
        check_get(self, get)
        return estimate(self, x1, x2, get)

    def pull_back(self, cotangent: KernelValues, x1: Any, x2: Any = None, *, progress: Progress = False) -> "Kernel":
        """Gradient of a loss with respect to this kernel's parameters, given its gradient in the kernels.

        Works tile by tile: besides the cotangents themselves the memory is a small workspace, whatever
        the depth, where differentiating `kernel` under `jax.grad` keeps every layer's n1 x n2 arrays.

        Args:
            cotangent: the derivatives of the loss in the entries of `nngp` and `ntk`, arrays of shape
                (n1, n2); None for a kernel that the loss does not use.
            x1: inputs as in `kernel`.
            x2: inputs, or None for `x1` with itself.
            progress: as in `kernel`.

        Returns:
            An object shaped like this kernel with the derivatives in place of its parameters.
        """
        x1, x2 = check_inputs(self, x1, x2)
        get = check_cotangent(self, cotangent, (len(x1), len(x1 if x2 is None else x2)))
        hand = None if is_traced(self) else self.for_numpy(x1, x2, get)
        if hand is None:
            own = self if is_traced(self, x1, x2) else self.for_inputs(x1, x2, get, tell=False)
            found = pull_back(own, cotangent, x1, x2, get, progress=progress)
            return jax.tree.unflatten(jax.tree.structure(self), jax.tree.leaves(found))
        return pull_back_by_hand(self, hand, np.asarray(cotangent.nngp, np.float64), x1, x2, progress)

    def for_inputs(self, x1: Any, x2: Any = None, get: Get = "nngp", *, tell: bool = True) -> "Kernel":
        """The same kernel, as accurate as these inputs need where that depends on them; most kernels stay as they are.

        `kernel`, `diagonal` and `pull_back` ask for it where inputs are concrete. Ask for it where parts of one matrix
        are computed in several calls, so that all of them have one accuracy.

        Args:
            x1, x2, get: as in `kernel`.
            tell: whether to warn where accuracy cannot be had.
        """
        return self

    def by_hand(self) -> ByHand | None:
        """The kernel in NumPy, where somebody wrote that down; None leaves it to the engine."""
        return None

    def for_numpy(self, x1: Any, x2: Any, get: Get) -> ByHand | None:
        """What `by_hand` gives, where that is faster for these inputs."""
        is_alone = get == "nngp" or not self.has_ntk
        hand = self.by_hand() if is_alone and is_for_numpy(x1, x2) else None
        pairs = len(x1) * len(x1 if x2 is None else x2)
        return None if hand is None or pairs > hand.most_pairs else hand

    def __add__(self, other: "Kernel") -> "Kernel":
        """The kernel of the sum of two independent functions, one of either kernel."""
        from widetail.kernels._composite import Sum  # it is itself a kernel: a cycle inside of this room

        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> "Kernel":
        """The kernel of the product of two independent functions, one of either kernel; or a positive multiple."""
        from widetail.kernels._composite import Product, Scaled

        if isinstance(other, Kernel):
            return Product(self, other)
        is_number = isinstance(other, (int, float)) or (hasattr(other, "dtype") and jnp.ndim(other) == 0)
        return Scaled(self, other) if is_number else NotImplemented

    def __rmul__(self, other: Any) -> "Kernel":
        """A positive multiple: the kernel of functions that are larger by its root."""
        return self * other


def to_config(kernel: Kernel) -> dict[str, Any]:
    """A description of JSON types: the class, and its fields.

    Raises:
        ValueError: the kernel holds a function of the user's own, which a file cannot carry.

    Example:
        >>> from widetail import nn
        >>> from widetail.kernels import from_config, to_config
        >>> net = nn.mlp(depth=1, activation="erf")
        >>> from_config(to_config(net)) == net
        True
    """
    return files.to_config(kernel)


def from_config(config: Any) -> Kernel:
    """The kernel or network that `to_config` described; a ValueError for anything else."""
    return files.from_config(config, expected=Kernel)
