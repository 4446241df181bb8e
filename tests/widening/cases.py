"""Twenty models with the shapes of their inputs, and networks or programs that have the same limit."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import widetail as wt
from tests.widening.models import equinox_models, flax_models, plain_models
from widetail import nn, programs

VAR = {"*weight": 2.0, "*bias": 0.1}
FLAX = {"*kernel": 2.0, "*bias": 0.1}


@dataclasses.dataclass(frozen=True)
class Case:
    make: Any
    input_shape: tuple[int, ...]
    variances: Any = None
    same: Any = None
    engine: str = "program"


@programs.program
def gated(p, x):
    h = p.nonlin(jnp.tanh, p.input_matrix(1.0) @ x)
    return p.nonlin(jax.nn.sigmoid, p.matrix(1.0) @ h) * (p.matrix(1.0) @ h)


@programs.program
def normed(p, x):
    h = p.nonlin(jnp.tanh, p.input_matrix(1.0) @ x)
    scale = p.scalar(lambda square: 1 / jnp.sqrt(square + 1e-6), p.average(h * h))
    return p.nonlin(jnp.cos, p.matrix(1.0) @ (scale * h))


@programs.program
def tied(p, x):
    u, w = p.input_matrix(1.0), p.matrix(1.0)
    h = p.nonlin(jnp.tanh, u @ x)
    return p.nonlin(jnp.tanh, w @ p.nonlin(jnp.tanh, w @ h))


class OfTokens:
    """A network on rows of ones and zeros in place of the numbers of tokens."""

    def __init__(self, net, count):
        self.net, self.count = net, count

    def kernel(self, x):
        return self.net.kernel((x == np.arange(self.count)).astype(float))


def _plain(*layers):
    return nn.Sequential(*layers)


def _residual_block(strides: int) -> nn.Parallel:
    first, second = nn.Conv(3, strides=strides, weight_var=2.0), nn.Conv(3, weight_var=2.0)
    return nn.Parallel(nn.Sequential(nn.Relu(), first, nn.Relu(), second), nn.Conv(1, strides=strides, weight_var=2.0))


CASES = {
    "equinox mlp": Case(equinox_models.mlp, (3,), VAR, nn.mlp(2, "relu"), "layers"),
    "equinox gelu mlp": Case(equinox_models.gelu_mlp, (3,), VAR, nn.mlp(2, jax.nn.gelu), "layers"),
    "equinox cnn": Case(
        equinox_models.CNN,
        (4, 4, 1),
        VAR,
        _plain(
            nn.Conv(3, weight_var=2.0, bias_var=0.1), nn.Relu(), nn.AvgPool(2),
            nn.Conv(3, weight_var=2.0, bias_var=0.1), nn.Relu(), nn.Flatten(),
        ),
        "layers",
    ),
    "equinox rnn": Case(
        equinox_models.RNN,
        (3, 3),
        {"hidden.weight": 1.6, "inputs.weight": 0.8, "inputs.bias": 0.1},
        programs.rnn,
    ),
    "equinox gru": Case(equinox_models.GRU, (2, 3), {"cell.weight*": 1.0, "cell.bias": 0.1}),
    "equinox transformer": Case(equinox_models.TransformerBlock, (3, 3), {"*weight": 1.5}),
    "flax mlp": Case(flax_models.made(flax_models.MLP), (3,), FLAX, nn.mlp(2, "relu"), "layers"),
    "flax cnn": Case(
        flax_models.made(flax_models.CNN),
        (4, 4, 1),
        FLAX,
        _plain(
            nn.Conv(3, weight_var=2.0, bias_var=0.1), nn.Relu(), nn.AvgPool(2),
            nn.Conv(3, weight_var=2.0, bias_var=0.1), nn.Relu(), nn.Flatten(),
            nn.Dense(weight_var=2.0, bias_var=0.1), nn.Relu(),
        ),
        "layers",
    ),
    "flax resnet": Case(
        flax_models.made(flax_models.ResNet),
        (4, 4, 1),
        FLAX,
        _plain(
            nn.Conv(3, weight_var=2.0), _residual_block(strides=1), _residual_block(strides=2),
            nn.Relu(), nn.GlobalAvgPool(),
        ),
        "layers",
    ),
    "flax mixer": Case(flax_models.made(flax_models.Mixer), (3, 3), {"*kernel": 1.5}),
    "flax lstm": Case(flax_models.made(flax_models.LSTM), (2, 3), {"*kernel": 1.5, "inputs.bias": 0.1}),
    "two layers": Case(plain_models.two_layers, (3,), None, nn.mlp(2, "tanh", weight_var=1.0, bias_var=0.0), "layers"),
    "fourier features": Case(
        plain_models.fourier,
        (3,),
        {"w1": 4.0},
        _plain(nn.Dense(weight_var=4.0), nn.Sin(), nn.Dense(), nn.Relu()),
        "layers",
    ),
    "deep sets": Case(
        plain_models.deep_sets,
        (4, 3),
        None,
        _plain(nn.Conv((1,)), nn.Relu(), nn.GlobalSumPool(), nn.Dense(), nn.Relu()),
        "layers",
    ),
    "graph network": Case(
        plain_models.graph_network,
        (4, 3),
        None,
        _plain(
            nn.Aggregate(plain_models.RING), nn.Conv((1,)), nn.Relu(),
            nn.Aggregate(plain_models.RING), nn.Conv((1,)), nn.Relu(), nn.GlobalAvgPool(),
        ),
    ),
    "gated": Case(plain_models.gated, (3,), None, gated),
    "skip concatenation": Case(
        plain_models.skips,
        (3,),
        None,
        _plain(
            nn.Dense(), nn.Relu(),
            nn.Parallel(nn.Identity(), nn.Sequential(nn.Dense(), nn.Relu()), combine="concatenate"),
        ),
    ),
    "tied": Case(plain_models.tied, (3,), None, tied),
    "embedding": Case(
        plain_models.embedding,
        (4, 1),
        None,
        # rows of a table have variance 1 as they are, those of a layer times fan-in
        OfTokens(_plain(nn.Conv((1,), weight_var=5.0), nn.GlobalAvgPool(), nn.Dense(), nn.Relu()), 5),
    ),
    "residual": Case(
        plain_models.residual,
        (3,),
        None,
        _plain(
            nn.Dense(), nn.Residual(nn.LeakyRelu(0.1), nn.Dense()), nn.Residual(nn.LeakyRelu(0.1), nn.Dense()),
            nn.Elementwise(jax.nn.silu),
        ),
        "layers",
    ),
    "normed": Case(plain_models.normed, (3,), None, normed),
}  # fmt: skip


def inputs(name: str, count: int = 4) -> np.ndarray:
    shape = CASES[name].input_shape
    rng = np.random.default_rng(3)
    if name == "embedding":
        return rng.integers(0, 5, (count, *shape)).astype(float)
    return rng.normal(size=(count, *shape))


def widened(name: str, **options) -> Any:
    case = CASES[name]
    return wt.widen(case.make, case.input_shape, variances=case.variances, **options)
