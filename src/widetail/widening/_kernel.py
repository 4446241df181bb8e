"""The limit of a user's model, as a kernel."""

import dataclasses
import functools
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
from widetail.widening._laws import Leaf, Variances, check_patterns, measured, read_laws
from widetail.widening._limit import Reading, compare, read_program
from widetail.widening._models import Make, reader, traced
from widetail.widening._source import WidenError

# Widths at which models are read: with common divisors, for heads and groups.
WIDTHS = (24, 48, 120)
# Widths at which laws are measured.
LARGE = (240, 480)


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
        return self.inner.kernel(self.front(x1), None if x2 is None else self.front(x2), get, **options)

    def at_width(self, width: int) -> FiniteModel:
        """The user's own model at a width, with the parametrisation and the variances that the limit is of.

        Args:
            width: what the user's function is called with.

        Returns:
            `init(key)` draws standard normal parameters by path, `apply(params, x)` evaluates a batch, and
            `model(params)` is the user's own model.
        """
        width = check_count("width", width)
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
                deviations[leaf.path] = float(np.sqrt(var / fan_in(self.info.fan_ins.get(number, ()), drawn.shape)))
        return FiniteModel(width, deviations, built, constants)

    def explain(self) -> str:
        """What became of each parameter and of each line: matrix, Gaussian vector, nonlinearity, average, readout."""
        return _explain.explain(self)

    def check(
        self, x: Any, widths: tuple[int, ...] = (256, 1024), *, draws: int = 200, key: Any = None
    ) -> _check.Check:
        """Draw finite models and compare second moments of their outputs with the limit.

        Args:
            x: a few inputs, rows first.
            widths: widths to draw at, ascending.
            draws: models per width.
            key: of the draws.

        Returns:
            The comparison by width with standard errors; `agrees` sums it up, `print` shows it.
        """
        x = np.asarray(x)
        for width in widths:
            check_count("widths", width)
        return _check.check(
            self, x, tuple(widths), check_count("draws", draws), jax.random.key(0) if key is None else key
        )

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
    widths: tuple[int, ...] = WIDTHS,
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
        input_shape: shape of one input, `x.shape[1:]`.
        variances: variances by patterns of paths, such as `{"*.weight": 2.0, "*.bias": 0.1}`; of several that fit, the
            last counts. For matrices they are times fan-in. By default 1 for matrices and tables, 0 for biases; a wide
            vector that `init` fills with one number (the scale of a LayerNorm) stays that number. "from_init" measures
            them on draws of the model's own `init`. The variance of the readout is 1: it is the scale of the mixture.
        widths: three widths at which the model is read, ascending.
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
    if len(widths) < 2 or sorted(set(widths)) != list(widths):
        raise ValueError(f"widths must be two or more different widths, ascending; got {widths!r}.")
    make = reader(model)
    first, second = jax.random.split(jax.random.key(0))
    models = [make(widths[0], first), *(make.abstract(width, first) for width in widths[1:])]
    leaves = read_laws(make, models, widths, variances, second)
    closed = [traced(built, input_shape) for built in models]
    if variances == "from_init":
        reading = read_program(closed[0], models[0], leaves, input_shape)
        fans = {k: functools.partial(fan_in, axes) for k, axes in reading.fan_ins.items()}
        found = measured(make, leaves, fans, LARGE)
        leaves = [dataclasses.replace(leaf, var=found.get(leaf.path, leaf.var)) for leaf in leaves]
    chains = () if engine == "program" else _chains(closed, models, leaves, input_shape, engine)
    if chains:
        return _from_chain(chains[0], make, input_shape, leaves)
    readings = [read_program(jaxpr, built, leaves, input_shape) for jaxpr, built in zip(closed, models, strict=True)]
    compare(readings, widths)
    return _from_program(readings[0], make, input_shape, leaves)


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


def _from_chain(chained: Chained, make: Make, input_shape: tuple[int, ...], leaves: list[Leaf]) -> Wide:
    variances = _variances(leaves, chained.roles)
    info = Info(make, input_shape, leaves, chained.roles, chained.fan_ins, variances, "as layers of nn", None, ())
    return Wide(chained.net, Front(chained.front), info)


def _from_program(reading: Reading, make: Make, input_shape: tuple[int, ...], leaves: list[Leaf]) -> Wide:
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
        make, input_shape, leaves, reading.roles, reading.fan_ins, variances, "as a tensor program", parts[0][1], notes
    )
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
