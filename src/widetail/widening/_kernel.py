"""The limit of a user's model, as a kernel."""

import dataclasses
import functools
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from widetail.checks import check_count
from widetail.kernels import CrossFn, Get, Kernel, KernelValues, RowsFn, check_get, check_inputs
from widetail.numerics import is_traced
from widetail.widening import _check, _explain
from widetail.widening._finite import FiniteModel, fan_in
from widetail.widening._models import Make, Width
from widetail.widening._parameters import Leaf
from widetail.widening._widths import in_proportion, times


class UncheckedWarning(UserWarning):
    """A limit is used that no finite model has been compared with yet."""


class Front:
    """What is done with inputs before the first random matrix; compared by identity, as it is made once per model."""

    def __init__(self, run: Callable[[Any], Any] | None):
        self._run = run
        self._batched = None if run is None else jax.jit(jax.vmap(run))

    def __call__(self, x: Any) -> Any:
        """Inputs of the kernel inside, NumPy for NumPy."""
        if self._batched is None:
            return x
        if isinstance(x, np.ndarray):
            with jax.enable_x64(True):
                return np.asarray(self._batched(x))
        return self._batched(x)


@dataclasses.dataclass(eq=False)
class Info:
    """What is known of the model; `widen` fills it in, and nothing but `is_told` changes afterwards.

    Attributes:
        make: builds it.
        input_shape: shape of one input.
        leaves: its parameters.
        roles: by parameter, what it is.
        fan_ins: by parameter, the axes that are summed over.
        variances: by path, the variance, times fan-in for matrices.
        engine: "as layers of nn", "as a tensor program", or "as layers of nn and a tensor program on top".
        graph: the statements; None for layers alone.
        notes: what a user should know.
        ratio: the widths at which the model was read, of which `at_width` takes multiples; 1 for a single number.
        of_whole_numbers: whether the model takes whole numbers, such as those of tokens.
        is_told: whether the user knows of `check`.
        recipe: what `widen` was called with, from which another process reads the model again.
        layers: the layers of nn that were found.
    """

    make: Make
    input_shape: tuple[int, ...]
    leaves: list[Leaf]
    roles: dict[int, str]
    fan_ins: dict[int, tuple[int, ...]]
    variances: dict[str, float]
    engine: str
    graph: Any
    notes: tuple[str, ...]
    ratio: Width = 1
    of_whole_numbers: bool = False
    is_told: bool = False
    recipe: tuple[Any, ...] = ()
    layers: tuple[Any, ...] = ()


