"""How a model is read: as layers, as a program, or as layers with a program on top of them."""

import dataclasses
import functools
from typing import Any

import jax
import numpy as np

from widetail import programs
from widetail.widening._finite import fan_in
from widetail.widening._kernel import Front, Info, Wide
from widetail.widening._mixed import read_mixed
from widetail.widening._models import Built, Make, Width, reader, traced
from widetail.widening._parameters import Leaf, Variances, check_patterns, measured, read_laws, scale_of
from widetail.widening._source import WidenError
from widetail.widening._widths import check_widths, times
from widetail.widening.as_layers._chains import Chained, read_chain
from widetail.widening.as_program._limit import Reading, compare, read_program

# Widths at which models are read: with common divisors, for heads and groups.
WIDTHS = (24, 48, 120)
# Widths at which laws are measured, in units of the first of those.
LARGE = (10, 20)


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
    ratio = check_widths(widths)
    make = reader(model)
    first, second = jax.random.split(jax.random.key(0))
    models = [make(widths[0], first), *(make.abstract(width, first) for width in widths[1:])]
    leaves = read_laws(make, models, widths, variances, constants, second)
    closed = [traced(built, input_shape) for built in models]
    if variances == "from_init":
        reading = _uses(closed[0], models[0], leaves, input_shape)
        fans = {k: functools.partial(fan_in, axes) for k, axes in reading.fan_ins.items()}
        readouts = {number for number, role in reading.roles.items() if role == "readout"}
        leaves = measured(make, leaves, fans, readouts, tuple(times(widths[0], factor) for factor in LARGE))
    chains = () if engine == "program" else _chains(closed, models, leaves, input_shape, engine)
    if chains:
        wide = _from_chain(chains[0], make, input_shape, leaves, ratio)
    else:
        scales = [scale_of(width) for width in widths]
        reading = None if engine == "program" else _mixed(closed, models, leaves, input_shape, scales)
        if reading is None:
            readings = [
                read_program(jaxpr, one, leaves, input_shape) for jaxpr, one in zip(closed, models, strict=True)
            ]
            compare(readings, scales)
            reading = readings[0]
        wide = _from_program(reading, make, input_shape, leaves, ratio)
    wide.info.of_whole_numbers = bool(np.issubdtype(closed[0].in_avals[-1].dtype, np.integer))
    wide.info.recipe = (model, input_shape, variances, constants, tuple(widths), engine)
    for number, leaf in enumerate(leaves):
        if isinstance(variances, dict) and leaf.path in variances and wide.info.roles.get(number) == "readout bias":
            raise ValueError(f"variances[{leaf.path!r}]: the bias of a readout is left out of the limit.")
    return wide


def _uses(closed: Any, built: Built, leaves: list[Leaf], input_shape: tuple[int, ...]) -> Chained | Reading:
    """What becomes of the parameters, whatever their variances are."""
    some = [leaf if leaf.is_constant or leaf.var is not None else dataclasses.replace(leaf, var=1.0) for leaf in leaves]
    try:
        return read_chain(closed, built, some, input_shape)
    except WidenError:
        return read_program(closed, built, some, input_shape)


def read_again(recipe: tuple[Any, ...], values: list[Any]) -> Wide:
    """The limit from what `widen` was called with, with the variances that it had by then."""
    model, input_shape, variances, constants, widths, engine = recipe
    try:
        wide = widen(model, input_shape, variances=variances, constants=constants, widths=widths, engine=engine)
    except Exception as error:
        raise RuntimeError(
            f"the model could not be built again in another process ({type(error).__name__}: {error}). Classes of a "
            f"script or a notebook travel there by value, which those of Equinox do not survive: put the model into a "
            f"module that the workers of the cluster can import."
        ) from error
    wide.info.is_told = True
    return jax.tree.unflatten(jax.tree.structure(wide), values)


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


def _mixed(
    closed: list[Any], models: list[Built], leaves: list[Leaf], input_shape: Any, scales: list[int]
) -> Reading | None:
    """Layers with a program on top, the same at all widths; None where there are no layers to begin with.

    A model that has no limit is read once more as a program, which says so best.
    """
    try:
        readings = [read_mixed(jaxpr, one, leaves, input_shape) for jaxpr, one in zip(closed, models, strict=True)]
        compare(readings, scales)
    except WidenError:
        return None
    return readings[0]


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
        make, input_shape, leaves, chained.roles, chained.fan_ins, variances, "as layers of nn", None, (), ratio,
        layers=getattr(chained.net, "layers", (chained.net,)),
    )  # fmt: skip
    return Wide(chained.net, Front(chained.front), info)


def _from_program(reading: Reading, make: Make, input_shape: tuple[int, ...], leaves: list[Leaf], ratio: Width) -> Wide:
    graph, below = reading.graph, reading.below
    parts = [(share, _graph_with_output(graph, index)) for share, index in reading.outputs]
    kernels = []
    for share, part in parts:
        program: Any = programs.from_graph(functools.partial(_given, part), part.input_shape, name="widen")
        if below is not None:
            program = programs.on_network(below.network, program, below.kept)
        kernels.append(program if abs(share - 1) < 1e-12 else program * float(share))
    inner = functools.reduce(lambda one, other: one + other, kernels)
    notes = () if len(parts) == 1 else (f"the readout sees {len(parts)} vectors side by side: a sum of kernels",)
    variances = _variances(leaves, reading.roles)
    engine = "as a tensor program" if below is None else "as layers of nn and a tensor program on top"
    info = Info(
        make, input_shape, leaves, reading.roles, reading.fan_ins, variances, engine, parts[0][1], notes, ratio,
        layers=() if below is None else below.network.layers,
    )  # fmt: skip
    return Wide(inner, Front(reading.front if below is None else below.front), info)


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
