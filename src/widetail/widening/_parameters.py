"""The laws of parameters: which are constants, and which variances the others have."""

import dataclasses
import fnmatch
import math
import zlib
from typing import Any, Literal

import jax
import numpy as np

from widetail.checks import check_variance
from widetail.widening._models import Built, Make, Width

Variances = dict[str, float] | Literal["from_init"] | None


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A parameter: where it is, how it grows, what is known of its law.

    Attributes:
        path: its name in the model.
        wide: which of its axes follow the width.
        constant: the value that it has at every width, a number for wide parameters; None for a random one.
        var: the variance as told, times fan-in where the parameter is a matrix; None for the default of its use.
        note: why it is a constant.
        is_table: whether it has positions of its own beside one wide axis, and is not zero to begin with.
        by_entry: whether `var` is that of the entries at every width, because the model divides by the root of the
            fan-in itself.
    """

    path: str
    wide: tuple[bool, ...]
    constant: Any
    var: float | None
    note: str
    is_table: bool
    by_entry: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether it is a constant."""
        return self.constant is not None


def check_patterns(variances: Variances) -> None:
    """Variances by path, or the word."""
    if variances is None or variances == "from_init":
        return
    if not isinstance(variances, dict):
        raise ValueError(
            f"variances must be a dictionary such as {{'*.weight': 2.0, '*.bias': 0.1}}, 'from_init' or None; "
            f"got {variances!r}."
        )
    for pattern, value in variances.items():
        check_variance(f"variances[{pattern!r}]", value)


def read_laws(
    make: Make,
    models: list[Built],
    widths: tuple[Width, ...],
    variances: Variances,
    constants: dict[str, Any] | None,
    key: Any,
) -> list[Leaf]:
    """The law of every parameter.

    Args:
        make: builds the model.
        models: the model at each of the widths; drawn at the first.
        widths: the widths.
        variances: patterns of paths with variances (the last that fits counts), "from_init", or None.
        constants: values of parameters without a wide axis by pattern; the others are as init makes them.
        key: of another draw.
    """
    patterns = variances if isinstance(variances, dict) else {}
    constants = constants or {}
    first = models[0]
    if any(model.paths != first.paths for model in models):
        raise ValueError("the model has other parameters at other widths; its limit is not that of one architecture.")
    for name, given in (("variances", patterns), ("constants", constants)):
        for pattern in given:
            if not any(fnmatch.fnmatchcase(path, pattern) for path in first.paths):
                raise ValueError(
                    f"{name}[{pattern!r}] fits no parameter; the model has {', '.join(map(repr, first.paths))}."
                )
    other = make(widths[0], key)
    fixed = [k for k, leaf in enumerate(first.leaves) if np.array_equal(leaf, other.leaves[k])]
    again = dict(zip(fixed, make.constants(widths[-1], key, fixed), strict=True))
    leaves = []
    for number, path in enumerate(first.paths):
        drawn = [model.leaves[number] for model in models]
        wide = _wide_axes(path, [leaf.shape for leaf in drawn], [scale_of(width) for width in widths])
        told = [value for pattern, value in patterns.items() if fnmatch.fnmatchcase(path, pattern)]
        fixed_as = [value for pattern, value in constants.items() if fnmatch.fnmatchcase(path, pattern)]
        if not any(wide):
            leaves.append(_narrow(path, drawn[0], fixed_as, patterns.get(path), number in again))
            continue
        if fixed_as:
            raise ValueError(
                f"constants[{path!r}]: it is wide (its shapes are {', '.join(str(leaf.shape) for leaf in drawn)}); "
                f"constants are for parameters whose shape is the same at every width."
            )
        values = [drawn[0], again[number]] if number in again else [drawn[0]]
        leaves.append(_law(path, wide, values, told[-1] if told else None))
    return leaves


def _narrow(path: str, drawn: Any, fixed_as: list[Any], var: float | None, is_same: bool) -> Leaf:
    """A parameter that does not average out: a number or a table that all networks share."""
    wide = (False,) * np.ndim(drawn)
    if fixed_as and var:
        raise ValueError(f"{path!r} is in constants and in variances; it is one or the other.")
    if fixed_as:
        try:
            value = np.broadcast_to(np.asarray(fixed_as[-1], float), drawn.shape)
        except ValueError:
            raise ValueError(
                f"constants[{path!r}] must fit the shape {drawn.shape}; got shape {np.shape(fixed_as[-1])}."
            ) from None
        return Leaf(path, wide, value, None, "no wide axis: a constant, as told", False)
    if var is not None:
        value = math.sqrt(var) * np.random.default_rng(zlib.crc32(path.encode())).normal(size=drawn.shape)
        return Leaf(path, wide, value, var, f"no wide axis: one draw of N(0, {var:g}), as told", False)
    how = "as init makes it" if is_same else "one draw of init, which all networks share"
    return Leaf(path, wide, np.asarray(drawn, float), None, f"no wide axis: a constant, {how}", False)


