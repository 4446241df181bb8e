"""Common architectures by name."""

from collections.abc import Callable
from typing import Any

from widetail.checks import check_count
from widetail.nn._base import Layer
from widetail.nn.activations._activation import Activation
from widetail.nn.activations._quadrature import Elementwise, Sigmoid, Tanh
from widetail.nn.activations._rectifiers import Abs, LeakyRelu, Relu, Sign
from widetail.nn.activations._smooth import Erf, Exp, Gelu
from widetail.nn.activations._waves import Cos, Rbf, Sin
from widetail.nn.layers._composition import Residual, Sequential
from widetail.nn.layers._linear import Conv, Dense
from widetail.nn.layers._pooling import Flatten, GlobalAvgPool

ACTIVATIONS: dict[str, Callable[[], Activation]] = {
    kind.__name__.lower(): kind for kind in (Abs, Cos, Erf, Exp, Gelu, LeakyRelu, Rbf, Relu, Sigmoid, Sign, Sin, Tanh)
}

# More is nearly always a width, which is the first argument in other libraries.
MOST_BLOCKS = 50

ActivationLike = str | Activation | Callable[[Any], Any]


def as_activation(activation: ActivationLike) -> Activation:
    """An activation layer from its name, from a layer, or from a function."""
    if isinstance(activation, Activation):
        return activation
    if isinstance(activation, str):
        if activation.lower() not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(sorted(ACTIVATIONS))}; got {activation!r}.")
        return ACTIVATIONS[activation.lower()]()
    if callable(activation) and not isinstance(activation, type):
        return Elementwise(fn=activation)
    raise ValueError(f"activation must be a name, a layer or a function; got {activation!r}.")


def _check_depth(name: str, depth: int) -> int:
    depth = check_count(name, depth)
    if depth > MOST_BLOCKS:
        raise ValueError(
            f"{name} is a number of layers, and at most {MOST_BLOCKS}; got {depth}. If it is a width: there is none in "
            f"a description, it is infinite, or given to net.at_width({depth}). If the network is so deep: "
            f"nn.Sequential(*[nn.Dense(weight_var=2.0), nn.Relu()] * {depth})."
        )
    return depth


def mlp(
    depth: int = 2, activation: ActivationLike = "relu", *, weight_var: Any = 2.0, bias_var: Any = 0.1
) -> Sequential:
    """`depth` hidden layers of Dense and activation.

    Args:
        depth: number of hidden layers, at most 50.
        activation: a name such as "relu" or "erf", an activation layer, or a function.
        weight_var: weight variance times fan-in of every layer; a vector (one per input feature) goes to the
            first layer only, and the others get 2.0.
        bias_var: bias variance of every layer.

    Example:
        >>> from widetail import nn
        >>> nn.mlp(depth=1, activation="erf")
        nn.Sequential(nn.Dense(weight_var=2.0, bias_var=0.1), nn.Erf())
    """
    depth = _check_depth("depth", depth)
    is_vector = not isinstance(weight_var, (int, float)) and getattr(weight_var, "ndim", 1) == 1
    layers: list[Layer] = []
    for number in range(depth):
        var = 2.0 if is_vector and number else weight_var
        layers += [Dense(weight_var=var, bias_var=bias_var), as_activation(activation)]
    return Sequential(*layers)


def cnn(
    depth: int = 4,
    activation: ActivationLike = "relu",
    *,
    window: int | tuple[int, ...] = 3,
    weight_var: float = 2.0,
    bias_var: float = 0.1,
    pooling: bool = False,
) -> Sequential:
    """`depth` convolutions with SAME padding, then Flatten, or global average pooling.

    Args:
        depth: number of convolutions.
        activation: a name, an activation layer, or a function.
        window: extent of the filters: an integer for both axes of images, or one number per axis. Sequences have one,
            `window=(3,)`: an integer would let grey images without a channel axis pass for sequences.
        weight_var: weight variance times fan-in of every layer.
        bias_var: bias variance of every layer.
        pooling: True for `GlobalAvgPool` at the end: invariant to shifts, and as many times more expensive as
            there are positions.
    """
    depth = _check_depth("depth", depth)
    if isinstance(window, int):
        window = (window, window)
    layers: list[Layer] = []
    for _ in range(depth):
        layers += [Conv(window, weight_var=weight_var, bias_var=bias_var), as_activation(activation)]
    return Sequential(*layers, GlobalAvgPool() if pooling else Flatten())


def resnet(
    blocks: int = 2, activation: ActivationLike = "relu", *, weight_var: float = 2.0, bias_var: float = 0.1
) -> Sequential:
    """A residual network on vectors: Dense, then `blocks` times x + Dense(activation(x)), then the activation.

    Args:
        blocks: number of residual blocks.
        activation: a name, an activation layer, or a function.
        weight_var: weight variance times fan-in of every layer.
        bias_var: bias variance of every layer.
    """
    blocks = _check_depth("blocks", blocks)
    phi = as_activation(activation)
    dense = Dense(weight_var=weight_var, bias_var=bias_var)
    return Sequential(dense, *(Residual(phi, dense) for _ in range(blocks)), phi)
