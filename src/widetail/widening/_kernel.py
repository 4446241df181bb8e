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

from widetail import programs
from widetail.checks import check_count
from widetail.kernels import CrossFn, Get, Kernel, KernelValues, RowsFn, check_get, check_inputs
from widetail.numerics import is_traced
from widetail.widening import _check, _explain
from widetail.widening._chains import Chained, read_chain
from widetail.widening._finite import FiniteModel, fan_in
from widetail.widening._laws import Leaf, Variances, check_patterns, measured, read_laws, scale_of
from widetail.widening._limit import Reading, compare, read_program
from widetail.widening._models import Make, Width, reader, traced
from widetail.widening._source import WidenError

# Widths at which models are read: with common divisors, for heads and groups.
WIDTHS = (24, 48, 120)
# Widths at which laws are measured, in units of the first of those.
LARGE = (10, 20)


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


@dataclasses.dataclass(frozen=True, eq=False)
class Info:
    """What is known of the model.

    Attributes:
        make: builds it.
        input_shape: shape of one input.
        leaves: its parameters.
        roles: by parameter, what it is.
        fan_ins: by parameter, the axes that are summed over.
        variances: by path, the variance, times fan-in for matrices.
        engine: "as layers of nn" or "as a tensor program".
        graph: the statements; None for layers.
        notes: what a user should know.
        ratio: the widths at which the model was read, of which `at_width` takes multiples; 1 for a single number.
        of_whole_numbers: whether the model takes whole numbers, such as those of tokens.
        is_told: whether the user knows of `check`.
        recipe: what `widen` was called with, from which another process reads the model again.
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

    @property
    def is_body(self) -> bool:
        """Whether the model ends in wide features, so that the readout is implied."""
        return "readout" not in self.roles.values()


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
            object.__setattr__(self.info, "is_told", True)
            warnings.warn(
                "this limit was read from the model's own steps; check(x) draws finite models and compares them with "
                "it (said once per model, and not after check).",
                UncheckedWarning,
                stacklevel=2,
            )
        first, second = self._fronted("x1", x1), None if x2 is None else self._fronted("x2", x2)
        return self.inner.kernel(first, second, get, **options)

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
            raise ValueError(f"{name} must be {len(ratio)} numbers, such as {_times(ratio, 4)}; got {width!r}.")
        numbers = tuple(check_count(name, number) for number in width)
        if not _in_proportion(numbers, ratio):
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
            widths = (256, 1024) if isinstance(ratio, int) else (_times(ratio, 8), _times(ratio, 32))
        checked = tuple(self._checked_width("widths", width) for width in widths)
        object.__setattr__(self.info, "is_told", True)
        return _check.check(self, x, checked, check_count("draws", draws), jax.random.key(0) if key is None else key)

    def known_by(self) -> tuple[Any, list[np.ndarray]]:
        """What tells this limit from others in every process: the code of the model, and the variances by now."""
        return self.info.recipe, [np.asarray(leaf) for leaf in jax.tree.leaves(self)]

    def __reduce__(self) -> Any:
        """For the workers of a cluster: the model is read again, and takes the variances that this one has by now."""
        return _read_again, self.known_by()

    def inner_layers(self) -> tuple[Any, ...]:
        """The layers of the network inside, if it is one."""
        return getattr(self.inner, "layers", (self.inner,))

    def __repr__(self) -> str:
        return f"widen(<model on inputs of shape {self.info.input_shape}>, {self.info.engine})"


def widen(
    model: Any,
    input_shape: tuple[int, ...],
    *,
    variances: Variances = None,
    constants: dict[str, Any] | None = None,
    widths: tuple[Width, ...] = WIDTHS,
    engine: str = "auto",
) -> Wide:
    """The infinite-width limit of a model, found from the model itself.

    The model is built at a few small widths and traced by JAX. Axes that grow with the width are wide; products with
    random matrices, functions of entries and means over the width become what they are in the limit; whatever is not
    understood, or has no limit, is refused with the line of the model that it stands in.

    Args:
        model: `lambda width, key: MyModel(width, key=key)` that gives an Equinox module, which takes one input, or a
            Flax NNX module, which takes a batch; or a pair `(init, apply)` of `init(width, key)` and `apply(params, x)`
            of a batch. Dropout and batch statistics are off.
        input_shape: shape of one input, `x.shape[1:]`. A model of whole numbers, such as those of tokens, gets them as
            they are; kernels take them as floats.
        variances: variances by patterns of paths, such as `{"*.weight": 2.0, "*.bias": 0.1}`; of several that fit, the
            last counts. For matrices they are times fan-in. By default 1 for matrices and tables, 0 for biases; a wide
            vector that `init` fills with one number (the scale of a LayerNorm) stays that number. "from_init" measures
            them on draws of the model's own `init`. The variance of the readout is 1: it is the scale of the mixture.
            A parameter without a wide axis is named by its whole path; the limit is then of one draw.
        constants: values of parameters without a wide axis by patterns, such as `{"temperature": 0.5}`. They do not
            average out, so all networks share them; by default they are as `init` makes them.
        widths: three widths at which the model is read, ascending. A model with several widths takes several numbers in
            the same proportions: `widths=((24, 48), (48, 96), (120, 240))` for `lambda widths, key: ...`.
        engine: "nn" (layers), "program" (a tensor program), or "auto" for the first that fits.

    Raises:
        WidenError: the model has no limit, or none that is understood; the message names the line.

    Example:
        >>> import equinox as eqx
        >>> import numpy as np
        >>> import widetail as wt
        >>> wide = wt.widen(lambda width, key: eqx.nn.MLP(3, 1, width, 2, key=key), (3,), variances={"*.weight": 2.0})
        >>> wide.kernel(np.eye(3)).ntk.shape
        (3, 3)
    """
    input_shape = tuple(int(size) for size in input_shape)
    check_patterns(variances)
    if engine not in ("auto", "nn", "program"):
        raise ValueError(f"engine must be 'auto', 'nn' or 'program'; got {engine!r}.")
    ratio = _check_widths(widths)
    make = reader(model)
    first, second = jax.random.split(jax.random.key(0))
    models = [make(widths[0], first), *(make.abstract(width, first) for width in widths[1:])]
    leaves = read_laws(make, models, widths, variances, constants, second)
    closed = [traced(built, input_shape) for built in models]
    if variances == "from_init":
        reading = read_program(closed[0], models[0], leaves, input_shape)
        fans = {k: functools.partial(fan_in, axes) for k, axes in reading.fan_ins.items()}
        readouts = {number for number, role in reading.roles.items() if role == "readout"}
        leaves = measured(make, leaves, fans, readouts, tuple(_times(widths[0], factor) for factor in LARGE))
    chains = () if engine == "program" else _chains(closed, models, leaves, input_shape, engine)
    if chains:
        wide = _from_chain(chains[0], make, input_shape, leaves, ratio)
    else:
        readings = [read_program(jaxpr, one, leaves, input_shape) for jaxpr, one in zip(closed, models, strict=True)]
        compare(readings, [scale_of(width) for width in widths])
        wide = _from_program(readings[0], make, input_shape, leaves, ratio)
    is_whole = np.issubdtype(closed[0].in_avals[-1].dtype, np.integer)
    object.__setattr__(wide.info, "of_whole_numbers", bool(is_whole))
    object.__setattr__(wide.info, "recipe", (model, input_shape, variances, constants, tuple(widths), engine))
    for number, leaf in enumerate(leaves):
        if isinstance(variances, dict) and leaf.path in variances and wide.info.roles.get(number) == "readout bias":
            raise ValueError(f"variances[{leaf.path!r}]: the bias of a readout is left out of the limit.")
    return wide


def _read_again(recipe: tuple[Any, ...], values: list[Any]) -> Wide:
    model, input_shape, variances, constants, widths, engine = recipe
    wide = widen(model, input_shape, variances=variances, constants=constants, widths=widths, engine=engine)
    object.__setattr__(wide.info, "is_told", True)
    return jax.tree.unflatten(jax.tree.structure(wide), values)


def _check_widths(widths: Any) -> Width:
    """The proportions of the widths: 1 for single numbers."""
    expected = "widths must be two or more different widths, ascending"
    if not isinstance(widths, (tuple, list)) or len(widths) < 2:
        raise ValueError(f"{expected}; got {widths!r}.")
    numbers = [width if isinstance(width, (tuple, list)) else (width,) for width in widths]
    for number in [number for width in numbers for number in width]:
        check_count("widths", number)
    first = [width[0] if width else 0 for width in numbers]
    if len({len(width) for width in numbers}) > 1 or sorted(set(first)) != first:
        raise ValueError(f"{expected}; got {widths!r}.")
    if not all(_in_proportion(width, numbers[0]) for width in numbers):
        raise ValueError(f"{expected}, each of several numbers in the same proportions; got {widths!r}.")
    return tuple(widths[0]) if isinstance(widths[0], (tuple, list)) else 1


def _in_proportion(one: Any, other: Any) -> bool:
    return all(a * other[0] == b * one[0] for a, b in zip(one, other, strict=True))


def _times(width: Width, factor: int) -> Any:
    return width * factor if isinstance(width, int) else tuple(number * factor for number in width)


def _chains(
    closed: list[Any], models: list[Any], leaves: list[Leaf], input_shape: Any, engine: str
) -> tuple[Chained, ...]:
    """The layers of a model that is a chain of them, the same at all widths; empty where it is not."""
    try:
        found = [read_chain(jaxpr, built, leaves, input_shape) for jaxpr, built in zip(closed, models, strict=True)]
    except WidenError:
        if engine == "nn":
            raise
        return ()
    same = all(bool(one.net == found[0].net) and repr(one.look) == repr(found[0].look) for one in found)
    if not same and engine == "nn":
        raise WidenError("the layers of the model are others at other widths")
    return tuple(found) if same else ()


def _variances(leaves: list[Leaf], roles: dict[int, str]) -> dict[str, float]:
    defaults = {"bias": 0.0}
    return {
        leaf.path: defaults.get(roles[k], 1.0) if leaf.var is None else leaf.var
        for k, leaf in enumerate(leaves)
        if k in roles and not leaf.is_constant
    }


def _from_chain(chained: Chained, make: Make, input_shape: tuple[int, ...], leaves: list[Leaf], ratio: Width) -> Wide:
    variances = _variances(leaves, chained.roles)
    info = Info(
        make, input_shape, leaves, chained.roles, chained.fan_ins, variances, "as layers of nn", None, (), ratio
    )
    return Wide(chained.net, Front(chained.front), info)


def _from_program(reading: Reading, make: Make, input_shape: tuple[int, ...], leaves: list[Leaf], ratio: Width) -> Wide:
    wanted = list(dict.fromkeys(value.reference for value, _ in reading.rows))
    places = [(wanted.index(value.reference), place) for value, place in reading.rows]

    def front(x: Any) -> Any:
        values = reading.prologue.run(x, wanted)
        rows = [values[number][place] for number, place in places]
        return jnp.stack([jnp.pad(row.astype(x.dtype), (0, reading.features - len(row))) for row in rows])

    graph = reading.graph
    parts = [(share, _graph_with_output(graph, index)) for share, index in reading.outputs]
    kernels = []
    for share, part in parts:
        program = programs.from_graph(functools.partial(_given, part), part.input_shape, name="widen")
        kernels.append(program if abs(share - 1) < 1e-12 else program * float(share))
    inner = functools.reduce(lambda one, other: one + other, kernels)
    notes = () if len(parts) == 1 else (f"the readout sees {len(parts)} vectors side by side: a sum of kernels",)
    variances = _variances(leaves, reading.roles)
    info = Info(
        make, input_shape, leaves, reading.roles, reading.fan_ins, variances, "as a tensor program", parts[0][1], notes,
        ratio,
    )  # fmt: skip
    return Wide(inner, Front(front), info)


def _given(graph: Any, input_shape: tuple[int, ...]) -> Any:
    return graph


def _graph_with_output(graph: Any, output: int) -> Any:
    """The same statements with another output, without what it does not need."""
    new = programs.statements.Graph(graph.input_shape)
    for line in graph.lines:
        random = line.statement.random
        if random is not None and random[0] not in new.randoms:
            there = graph.randoms[random[0]]
            new.add_random(there.name, there.kind, there.var, there.place)
        new.add(line.statement, line.place, name=line.name)
    new.output = output
    return new
