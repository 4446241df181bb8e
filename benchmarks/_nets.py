"""Architectures in a neutral form that every library's worker can read: [layer, arguments, *layers inside].

Names and arguments are those of `widetail.nn`; windows and strides have one number per axis.
"""

from typing import Any

Net = list[Any]


def layer(name: str, **arguments: Any) -> Net:
    """One layer."""
    return [name, arguments]


def chain(*layers: Net) -> Net:
    """Layers one after the other."""
    return ["Sequential", {}, *layers]


def residual(*layers: Net) -> Net:
    """The input plus what the layers make of it."""
    return ["Residual", {}, *layers]


def parallel(*layers: Net, combine: str) -> Net:
    """Branches, added or put side by side."""
    return ["Parallel", {"combine": combine}, *layers]


def dense(weight_var: float = 2.0, bias_var: float = 0.1) -> Net:
    """A fully connected layer."""
    return layer("Dense", weight_var=weight_var, bias_var=bias_var)


def conv(*window: int, weight_var: float = 2.0, bias_var: float = 0.1, **arguments: Any) -> Net:
    """A convolution, SAME unless said otherwise."""
    return layer("Conv", window=window, weight_var=weight_var, bias_var=bias_var, **arguments)


def mlp(depth: int, activation: str) -> Net:
    """Dense and activation, `depth` times."""
    return chain(*[dense(), layer(activation)] * depth)


def cnn(depth: int, end: str) -> Net:
    """3x3 convolutions with relu, then `end`."""
    return chain(*[conv(3, 3), layer("Relu")] * depth, layer(end))
