"""Finite models as plain functions of JAX, for any version of it: apply(params, x) of a batch, ten outputs."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Model = tuple[Callable[[Any, Any], Any], Any, np.ndarray]
OUTPUTS = 10


def model(name: str, rows: int) -> Model:
    """A model, its parameters and inputs, in single precision; the same numbers wherever it is made."""
    rng = np.random.default_rng(0)

    def weight(*shape: int) -> np.ndarray:
        return (rng.normal(size=shape) * np.sqrt(2 / np.prod(shape[:-1]))).astype(np.float32)

    apply, params, shape = {"mlp": _mlp, "cnn": _cnn, "resnet": _resnet}[name](weight)
    return apply, params, rng.normal(size=(rows, *shape)).astype(np.float32)


def _mlp(weight: Any) -> Any:
    sizes = (64, 1024, 1024, 1024, OUTPUTS)
    params = [(weight(a, b), np.zeros(b, np.float32)) for a, b in itertools.pairwise(sizes)]

    def apply(params: Any, x: Any) -> Any:
        for w, b in params[:-1]:
            x = jax.nn.relu(x @ w + b)
        w, b = params[-1]
        return x @ w + b

    return apply, params, (64,)


def _conv(x: Any, w: Any, stride: int = 1) -> Any:
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _cnn(weight: Any) -> Any:
    channels = (3, 64, 64, 64)
    kernels = [weight(3, 3, a, b) for a, b in itertools.pairwise(channels)]

    def apply(params: Any, x: Any) -> Any:
        for w in params["conv"]:
            x = jax.nn.relu(_conv(x, w))
        return jnp.mean(x, axis=(1, 2)) @ params["out"]

    return apply, {"conv": kernels, "out": weight(64, OUTPUTS)}, (16, 16, 3)


def _resnet(weight: Any) -> Any:
    stages = ((32, 32, 1), (32, 64, 2), (64, 128, 2))
    blocks = [(weight(3, 3, a, b), weight(3, 3, b, b), weight(1, 1, a, b)) for a, b, _ in stages]

    def apply(params: Any, x: Any) -> Any:
        x = _conv(x, params["stem"])
        for (first, second, across), (_, _, stride) in zip(params["blocks"], stages, strict=True):
            h = jax.nn.relu(x)
            x = _conv(jax.nn.relu(_conv(h, first, stride)), second) + _conv(h, across, stride)
        return jnp.mean(jax.nn.relu(x), axis=(1, 2)) @ params["out"]

    return apply, {"stem": weight(3, 3, 3, 32), "blocks": blocks, "out": weight(128, OUTPUTS)}, (16, 16, 3)