def scale_of(width: Width) -> int:
    """What a width grows by; several numbers grow together."""
    return width if isinstance(width, int) else width[0]


def _wide_axes(path: str, shapes: list[tuple[int, ...]], widths: list[int]) -> tuple[bool, ...]:
    wide = []
    for sizes in zip(*shapes, strict=True):
        slope = (sizes[-1] - sizes[0]) / (widths[-1] - widths[0])
        start = sizes[0] - slope * widths[0]
        if any(abs(start + slope * width - size) > 1e-9 for width, size in zip(widths, sizes, strict=True)):
            raise ValueError(
                f"an axis of {path!r} has the sizes {sizes} at the widths {widths}, which do not grow in proportion; "
                f"widths=(...) names widths that suit the model."
            )
        wide.append(slope > 0)
    return tuple(wide)


def _law(path: str, wide: tuple[bool, ...], drawn: list[Any], told: float | None) -> Leaf:
    is_vector = sum(wide) == 1 and all(is_wide or size == 1 for is_wide, size in zip(wide, drawn[0].shape, strict=True))
    values = {float(value) for leaf in drawn for value in np.unique(leaf)} if len(drawn) > 1 else set()
    if len(values) == 1:
        (value,) = values
        if (is_vector and not told) or (value != 0 and sum(wide) == 1):
            return Leaf(path, wide, value, None, f"init makes it {value:g} everywhere: a constant", False)
    # biases of heads, or of layers side by side, have two axes; those that init leaves at zero are biases, not tables
    is_table = not is_vector and values != {0.0} and "bias" not in path.rsplit(".", 1)[-1]
    return Leaf(path, wide, None, None if told is None else float(told), "", is_table)


def measured(
    make: Make, leaves: list[Leaf], fan_ins: dict[int, Any], readouts: set[int], widths: tuple[Width, ...]
) -> list[Leaf]:
    """The parameters with the laws that the user's own `init` has; a ValueError for those that the limit is not of.

    Args:
        make: builds the model.
        leaves: the parameters.
        fan_ins: by parameter, the fan-in as a function of its shape.
        readouts: parameters whose variance is the scale of the mixture, so that only how it grows matters.
        widths: two widths to draw at.
    """
    found = list(leaves)
    draws = [[make(width, key) for key in jax.random.split(jax.random.key(20), 8)] for width in widths]
    for number, leaf in enumerate(leaves):
        if leaf.is_constant or number not in fan_ins:
            continue
        plain, scaled = [], []
        for models in draws:
            values = np.concatenate([np.asarray(model.leaves[number], float).ravel() for model in models])
            plain.append(float(np.mean(values**2)))
            scaled.append(plain[-1] * fan_ins[number](models[0].leaves[number].shape))
            if number not in readouts:
                _check_law(leaf.path, values)
        if _is_constant(scaled):
            found[number] = dataclasses.replace(leaf, var=float(np.mean(scaled)))
        elif _is_constant(plain):
            found[number] = dataclasses.replace(leaf, var=float(np.mean(plain)), by_entry=True)
        elif number in readouts:
            continue
        elif fan_ins[number](draws[0][0].leaves[number].shape) == 1 and scaled[1] < scaled[0]:
            found[number] = dataclasses.replace(leaf, var=0.0)  # biases that shrink as the width grows
        else:
            raise ValueError(
                f"variances='from_init': init draws {leaf.path!r} with variance x fan-in {scaled[0]:.4g} at width "
                f"{widths[0]} and {scaled[1]:.4g} at width {widths[1]}, so there is no limit with this law; name its "
                f"variance by variances={{{leaf.path!r}: ...}}."
            )
    return found


def _is_constant(values: list[float]) -> bool:
    return values[0] == values[1] or (min(values) > 0 and abs(math.log(values[1] / values[0])) < 0.1)


def _check_law(path: str, values: np.ndarray) -> None:
    """Centred, and normal (perhaps cut off) or uniform: what the theorems are about."""
    count, scale = len(values), float(np.sqrt(np.mean(values**2)))
    if scale == 0:
        return
    error = scale / np.sqrt(count)
    kurtosis = float(np.mean(values**4)) / scale**4
    if abs(values.mean()) > 5 * error or not 1.7 - 10 / np.sqrt(count) < kurtosis < 3 + 25 / np.sqrt(count):
        raise ValueError(
            f"variances='from_init': init draws {path!r} with mean {values.mean():.3g}, standard deviation {scale:.3g} "
            f"and kurtosis {kurtosis:.3g}; a centred normal (kurtosis 3) or uniform law (1.8) is expected. Name its "
            f"variance by variances={{{path!r}: ...}}."
        )
