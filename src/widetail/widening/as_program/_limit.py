"""The program of a model: read at several widths, which must agree."""

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail import nn
from widetail.programs import statements as st
from widetail.widening._models import Built
from widetail.widening._parameters import Leaf
from widetail.widening._prologue import Narrow, Prologue
from widetail.widening._source import WidenError
from widetail.widening.as_program._entries import STRIDE, Cuts, NeedCutError, Par, Sym
from widetail.widening.as_program._program import ProgramWalk
from widetail.widening.as_program._symbols import Read, Vec

LOGITS = (
    "logits scaled by 1/sqrt(n) stay random in the limit; scale them by 1/n (libraries' own attention divides by the "
    "root already: divide the queries by the root of their size once more, by process_heads of "
    "equinox.nn.MultiheadAttention or attention_fn of flax.nnx.MultiHeadAttention)"
)
_OF_INPUTS = (st.InputProduct, st.InputFeature, st.Given)
# Inputs at which the first steps of models of several widths are compared, up to the first random matrix.
PROBES = 8
# How often vectors are taken apart before a model is given up.
MOST_CUTS = 24


@dataclasses.dataclass
class Mixed:
    """The layers below a program.

    Attributes:
        network: ends in a Gaussian vector, or in one per position.
        front: what is done with the input first.
        look: the same in a form that can be compared.
        kept: the shape of its results.
    """

    network: nn.Sequential
    front: Callable[[Any], Any]
    look: Any
    kept: tuple[int, ...]


@dataclasses.dataclass
class Reading:
    """A model as a program, at one width.

    Attributes:
        graph: the statements.
        outputs: (share of the readout variance, variable) of each vector that the readout sees.
        prologue: what is done with the input first.
        rows: the vectors of features of the prologue that are the positions of the program's inputs.
        features: entries of the longest of them; the others are filled with zeros.
        roles: by parameter, what it is: matrix, input, bias, table, readout.
        fan_ins: by parameter, the axes that are summed over.
        below: layers that the program stands on, or None where it takes the input itself.
    """

    graph: st.Graph
    outputs: list[tuple[float, int]]
    prologue: Prologue
    rows: list[tuple[Narrow, tuple[int, ...]]]
    features: int
    roles: dict[int, str]
    fan_ins: dict[int, tuple[int, ...]]
    below: Mixed | None = None

    def front(self, x: Any) -> Any:
        """What is done with one input first: vectors of features, side by side."""
        wanted = list(dict.fromkeys(value.reference for value, _ in self.rows))
        places = [(wanted.index(value.reference), place) for value, place in self.rows]
        values = self.prologue.run(x, wanted)
        rows = [values[number][place] for number, place in places]
        return jnp.stack([jnp.pad(row.astype(x.dtype), (0, self.features - len(row))) for row in rows])


def start_values(
    leaves: list[Leaf], shapes: list[tuple[int, ...]], input_shape: tuple[int, ...], dtype: Any
) -> list[Any]:
    """What the walk begins with: parameters and the input."""
    values: list[Any] = []
    for number, (leaf, shape) in enumerate(zip(leaves, shapes, strict=True)):
        if leaf.is_constant and any(leaf.wide):
            values.append(np.broadcast_to(np.asarray(leaf.constant, float), shape))
        else:
            values.append(Par(number, np.arange(math.prod(shape)).reshape(shape)))
    reference = ("x", "whole numbers") if np.issubdtype(dtype, np.integer) else ("x",)
    return [*values, Narrow(reference, input_shape, dtype)]


