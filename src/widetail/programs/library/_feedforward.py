"""Networks on vectors."""

from typing import Any

import jax
import jax.numpy as jnp

from widetail.programs._program import program


@program
def mlp(
    p: Any, x: Any, *, depth: int = 2, fn: Any = jax.nn.relu, weight_var: float = 2.0, bias_var: float = 0.1
) -> Any:
    """A multi-layer perceptron (Neal, 1996; Lee et al., 2018): `nn.mlp` as a program."""
    h = p.nonlin(fn, p.input_matrix(weight_var) @ x + p.bias(bias_var))
    for _ in range(depth - 1):
        h = p.nonlin(fn, p.matrix(weight_var) @ h + p.bias(bias_var))
    return h


@program
def resnet(
    p: Any, x: Any, *, blocks: int = 2, fn: Any = jax.nn.relu, weight_var: float = 2.0, bias_var: float = 0.1
) -> Any:
    """A residual network (He et al., 2016): `nn.resnet` as a program."""
    g = p.input_matrix(weight_var) @ x + p.bias(bias_var)
    for _ in range(blocks):
        g = g + p.matrix(weight_var) @ p.nonlin(fn, g) + p.bias(bias_var)
    return p.nonlin(fn, g)


@program
def tied_mlp(
    p: Any, x: Any, *, depth: int = 3, fn: Any = jnp.tanh, weight_var: float = 2.0, bias_var: float = 0.1
) -> Any:
    """A perceptron whose hidden layers share one matrix and one bias: what no layer of `nn` can express."""
    W, U, b = p.matrix(weight_var), p.input_matrix(weight_var), p.bias(bias_var)
    h = p.nonlin(fn, U @ x + b)
    for _ in range(depth - 1):
        h = p.nonlin(fn, W @ h + b)
    return h


def inverse_root(variance: Any) -> Any:
    """1 / sqrt(v)."""
    return 1 / jnp.sqrt(variance)


def normalise(p: Any, h: Any) -> Any:
    """Layer normalisation (Ba et al., 2016): mean zero and variance one over the width; works on G and H alike."""
    centred = h - p.average(h)
    return centred * p.scalar(inverse_root, p.average(centred * centred))


@program
def layer_norm_mlp(
    p: Any, x: Any, *, depth: int = 2, fn: Any = jax.nn.relu, weight_var: float = 2.0, bias_var: float = 0.1
) -> Any:
    """A perceptron with layer normalisation before every activation (Ba et al., 2016)."""
    h = p.nonlin(fn, normalise(p, p.input_matrix(weight_var) @ x + p.bias(bias_var)))
    for _ in range(depth - 1):
        h = p.nonlin(fn, normalise(p, p.matrix(weight_var) @ h + p.bias(bias_var)))
    return h
