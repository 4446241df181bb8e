"""A table of a network's layers."""

import math

from widetail.nn._base import Layer
from widetail.nn._signal import Signal
from widetail.nn.layers._composition import Parallel, Residual, Sequential


def summary(net: Layer, input_shape: tuple[int, ...]) -> str:
    """A table of layers with their shapes, the covariances each needs in the limit, and its cost.

    Args:
        net: a network body.
        input_shape: shape of one input, without the rows: (d,), (time, d) or (height, width, channels).

    Returns:
        The table as text. "numbers per pair" is how many covariances one pair of inputs has after the layer: the
        time of a kernel evaluation is proportional to their sum.

    Example:
        >>> from widetail import nn
        >>> print(nn.summary(nn.cnn(depth=1), (28, 28, 1)))  # doctest: +NORMALIZE_WHITESPACE
        layer                                                 output          positions  numbers per pair
        nn.Conv(window=(3, 3), weight_var=2.0, bias_var=0.1)  28 x 28, width  equal                   784
        nn.Relu()                                        28 x 28, width  equal                   784
        nn.Flatten()                                     784 x width     none                      1
        readout                                          1               none                      1
    """
    net.output_signal(input_shape)
    rows = [("layer", "output", "positions", "numbers per pair")]
    rows += _rows(net, Signal.of_input(input_shape), False, "")
    rows.append(("readout", "1", "none", "1"))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = (
        "  ".join(
            [
                *(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=False)),
                row[3].rjust(widths[3]),
            ]
        )
        for row in rows
    )
    return "\n".join(lines)


def _rows(layer: Layer, signal: Signal, all_pairs: bool, indent: str) -> list[tuple[str, str, str, str]]:
    if isinstance(layer, Sequential):
        return _chain(layer.layers, signal, all_pairs, indent)
    end = layer.signal(signal)
    if isinstance(layer, Residual):
        title = _row(f"{indent}nn.Residual", end, all_pairs)
        return [title, *_chain(layer.layers, signal, all_pairs, indent + "  ")]
    if isinstance(layer, Parallel):
        title = _row(f"{indent}nn.Parallel, {layer.combine}", end, all_pairs)
        branches = [_rows(branch, signal, all_pairs, indent + "  ") for branch in layer.layers]
        return [title, *(row for branch in branches for row in branch)]
    return [_row(f"{indent}{layer!r}", end, all_pairs)]


def _chain(layers: tuple[Layer, ...], signal: Signal, all_pairs: bool, indent: str) -> list[tuple[str, str, str, str]]:
    wanted = [all_pairs]
    for layer in reversed(layers):
        wanted.insert(0, layer.needs_all_pairs(wanted[0]))
    rows = []
    for layer, form in zip(layers, wanted[1:], strict=True):
        rows += _rows(layer, signal, form, indent)
        signal = layer.signal(signal)
    return rows


def _row(name: str, signal: Signal, all_pairs: bool) -> tuple[str, str, str, str]:
    features = signal.feature_count
    space = " x ".join(map(str, signal.space))
    form = "none" if not signal.space else "all pairs" if all_pairs else "equal"
    numbers = math.prod(signal.space) ** (2 if all_pairs else 1)
    return name, f"{space}, {features}" if space else features, form, f"{numbers:,}"
