"""Kernels of one finite model at its present parameters."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from widetail.empirical._arguments import checked_rows, first_row, in_kind_of, precision
from widetail.empirical._compiled import Compiled, pull_back, push_forward
from widetail.empirical._evaluate import evaluate, evaluate_diagonal, row_count
from widetail.empirical._methods import METHODS, Way
from widetail.empirical._models import as_model, floating
from widetail.empirical._outputs import Layout
from widetail.empirical._plan import Plan, cost_of, make_plan
from widetail.kernels import Get, Kernel, KernelValues, Rows
from widetail.numerics import is_traced
from widetail.progress import Progress

# the kernels' engine makes tiles of about sqrt(320,000 / numbers per pair) rows, and holds 64 MB of prepared rows
ENGINE_TILE, ENGINE_ROW_NUMBERS = 320_000, 8_000_000


class EmpiricalKernel(Kernel):
    r"""The tangent kernel and the output products of one finite model, at its present parameters.

    The tangent kernel is $\Theta(x, x')_{ab} = \sum_p \partial_p f_a(x)\, \partial_p f_b(x')$ over all parameters p.
    The model must treat the rows of a batch independently of each other. As a kernel of this library (`kernel`,
    `diagonal`) it is the mean over the outputs; `tangent()` is what a process takes.

    Args:
        model: a function `apply(params, x)` of a batch of rows; `net.at_width(n)`; a Flax NNX module (called with a
            batch); or an Equinox module (called with one row).
        params: the parameters, for the first two.
        method: "structured" (layer by layer), "jacobian" (gradients of every row), "products" (kernel times unit
            vectors), or "auto": the one with the fewest operations; `plan` tells which, and what it takes.

    Example:
        >>> import jax, numpy as np
        >>> import widetail as wt
        >>> from widetail import nn
        >>> f = nn.mlp(depth=2, activation="relu").at_width(64, outputs=3)
        >>> params = f.init(jax.random.key(0), (5,))
        >>> kernel = wt.empirical.EmpiricalKernel(f, params)
        >>> x = np.ones((4, 5), np.float32)
        >>> kernel.ntk(x).shape, kernel.ntk(x, outputs="all").shape
        ((4, 4), (4, 4, 3, 3))
        >>> kernel.plan(x, outputs="all").method
        'structured'
    """

    params: Any
    compiled: Compiled = eqx.field(static=True)
    method: str = eqx.field(static=True)

    @property
    def has_ntk(self) -> bool:  # type: ignore[override]
        """Always."""
        return True

    def __init__(self, model: Any, params: Any = None, *, method: str = "auto"):
        if method not in ("auto", *METHODS):
            raise ValueError(f"method must be one of {', '.join(map(repr, ('auto', *METHODS)))}; got {method!r}.")
        made = as_model(model, params)
        self.params, self.compiled, self.method = made.params, Compiled(made.apply), method

    def with_params(self, params: Any) -> "EmpiricalKernel":
        """The same model at other parameters of the same shapes, with what was compiled for it."""
        free = floating(params)
        if jax.tree.map(jnp.shape, free) != jax.tree.map(jnp.shape, self.params):
            raise ValueError("params must have the structure and the shapes of those that the kernel was made with.")
        return eqx.tree_at(lambda kernel: kernel.params, self, free)

    def apply(self, x: Any) -> Any:
        """The model on a batch."""
        return self.compiled.apply(self.params, x)

    def ntk(
        self,
        x1: Any,
        x2: Any = None,
        outputs: str | Layout = "mean",
        *,
        max_memory: float | int | None = None,
        progress: Progress = False,
    ) -> Any:
        """The tangent kernel between the rows of `x1` and of `x2`.

        Outside of `jit` and `grad` it is computed in tiles, the upper triangle only when `x2` is None. Its memory is
        that of the result and a workspace that `plan` tells.

        Args:
            x1: inputs, rows first, of any type that the model takes; a pytree of such arrays if it takes one.
            x2: further inputs, or None for `x1` with itself.
            outputs: "mean" for the mean over the outputs of a row (the trace over their number), shape (n1, n2);
                "each" for every output with itself, (n1, n2, outputs); "all" for every pair, (n1, n2, outputs,
                outputs). Outputs with more axes give theirs in order. `Layout` chooses axis by axis.
            max_memory: bytes that the call may use, result included; half a gigabyte beside the result by default.
            progress: True for a bar on a terminal, or a function of (tiles done, tiles in all).

        Raises:
            MemoryError: before anything is computed, when the result cannot fit.
        """
        return self._evaluate("ntk", x1, x2, outputs, max_memory, progress)

    def nngp(
        self,
        x1: Any,
        x2: Any = None,
        outputs: str | Layout = "mean",
        *,
        max_memory: float | int | None = None,
        progress: Progress = False,
    ) -> Any:
        """Products of the model's outputs at the rows of `x1` and of `x2`; arguments and shapes as in `ntk`."""
        return self._evaluate("nngp", x1, x2, outputs, max_memory, progress)

    def ntk_diagonal(self, x1: Any, x2: Any = None, outputs: str | Layout = "mean") -> Any:
        """The tangent kernel of row i of `x1` with row i of `x2` (None: with itself), shape (n, ...) as in `ntk`."""
        return self._diagonal("ntk", x1, x2, outputs)

    def nngp_diagonal(self, x1: Any, x2: Any = None, outputs: str | Layout = "mean") -> Any:
        """Products of outputs of row i of `x1` with row i of `x2` (None: with itself), shape (n, ...)."""
        return self._diagonal("nngp", x1, x2, outputs)

    def plan(
        self, x1: Any, x2: Any = None, outputs: str | Layout = "mean", *, max_memory: float | int | None = None
    ) -> Plan:
        """How `ntk` would be computed, and what it would take: operations and bytes, for each of the three ways.

        Example:
            >>> import jax, numpy as np
            >>> from widetail import empirical, nn
            >>> f = nn.mlp(depth=1, activation="relu").at_width(512, outputs=10)
            >>> kernel = empirical.EmpiricalKernel(f, f.init(jax.random.key(0), (20,)))
            >>> plan = kernel.plan(np.zeros((1000, 20), np.float32), outputs="all")
            >>> plan.output_bytes
            400000000
            >>> plan.costs["structured"].flops < plan.costs["jacobian"].flops
            True
        """
        x1, x2 = checked_rows(x1, x2)
        with precision(self.params, x1, x2):
            return self._plan(x1, x2, outputs, max_memory)

    def product(self, x1: Any, x2: Any, vector: Any, *, rows: int = 256) -> Any:
        """The tangent kernel times a vector, without the kernel: back through `x2`, forward through `x1`.

        Args:
            x1: inputs of the result, rows first.
            x2: inputs of the vector; None for `x1`.
            vector: a number for every output of every row of `x2`, shaped like the model's output, (n2, ...).
            rows: how many rows go through the model at a time.

        Returns:
            An array shaped like the model's output at `x1`, (n1, ...).

        Example:
            >>> import jax, numpy as np
            >>> from widetail import empirical, nn
            >>> f = nn.mlp(depth=1, activation="erf").at_width(32, outputs=2)
            >>> kernel = empirical.EmpiricalKernel(f, f.init(jax.random.key(0), (3,)))
            >>> x, v = np.eye(3), np.ones((3, 2))
            >>> full = np.einsum("ijab,jb->ia", kernel.ntk(x, outputs="all"), v)
            >>> bool(np.allclose(kernel.product(x, None, v), full))
            True
        """
        x1, x2 = checked_rows(x1, x2)
        second = x1 if x2 is None else x2
        vector = jnp.asarray(vector) if is_traced(vector) else np.asarray(vector)
        with precision(self.params, x1, x2, vector):
            expected = (row_count(second), *self.compiled.output_shape(self.params, first_row(second)))
            if vector.shape != expected:
                raise ValueError(f"vector must be shaped like the model's output, {expected}; got {vector.shape}.")
            dual = jax.tree.map(jnp.zeros_like, self.params)
            for start in range(0, expected[0], rows):
                block = jax.tree.map(lambda leaf, s=start: leaf[s : s + rows], second)
                step = pull_back(self.compiled, self.params, block, vector[start : start + rows])
                dual = jax.tree.map(jnp.add, dual, step)
            return self._forward(x1, dual, rows)

    def push_forward(self, x: Any, direction: Any, *, rows: int = 256) -> Any:
        """The derivative of the model's outputs when its parameters move in a direction, a pytree like `params`.

        Args:
            x: inputs, rows first.
            direction: how fast every parameter moves.
            rows: how many rows go through the model at a time.

        Returns:
            An array shaped like the model's output at `x`.

        Example:
            >>> import numpy as np
            >>> from widetail import empirical
            >>> kernel = empirical.EmpiricalKernel(lambda a, x: a**2 * x, np.float32(3.0))
            >>> kernel.push_forward(np.float32([[1.0], [2.0]]), np.float32(0.5)).tolist()  # 2 a x times the direction
            [[3.0], [6.0]]
        """
        x, _ = checked_rows(x, None)
        with precision(self.params, x):
            return self._forward(x, floating(direction), rows)

    def _forward(self, x: Any, direction: Any, rows: int) -> Any:
        parts = [
            push_forward(self.compiled, self.params, jax.tree.map(lambda leaf, s=s: leaf[s : s + rows], x), direction)
            for s in range(0, row_count(x), rows)
        ]
        return jnp.concatenate(parts) if is_traced(parts) else np.concatenate([np.asarray(part) for part in parts])

    def tangent(self) -> "Tangent":
        """The tangent kernel as the covariance of a function: that of the linearised model with random weights.

        Example:
            >>> import jax, numpy as np, widetail as wt
            >>> from widetail import nn
            >>> f = nn.mlp(depth=2, activation="erf").at_width(64)
            >>> params = f.init(jax.random.key(0), (1,))
            >>> x = np.linspace(-1.0, 1.0, 9)[:, None]
            >>> process = wt.ScaleMixture(wt.empirical.EmpiricalKernel(f, params).tangent())
            >>> process.posterior(x, np.sin(3.0 * x[:, 0]))(x).mean.shape
            (9,)
        """
        return Tangent(self)

    # the interface of a kernel: the mean over the outputs

    def rows_fn(self, get: Get) -> Any:
        """Prepare rows for the mean over the outputs."""

        def rows(x: Any) -> Rows:
            way = self._default_way(x)
            prepared = way.rows(self.params, x)
            nngp = way.nngp_aligned(prepared, prepared)[:, 0, 0, 0] if get != "ntk" else None
            ntk = way.aligned(self.params, prepared, prepared)[:, 0, 0, 0] if get != "nngp" else None
            return Rows(x, prepared, KernelValues(nngp, ntk))

        return rows

    def cross_fn(self, get: Get) -> Any:

        def cross(rows1: Rows, rows2: Rows) -> KernelValues:
            way = self._default_way(rows1.inputs)
            nngp = way.nngp(rows1.statistics, rows2.statistics)[..., 0, 0, 0] if get != "ntk" else None
            ntk = None
            if get != "nngp":
                ntk = way.cross(self.params, rows1.statistics, rows2.statistics)[..., 0, 0, 0]
            return KernelValues(nngp, ntk)

        return cross

    def check_shape(self, name: str, input_shape: tuple[int, ...]) -> None:
        """Run the model's shapes."""
        dtype = jnp.result_type(*jax.tree.leaves(self.params))
        try:
            with precision(self.params):
                self.compiled.output_shape(self.params, jax.ShapeDtypeStruct(input_shape, dtype))
        except (TypeError, ValueError) as error:
            rows = "n, " + ", ".join(map(str, input_shape))
            raise ValueError(f"{name} of shape ({rows}) does not fit this model: {error}") from None

    def numbers_per_pair(self, input_shape: tuple[int, ...]) -> int:
        """As many as keep the prepared rows of a tile small."""
        dtype = jnp.result_type(*jax.tree.leaves(self.params))
        with precision(self.params):
            way = self._default_way(jax.ShapeDtypeStruct((1, *input_shape), dtype))
        rows = max(1, min(500, ENGINE_ROW_NUMBERS // max(1, way.row_numbers)))
        return max(way.one_row_numbers, ENGINE_TILE // rows**2, 1)

    # inside

    def _ways(self, names: tuple[str, ...], x: Any, outputs: Any) -> dict[str, Way]:
        """Ways by name for inputs like `x`, rows first."""
        row = first_row(x)
        layout = Layout.of(outputs, self.compiled.output_shape(self.params, row))
        return {name: self.compiled.way(name, self.params, row, layout) for name in names}

    def _default_way(self, x: Any, outputs: Any = "mean") -> Way:
        """The way that was asked for; with "auto" the structured one, where there is no plan to go by."""
        name = "structured" if self.method == "auto" else self.method
        return self._ways((name,), x, outputs)[name]

    def _plan(self, x1: Any, x2: Any, outputs: Any, max_memory: Any) -> Plan:
        ways = self._ways(METHODS, x1, outputs)
        return make_plan(ways, row_count(x1), None if x2 is None else row_count(x2), self.method, max_memory)

    def _evaluate(self, get: str, x1: Any, x2: Any, outputs: Any, max_memory: Any, progress: Progress) -> Any:
        x1, x2 = checked_rows(x1, x2)
        if is_traced(self.params, x1, x2):
            way = self._default_way(x1, outputs)
            rows1 = way.rows(self.params, x1)
            rows2 = rows1 if x2 is None else way.rows(self.params, x2)
            values = way.cross(self.params, rows1, rows2) if get == "ntk" else way.nngp(rows1, rows2)
            return way.layout.restore(values)
        with precision(self.params, x1, x2):
            plan = self._plan(x1, x2, outputs, max_memory)
            way = self._ways((plan.method,), x1, outputs)[plan.method]
            values = evaluate(way, plan.costs[plan.method], self.params, x1, x2, get, progress)
            return in_kind_of(values, x1)

    def _diagonal(self, get: str, x1: Any, x2: Any, outputs: Any) -> Any:
        x1, x2 = checked_rows(x1, x2)
        if x2 is not None and row_count(x1) != row_count(x2):
            raise ValueError(f"x1 and x2 must have as many rows; got {row_count(x1)} and {row_count(x2)}.")
        traced = is_traced(self.params, x1, x2)
        with precision(self.params, x1, x2):
            way = self._default_way(x1, outputs)
            if traced:
                rows1 = way.rows(self.params, x1)
                rows2 = rows1 if x2 is None else way.rows(self.params, x2)
                values = way.aligned(self.params, rows1, rows2) if get == "ntk" else way.nngp_aligned(rows1, rows2)
                return way.layout.restore(values)
            cost = cost_of(way, min(row_count(x1), 64), None, 1 << 29)
            return in_kind_of(evaluate_diagonal(way, cost, self.params, x1, x2, get), x1)

    def __repr__(self) -> str:
        size = sum(leaf.size for leaf in jax.tree.leaves(self.params))
        return f"EmpiricalKernel({size} parameters, method={self.method!r})"


class Tangent(Kernel):
    """The tangent kernel of a model in the place of a covariance; made by `EmpiricalKernel.tangent`."""

    empirical: EmpiricalKernel

    def rows_fn(self, get: Get) -> Any:
        """Prepare rows for the tangent kernel."""
        rows = self.empirical.rows_fn("ntk")

        def prepare(x: Any) -> Rows:
            prepared = rows(x)
            return Rows(x, prepared.statistics, KernelValues(prepared.diagonal.ntk))

        return prepare

    def cross_fn(self, get: Get) -> Any:
        cross = self.empirical.cross_fn("ntk")
        return lambda rows1, rows2: KernelValues(cross(rows1, rows2).ntk)

    def check_shape(self, name: str, input_shape: tuple[int, ...]) -> None:
        self.empirical.check_shape(name, input_shape)

    def numbers_per_pair(self, input_shape: tuple[int, ...]) -> int:
        return self.empirical.numbers_per_pair(input_shape)