class Wide(Kernel):
    """The infinite-width limit of a model: a kernel as any other, made by `widen`.

    Attributes:
        inner: the network or program that it is computed by; its variances are what gradients go to.
        front: what is done with inputs first.
        info: what is known of the model.
    """

    has_ntk: ClassVar[bool] = True
    not_saved: ClassVar[str] = (
        "it was read from a model of your own, which a file cannot hold. Keep the model's code and the data and fit "
        "again, or write the model as layers of widetail.nn."
    )

    inner: Kernel
    front: Front = eqx.field(static=True)
    info: Info = eqx.field(static=True)

    def rows_fn(self, get: Get) -> RowsFn:
        """Carry each input through the model with itself."""
        rows = self.inner.rows_fn(get)
        return lambda x: rows(self.front(x))

    def cross_fn(self, get: Get) -> CrossFn:
        """Carry every pair of inputs through the model."""
        return self.inner.cross_fn(get)

    def for_inputs(self, x1: Any, x2: Any = None, get: Get = "nngp", *, tell: bool = True) -> Kernel:
        """The network or program inside as accurate as it needs to be."""
        first, second = (None if x is None else self.front(x) for x in (x1, x2))
        return dataclasses.replace(self, inner=self.inner.for_inputs(first, second, get, tell=tell))

    def check_shape(self, name: str, input_shape: tuple[int, ...]) -> None:
        """The shape that the model was read for."""
        if tuple(input_shape) != self.info.input_shape:
            raise ValueError(
                f"{name} must have rows of shape {self.info.input_shape}, for which the model was read; got rows of "
                f"shape {tuple(input_shape)}. widen(model, x.shape[1:]) reads it for another shape."
            )

    def numbers_per_pair(self, input_shape: tuple[int, ...]) -> int:
        """What the network or program inside carries."""
        return self.inner.numbers_per_pair(self._inner_shape)

    @functools.cached_property
    def _inner_shape(self) -> tuple[int, ...]:
        return jax.eval_shape(self.front, jax.ShapeDtypeStruct((1, *self.info.input_shape), jnp.float32)).shape[1:]

    def kernel(self, x1: Any, x2: Any = None, get: Get = "both", **options: Any) -> KernelValues:
        """The kernels between the rows of `x1` and of `x2`; see `kernels.Kernel.kernel`.

        `check(x)` compares them with finite draws of the model.
        """
        if is_traced(self, x1, x2):
            return super().kernel(x1, x2, get, **options)
        check_get(self, get)
        x1, x2 = check_inputs(self, x1, x2)
        if not self.info.is_told:
            self.info.is_told = True
            warnings.warn(
                "this limit was read from the model's own steps; check(x) draws finite models and compares them with "
                "it (said once per model, and not after check).",
                UncheckedWarning,
                stacklevel=2,
            )
        first, second = self._fronted("x1", x1), None if x2 is None else self._fronted("x2", x2)
        found = self.inner.kernel(first, second, get, **options)
        if not all(np.isfinite(np.sum(k)) for k in found if k is not None):
            raise ValueError(
                "the kernel of these inputs is not finite: somewhere the model divides by zero, or takes a function "
                "where it is not defined (a row of which a mask leaves nothing, say)."
            )
        return found

    def _fronted(self, name: str, x: Any) -> Any:
        """What the model makes of its inputs before the first random matrix."""
        if self.info.of_whole_numbers and not np.all(np.asarray(x) == np.round(x)):
            raise ValueError(f"{name} must hold whole numbers (as floats): the model was read as one of whole numbers.")
        found = self.front(x)
        if not np.all(np.isfinite(np.asarray(found))):
            raise ValueError(
                f"{name} is finite, but what the model makes of it before its first random matrix is not: a logarithm "
                f"of zero, say, or a row that a table does not have."
            )
        return found

    def at_width(self, width: Width) -> FiniteModel:
        """The user's own model at a width, with the parametrisation and the variances that the limit is of.

        Args:
            width: what the user's function is called with; several numbers in the proportions that the limit is of.

        Returns:
            `init(key)` draws standard normal parameters by path, `apply(params, x)` evaluates a batch, and
            `model(params)` is the user's own model.
        """
        width = self._checked_width("width", width)
        built = self.info.make.abstract(width, jax.random.key(0))
        deviations, constants = {}, {}
        for number, (leaf, drawn) in enumerate(zip(self.info.leaves, built.leaves, strict=True)):
            role = self.info.roles.get(number)
            if role == "readout bias":
                continue
            if leaf.is_constant:
                constants[leaf.path] = leaf.constant
                continue
            var = 1.0 if role == "readout" else self.info.variances.get(leaf.path, 0.0)
            if var:
                fan = 1 if leaf.by_entry else fan_in(self.info.fan_ins.get(number, ()), drawn.shape)
                deviations[leaf.path] = float(np.sqrt(var / fan))
        return FiniteModel(width, deviations, built, constants, self.info.of_whole_numbers)

    def _checked_width(self, name: str, width: Any) -> Width:
        ratio = self.info.ratio
        if isinstance(ratio, int):
            return check_count(name, width)
        if not isinstance(width, tuple) or len(width) != len(ratio):
            raise ValueError(f"{name} must be {len(ratio)} numbers, such as {times(ratio, 4)}; got {width!r}.")
        numbers = tuple(check_count(name, number) for number in width)
        if not in_proportion(numbers, ratio):
            raise ValueError(
                f"{name} must be in the proportions of {ratio}, at which the model was read; got {width!r}. "
                f"widen(..., widths=...) reads it in others."
            )
        return numbers

    def explain(self) -> str:
        """What became of each parameter and of each line: matrix, Gaussian vector, nonlinearity, average, readout."""
        return _explain.explain(self)

    def check(
        self, x: Any, widths: tuple[Width, ...] | None = None, *, draws: int = 200, key: Any = None
    ) -> _check.Check:
        """Draw finite models and compare second moments of their outputs with the limit.

        Args:
            x: a few inputs, rows first.
            widths: widths to draw at, ascending; (256, 1024) unless the model takes several numbers.
            draws: models per width.
            key: of the draws.

        Returns:
            The comparison by width with standard errors; `agrees` sums it up, `print` shows it.
        """
        x = np.asarray(x)
        if widths is None:
            ratio = self.info.ratio
            widths = (256, 1024) if isinstance(ratio, int) else (times(ratio, 8), times(ratio, 32))
        checked = tuple(self._checked_width("widths", width) for width in widths)
        self.info.is_told = True
        return _check.check(self, x, checked, check_count("draws", draws), jax.random.key(0) if key is None else key)

    def known_by(self) -> tuple[Any, list[np.ndarray]]:
        """What tells this limit from others in every process: the code of the model, and the variances by now."""
        return self.info.recipe, [np.asarray(leaf) for leaf in jax.tree.leaves(self)]

    def __reduce__(self) -> Any:
        """For the workers of a cluster: the model is read again, and takes the variances that this one has by now."""
        from widetail.widening._widen import read_again  # which makes these

        return read_again, self.known_by()

    def __repr__(self) -> str:
        return f"widen(<model on inputs of shape {self.info.input_shape}>, {self.info.engine})"