def read_program(closed: Any, built: Built, leaves: list[Leaf], input_shape: tuple[int, ...]) -> Reading:
    """A jaxpr as a program."""
    shapes = [leaf.shape for leaf in built.leaves]
    cuts: Cuts = {}
    for _ in range(MOST_CUTS):
        walk = ProgramWalk(input_shape, leaves, shapes, cuts)
        arguments = start_values(leaves, shapes, input_shape, closed.in_avals[-1].dtype)
        try:
            results = walk.run(closed, arguments)
            if len(results) != 1:
                raise WidenError(f"the model must return one array; it returns {len(results)}")
            outputs = outputs_of(walk, results[0])
            break
        except NeedCutError as need:
            if not cut_at(cuts, need, shapes):
                raise walk.refuse("a part of a wide array is used by itself, but it cannot be taken apart") from None
    else:
        raise WidenError("wide arrays are taken apart into too many pieces")
    if not walk.rows:
        raise WidenError("no random matrix of the model meets the input, so its output does not depend on it")
    features = max(value.shape[-1] for value, _ in walk.rows)
    graph = _replayed(walk.builder.graph, len(walk.rows), features)
    check_dependence(graph, outputs)
    return Reading(graph, outputs, walk.prologue, walk.rows, features, walk.roles, walk.fan_ins)


def check_dependence(graph: st.Graph, outputs: list[tuple[float, int]]) -> None:
    """Refuse a model whose output is the same for all inputs."""
    for _, output in outputs:
        graph.output = output
        if any(isinstance(graph.lines[k].statement, _OF_INPUTS) for k in graph.needed()):
            return
    raise WidenError(
        "the output of the model does not depend on its input: is something multiplied by a parameter that is zero?"
    )


def cut_at(cuts: Cuts, need: NeedCutError, shapes: list[tuple[int, ...]]) -> bool:
    """Enter new places to cut parameters at; whether there were any."""
    changed = False
    for leaf, axis, start in need.vec.origins:
        size = shapes[leaf][axis]
        there = cuts.get((leaf, axis), frozenset())
        more = there | {Fraction(start + place, size) for place in need.places}
        changed = changed or more != there
        cuts[leaf, axis] = more
    return changed


