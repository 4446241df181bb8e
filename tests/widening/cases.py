"""Twenty models with the shapes of their inputs, and networks or programs that have the same limit."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import widetail as wt
from tests.widening.models import equinox_models, flax_models, other_styles, plain_models
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
    tolerance: float = 1e-6  # relative to the roots of both diagonals


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


def _layer_norm(p, h, epsilon=1e-5):
    centred = h - p.average(h)
    return p.scalar(lambda v: 1 / jnp.sqrt(v + epsilon), p.average(centred * centred)) * centred


@programs.program
def transformer(p, xs):
    embed, query, value, up, down = p.input_matrix(1.5), p.matrix(1.5), p.matrix(1.5), p.matrix(1.5), p.matrix(1.5)
    h = [embed @ x for x in xs]
    a = [_layer_norm(p, v) for v in h]
    queries, values = [query @ v for v in a], [value @ v for v in a]
    weights = [p.softmax([p.average(q * k) for k in queries]) for q in queries]
    h = [v + p.weighted_sum(w, values) for v, w in zip(h, weights, strict=True)]
    return p.mean([v + down @ p.nonlin(nn.Relu(), up @ _layer_norm(p, v)) for v in h])


@programs.program
def attention_of_two_heads(p, xs):
    embed = p.input_matrix(1.0)
    h = [embed @ x for x in xs]
    found = list(h)
    for _ in range(2):
        query, key, value, out = p.matrix(1.0), p.matrix(1.0), p.matrix(1.0), p.matrix(0.5)
        weights = [p.softmax([p.average((query @ v) * (key @ w)) for w in h]) for v in h]
        mixed = [out @ p.weighted_sum(w, [value @ v for v in h]) for w in weights]
        found = [v + m for v, m in zip(found, mixed, strict=True)]
    return p.mean([_layer_norm(p, v) for v in found])


@programs.program
def mixer(p, xs):
    stem, up, down = p.input_matrix(1.5), p.matrix(1.5), p.matrix(1.5)
    h = [stem @ x for x in xs]
    h = [v + p.mean(h) for v in h]
    roots = [p.scalar(lambda square: 1 / jnp.sqrt(square + 1e-6), p.average(v * v)) for v in h]
    return p.mean([v + down @ p.nonlin(jax.nn.gelu, up @ (r * v)) for v, r in zip(h, roots, strict=True)])


# Functions of more than two variables are integrated at points, which the order of statements assigns to variables.
# These two take them in the order of the models, from a state of zero, so that both integrate at the same points.


@programs.program
def lstm(p, xs):
    W, U, b = ([make(var) for _ in "ifgo"] for make, var in ((p.matrix, 1.5), (p.input_matrix, 1.5), (p.bias, 0.1)))
    o, i, g = (U[k] @ xs[0] + b[k] for k in (3, 0, 2))
    c = p.nonlin(jax.nn.sigmoid, i) * p.nonlin(jnp.tanh, g)
    h = p.nonlin(jax.nn.sigmoid, o) * p.nonlin(jnp.tanh, c)
    for x in xs[1:]:
        o, f, i, g = (W[k] @ h + U[k] @ x + b[k] for k in (3, 1, 0, 2))
        c = p.nonlin(jax.nn.sigmoid, f) * c + p.nonlin(jax.nn.sigmoid, i) * p.nonlin(jnp.tanh, g)
        h = p.nonlin(jax.nn.sigmoid, o) * p.nonlin(jnp.tanh, c)
    return h


@programs.program
def gru(p, xs):
    W, U, b = ([make(var) for _ in "rzn"] for make, var in ((p.matrix, 1.0), (p.input_matrix, 1.0), (p.bias, 0.1)))
    new, z = (p.nonlin(fn, U[k] @ xs[0] + b[k]) for fn, k in ((jnp.tanh, 2), (jax.nn.sigmoid, 1)))
    h = new - z * new
    for x in xs[1:]:
        w, n, r, z = W[2] @ h, U[2] @ x + b[2], W[0] @ h + U[0] @ x + b[0], W[1] @ h + U[1] @ x + b[1]
        new = p.nonlin(lambda n, r, w: jnp.tanh(n + jax.nn.sigmoid(r) * w), n, r, w)
        h = new + p.nonlin(jax.nn.sigmoid, z) * (h - new)
    return h


class OfTokens:
    """A network on rows of ones and zeros in place of the numbers of tokens."""

    def __init__(self, net, count):
        self.net, self.count = net, count

    def kernel(self, x):
        return self.net.kernel((x == np.arange(self.count)).astype(float))


class OfTokensInPlaces:
    """A network on rows of ones and zeros for five tokens and four places."""

    def __init__(self, net):
        self.net = net

    def kernel(self, x):
        tokens = (x[..., None] == np.arange(5)).astype(float)
        return self.net.kernel(np.concatenate([tokens, np.broadcast_to(np.eye(4), (len(x), 4, 4))], axis=-1))


def _plain(*layers):
    return nn.Sequential(*layers)


def _residual_block(strides: int) -> nn.Parallel:
    first, second = nn.Conv(3, strides=strides, weight_var=2.0), nn.Conv(3, weight_var=2.0)
    return nn.Parallel(nn.Sequential(nn.Relu(), first, nn.Relu(), second), nn.Conv(1, strides=strides, weight_var=2.0))


def _u_net(up) -> nn.Sequential:
    down = nn.Sequential(nn.AvgPool(2), nn.Conv(3, weight_var=2.0), nn.Relu(), up)
    return _plain(
        nn.Conv(3, weight_var=2.0), nn.Relu(), nn.Parallel(nn.Identity(), down, combine="concatenate"),
        nn.Conv(3, weight_var=2.0), nn.Relu(), nn.GlobalAvgPool(),
    )  # fmt: skip


# groups are independent and alike, and filters per channel are mixed: covariances are those of all channels together
IN_GROUPS = _plain(
    nn.Conv(3, weight_var=2.0), nn.Relu(), nn.Conv(3, weight_var=2.0), nn.Conv(1, weight_var=2.0), nn.Relu(),
    nn.GlobalAvgPool(),
)  # fmt: skip

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
    "equinox gru": Case(
        equinox_models.GRU,
        (2, 3),
        {"cell.weight*": 1.0, "cell.bias": 0.1},
        gru,
    ),
    "equinox transformer": Case(equinox_models.TransformerBlock, (3, 3), {"*weight": 1.5}, transformer),
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
    "flax mixer": Case(flax_models.made(flax_models.Mixer), (3, 3), {"*kernel": 1.5}, mixer),
    "flax lstm": Case(
        flax_models.made(flax_models.LSTM),
        (2, 3),
        {"*kernel": 1.5, "inputs.bias": 0.1},
        lstm,
    ),
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
    "equinox u-net": Case(equinox_models.UNet, (4, 4, 1), {"*weight": 2.0}, _u_net(nn.Resize((4, 4), "nearest"))),
    "equinox u-net upwards by a matrix": Case(
        lambda width, key: equinox_models.UNet(width, key, transposed=True),
        (4, 4, 1),
        {"*weight": 2.0},
        _u_net(nn.ConvTranspose(2, strides=2, weight_var=2.0)),
    ),
    "equinox sines": Case(
        equinox_models.Sines,
        (3,),
        None,
        _plain(nn.Dense(weight_var=900.0), nn.Sin(), nn.Dense(), nn.Sin()),
        "layers",
    ),
    "equinox own attention": Case(equinox_models.OwnAttention, (3, 3), None, attention_of_two_heads),
    "flax all convolutions": Case(
        flax_models.made(flax_models.AllConvolutions),
        (4, 4, 1),
        None,
        _plain(nn.Conv(3), nn.Relu(), nn.GlobalAvgPool()),
    ),
    "equinox two heads": Case(
        equinox_models.TwoHeads, (3,), {"*weight": 2.0}, nn.mlp(2, "relu", weight_var=2.0, bias_var=0.0)
    ),
    # both tables are matrices of ones and zeros, whose rows have variance 1 as they are
    "equinox tokens": Case(
        equinox_models.Tokens,
        (4,),
        {"head.*.weight": 2.0},
        OfTokensInPlaces(_plain(nn.Conv(1, weight_var=9.0), nn.GlobalAvgPool(), nn.Dense(weight_var=2.0), nn.Relu())),
    ),
    "flax filter per channel": Case(flax_models.made(flax_models.InGroups), (4, 4, 1), {"*kernel": 2.0}, IN_GROUPS),
    "flax groups": Case(
        flax_models.made(lambda width, rngs: flax_models.InGroups(width, rngs, groups=2)),
        (4, 4, 1),
        {"*kernel": 2.0},
        IN_GROUPS,
    ),
    "flax mean of outputs": Case(
        flax_models.made(flax_models.PerPosition),
        (4, 3),
        {"*kernel": 2.0},
        _plain(nn.Conv(1, weight_var=2.0), nn.Relu(), nn.Conv(1, weight_var=2.0), nn.Relu(), nn.GlobalAvgPool()),
        "layers",
    ),
    "added heads": Case(
        plain_models.added_heads,
        (3,),
        None,
        _plain(nn.Dense(), nn.Tanh()) + _plain(nn.Dense(), nn.Tanh(), nn.Dense(), nn.Relu()),
    ),
}  # fmt: skip


BOTH = {"*weight": 2.0, "*bias": 0.1}
KERNELS = {"*kernel": 2.0, "*bias": 0.1}
ON_TOP = "on top"
# Models in other styles, most of them without a description in layers or as a program: against finite draws.
STYLES = {
    "sequential": Case(other_styles.sequential, (3,), BOTH, engine=ON_TOP),
    "lstm cell": Case(other_styles.LastState, (2, 3), {"*": 1.0, "*bias": 0.1}),
    "gru cell": Case(other_styles.MeanState, (2, 3), {"*weight*": 1.0, "*bias*": 0.1}),
    "causal attention": Case(other_styles.CausalAttention, (3, 3)),
    "groups that are normalised": Case(other_styles.Signal, (2, 6), {"*weight": 1.5}),
    "root mean square": Case(other_styles.RootMeanSquare, (3,)),
    "gated residuals": Case(other_styles.GatedResiduals, (3,)),
    "stacked layers": Case(other_styles.StackedLayers, (3,), {"*weight": 1.5, "*bias": 0.1}),
    "ensemble": Case(other_styles.Ensemble, (3,), {"*weight": 2.0}, nn.mlp(2, "relu", bias_var=0.0) * (1 / 3)),
    "maxima": Case(other_styles.MaxPooled, (1, 4, 4), {"*weight": 2.0}),
    "stem and attention": Case(other_styles.StemAndAttention, (1, 4, 4), BOTH, engine=ON_TOP),
    "trunk and gate": Case(other_styles.TrunkAndGate, (3,), BOTH, engine=ON_TOP),
    "trunk used again": Case(other_styles.TrunkUsedAgain, (3,), BOTH),
    "batch statistics and heads": Case(other_styles.made(other_styles.Normalised), (4, 4, 1), KERNELS),
    "layer norms": Case(
        other_styles.made(other_styles.LayerNormMLP),
        (3,),
        {"*kernel": 2.0},
        _plain(
            nn.Dense(weight_var=2.0), nn.LayerNorm(epsilon=0.1), nn.Relu(),
            nn.Dense(weight_var=2.0), nn.LayerNorm(epsilon=0.2), nn.Relu(),
        ),
        "layers",
    ),
    "matrix per position": Case(other_styles.matrix_per_position, (4, 3)),
    "padded": Case(other_styles.padded, (4, 4)),
    "experts": Case(other_styles.experts, (3,)),
    "cosines": Case(other_styles.cosines, (4, 3)),
    "neighbours": Case(other_styles.neighbours, (4, 3)),
    "modulated": Case(other_styles.modulated, (3,)),
    "skip from input": Case(
        other_styles.skip_from_input, (3,), None, nn.Sequential(nn.Dense(), nn.Tanh(), nn.Dense(), nn.Relu())
    ),
    "columns": Case(
        other_styles.columns,
        (3,),
        None,
        _plain(nn.Dense(), nn.Tanh()) + _plain(nn.Dense(), nn.Tanh(), nn.Dense(), nn.Relu()),
    ),
    "counter": Case(other_styles.counter, (3,)),
    "recurrence of flax": Case(
        other_styles.made(other_styles.OwnRecurrence), (3, 3), KERNELS, programs.rnn(weight_var=2.0, input_var=2.0)
    ),
}  # fmt: skip
ALL = CASES | STYLES


def inputs(name: str, count: int = 4) -> np.ndarray:
    shape = ALL[name].input_shape
    rng = np.random.default_rng(3)
    if name in ("embedding", "equinox tokens"):
        return rng.integers(0, 5, (count, *shape)).astype(float)
    return rng.normal(size=(count, *shape))


def widened(name: str, **options) -> Any:
    case = ALL[name]
    return wt.widen(case.make, case.input_shape, variances=case.variances, **options)