def outputs_of(walk: ProgramWalk, result: Any) -> list[tuple[float, int]]:
    """What a readout sees: (share of its variance, variable)."""
    if not isinstance(result, Sym):
        raise WidenError("the output of the model does not go through any wide layer")
    numbers = np.unique(result.ids // STRIDE)
    values = [walk.entries[number] for number in numbers]
    if len(values) == 1 and isinstance(values[0], Vec):
        walk._whole(int(numbers[0]), result.ids.reshape(-1) % STRIDE)
        return [(1.0, walk.builder.base(values[0]).index)]
    if not all(isinstance(value, Read) for value in values):
        kinds = sorted({_kind(value) for value in values})
        raise WidenError(
            f"the output of the model must be a product of wide features with a random matrix; it holds "
            f"{' and '.join(kinds)}. In the limit such an output is a number that does not vary from network to network"
        )
    used = [column for value in values for column in value.parts]
    if len(set(used)) != len(used) or len(values) != result.ids.size:
        raise WidenError(
            f"the model returns an array of shape {result.shape} in which outputs repeat (one per position, say): the "
            f"kernel is of one function of an input. Return one position, or a mean over positions"
        )
    seen = []
    for value in values:
        seen.append([(share, walk.builder.base(vec).index) for share, vec in value.parts.values()])
    if any(one != seen[0] for one in seen):
        raise WidenError(
            "the outputs of the model see different features, so they have different kernels; return one of them, and "
            "widen the model once for each"
        )
    merged: dict[int, float] = {}
    for share, index in seen[0]:
        merged[index] = merged.get(index, 0.0) + share
    return [(share, index) for index, share in merged.items()]


def _kind(value: Any) -> str:
    if isinstance(value, Read):
        return "outputs"
    return "wide features" if isinstance(value, Vec) else "numbers" if isinstance(value, float) else "averages"


def _replayed(graph: st.Graph, positions: int, features: int) -> st.Graph:
    """The same statements for inputs whose shape is known by now."""
    new = st.Graph((positions, features))
    for name, random in graph.randoms.items():
        var = random.var * features if random.kind == "input_matrix" else random.var
        new.add_random(name, random.kind, var, random.place)
    for line in graph.lines:
        new.add(line.statement, line.place, name=line.name)
    return new


def compare(readings: list[Reading], widths: list[int]) -> None:
    """Refuse a model that is not the same program at all widths."""
    first = readings[0]
    for width, other in zip(widths[1:], readings[1:], strict=True):
        if first.below is None and not _same_front(first, other):
            raise WidenError("what the model does with its input depends on the width")
        if first.below is not None and other.below is not None:
            mine, theirs = first.below, other.below
            if not bool(mine.network == theirs.network) or repr(mine.look) != repr(theirs.look):
                raise WidenError("the layers of the model are others at other widths")
        for mine, theirs in zip(first.graph.lines, other.graph.lines, strict=False):
            a, b = _look(mine.statement), _look(theirs.statement)
            numbers = _different(a, b)
            if numbers is None:
                raise WidenError(
                    f"this line computes something else at width {width} than at width {widths[0]}", mine.place
                )
            if numbers:
                raise WidenError(_scaling(numbers[0], widths[0], width), mine.place)
        for mine, theirs in zip(first.graph.randoms.values(), other.graph.randoms.values(), strict=False):
            if abs(mine.var - theirs.var) > 1e-6 * abs(mine.var):
                raise WidenError(f"{mine.name}: " + _scaling((mine.var, theirs.var), widths[0], width), mine.place)
        same = len(first.graph.lines) == len(other.graph.lines) and list(first.graph.randoms) == list(
            other.graph.randoms
        )
        outputs = _different(tuple(first.outputs), tuple(other.outputs))
        if not same or outputs is None or outputs:
            raise WidenError("the model is another program at another width", first.graph.lines[-1].place)


def _same_front(one: Reading, other: Reading) -> bool:
    """Whether inputs are made into the same features; what is repeated along the width is told by its values."""
    if one.prologue.look() == other.prologue.look():
        return True
    if [value.shape for value, _ in one.rows] != [value.shape for value, _ in other.rows]:
        return False
    draws = np.random.default_rng(0)
    shape = (PROBES, *one.prologue.input_shape)
    for x in (draws.normal(size=shape), draws.integers(0, 4, shape).astype(float)):
        with jax.enable_x64(True):
            found = [np.asarray(jax.vmap(reading.front)(jnp.asarray(x))) for reading in (one, other)]
        if found[0].shape != found[1].shape or not np.allclose(*found, rtol=1e-6, atol=1e-9, equal_nan=True):
            return False
    return True


def _scaling(numbers: tuple[float, float], width: int, other: int) -> str:
    one, two = numbers
    if one * two <= 0:
        return f"a number that depends on the width: {one:g} at width {width}, {two:g} at width {other}"
    power = math.log(two / one) / math.log(other / width)
    grows = "grows" if power > 0 else "shrinks"
    advice = (
        LOGITS
        if abs(power - 0.5) < 0.01
        else "the weights have variance 1/fan-in already; for a model that scales them itself, variances='from_init'. "
        f"{LOGITS[0].upper()}{LOGITS[1:]}"
        if abs(power + 0.5) < 0.01 or abs(power + 1) < 0.01
        else "in the limit it must be a number"
    )
    return f"a factor that {grows} like the width to the power {power:.3g} ({one:g} at width {width}): {advice}"


def _look(statement: st.Statement) -> Any:
    fields = [getattr(statement, field.name) for field in dataclasses.fields(statement)]  # type: ignore[arg-type]
    return (type(statement).__name__, *(_plain(field) for field in fields))


def _plain(value: Any) -> Any:
    if isinstance(value, st.Term):
        return value.number, value.scalar, value.variable
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    lines = getattr(value, "lines", None)
    return value if lines is None else lines


def _different(a: Any, b: Any) -> list[tuple[float, float]] | None:
    """Pairs of numbers that differ; None where something else does."""
    if isinstance(a, float) and isinstance(b, float):
        return [] if a == b or abs(a - b) <= 1e-6 * max(abs(a), abs(b)) else [(a, b)]
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        found: list[tuple[float, float]] = []
        for one, other in zip(a, b, strict=True):
            inner = _different(one, other)
            if inner is None:
                return None
            found += inner
        return found
    try:
        return [] if a is b or bool(a == b) else None
    except Exception:  # what cannot be compared is not equal
        return None
