"""Models in the styles of other people: library layers, masks, ensembles, experts, attention written by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
from flax import nnx

from tests.widening.models.plain_models import net


def sequential(width, key):
    keys = jax.random.split(key, 3)
    return eqx.nn.Sequential(
        [
            eqx.nn.Linear(3, width, key=keys[0]),
            eqx.nn.Lambda(jax.nn.softplus),
            eqx.nn.Linear(width, width, key=keys[1]),
            eqx.nn.LayerNorm(width),
            eqx.nn.Lambda(jax.nn.silu),
            eqx.nn.Dropout(0.3),
            eqx.nn.Linear(width, 2, key=keys[2]),
        ]
    )


class LastState(eqx.Module):
    """Equinox's LSTM cell in a scan."""

    cell: eqx.nn.LSTMCell
    out: eqx.nn.Linear

    def __init__(self, width, key):
        keys = jax.random.split(key)
        self.cell, self.out = eqx.nn.LSTMCell(3, width, key=keys[0]), eqx.nn.Linear(width, 1, key=keys[1])

    def __call__(self, xs):
        start = jnp.zeros(self.cell.hidden_size), jnp.zeros(self.cell.hidden_size)
        (h, _), _ = jax.lax.scan(lambda carry, x: (self.cell(x, carry), None), start, xs)
        return self.out(h)


class MeanState(eqx.Module):
    """Equinox's GRU cell in a scan, and the mean of its states."""

    cell: eqx.nn.GRUCell
    out: eqx.nn.Linear

    def __init__(self, width, key):
        keys = jax.random.split(key)
        self.cell, self.out = eqx.nn.GRUCell(3, width, key=keys[0]), eqx.nn.Linear(width, 1, key=keys[1])

    def __call__(self, xs):
        _, states = jax.lax.scan(lambda h, x: (self.cell(x, h),) * 2, jnp.zeros(self.cell.hidden_size), xs)
        return self.out(states.mean(0))


class CausalAttention(eqx.Module):
    embed: eqx.nn.Linear
    attention: eqx.nn.MultiheadAttention
    out: eqx.nn.Linear

    def __init__(self, width, key):
        keys = jax.random.split(key, 3)
        self.embed, self.out = eqx.nn.Linear(3, width, key=keys[0]), eqx.nn.Linear(width, 1, key=keys[2])
        self.attention = eqx.nn.MultiheadAttention(2, width, key=keys[1])

    def __call__(self, xs):
        h = jax.vmap(self.embed)(xs)
        mask = jnp.tril(jnp.ones((len(xs), len(xs)), bool))
        h = self.attention(h, h, h, mask=mask, process_heads=lambda q, k, v: (q / jnp.sqrt(q.shape[-1]), k, v))
        return self.out(h[-1])


class Signal(eqx.Module):
    """Convolutions over time, groups of channels that are normalised, pooling."""

    first: eqx.nn.Conv1d
    second: eqx.nn.Conv1d
    norm: eqx.nn.GroupNorm
    out: eqx.nn.Linear

    def __init__(self, width, key):
        keys = jax.random.split(key, 3)
        self.first = eqx.nn.Conv1d(2, width, 3, key=keys[0])
        self.second = eqx.nn.Conv1d(width, width, 3, padding=1, key=keys[1])
        self.norm, self.out = eqx.nn.GroupNorm(2, width), eqx.nn.Linear(width, 1, key=keys[2])

    def __call__(self, x):
        h = self.norm(self.second(jnp.tanh(self.first(x))))
        return self.out(eqx.nn.AvgPool1d(2, 2)(jax.nn.relu(h)).mean(-1))


class RootMeanSquare(eqx.Module):
    first: eqx.nn.Linear
    norm: eqx.nn.RMSNorm
    second: eqx.nn.Linear
    slope: eqx.nn.PReLU
    out: eqx.nn.Linear

    def __init__(self, width, key):
        keys = jax.random.split(key, 3)
        self.first, self.second = eqx.nn.Linear(3, width, key=keys[0]), eqx.nn.Linear(width, width, key=keys[1])
        self.norm, self.slope = eqx.nn.RMSNorm(width), eqx.nn.PReLU(0.2)
        self.out = eqx.nn.Linear(width, 1, key=keys[2])

    def __call__(self, x):
        return self.out(self.slope(self.second(self.norm(jax.nn.softplus(self.first(x))))))


class GatedResiduals(eqx.Module):
    """Every branch has a learned number in front."""

    layers: list
    gates: jax.Array
    out: eqx.nn.Linear

    def __init__(self, width, key):
        keys = jax.random.split(key, 4)
        sizes = [(3, width), (width, width), (width, width)]
        self.layers = [eqx.nn.Linear(*size, key=k) for size, k in zip(sizes, keys[:3], strict=True)]
        self.gates, self.out = jnp.array([0.5, 0.25]), eqx.nn.Linear(width, 1, key=keys[3])

    def __call__(self, x):
        h = self.layers[0](x)
        for gate, layer in zip(self.gates, self.layers[1:], strict=True):
            h = h + gate * jnp.tanh(layer(jax.nn.gelu(h)))
        return self.out(h)


class StackedLayers(eqx.Module):
    """Layers side by side in one array, carried out by a scan over them."""

    embed: eqx.nn.Linear
    layers: eqx.nn.Linear
    out: eqx.nn.Linear

    def __init__(self, width, key):
        keys = jax.random.split(key, 3)
        self.embed, self.out = eqx.nn.Linear(3, width, key=keys[0]), eqx.nn.Linear(width, 1, key=keys[2])
        self.layers = eqx.filter_vmap(lambda k: eqx.nn.Linear(width, width, key=k))(jax.random.split(keys[1], 3))

    def __call__(self, x):
        arrays, rest = eqx.partition(self.layers, eqx.is_array)
        h, _ = jax.lax.scan(lambda h, one: (jnp.tanh(eqx.combine(one, rest)(h)), None), self.embed(x), arrays)
        return self.out(h)


class Ensemble(eqx.Module):
    """The mean of three networks, made and called by vmap."""

    members: eqx.nn.MLP

    def __init__(self, width, key):
        self.members = eqx.filter_vmap(lambda k: eqx.nn.MLP(3, 1, width, 2, key=k))(jax.random.split(key, 3))

    def __call__(self, x):
        return eqx.filter_vmap(lambda m, x: m(x), in_axes=(eqx.if_array(0), None))(self.members, x).mean(0)


class MaxPooled(eqx.Module):
    """As the network for digits among Equinox's examples, which takes maxima."""

    layers: list

    def __init__(self, width, key):
        keys = jax.random.split(key, 3)
        self.layers = [
            eqx.nn.Conv2d(1, width, 3, key=keys[0]),
            eqx.nn.MaxPool2d(2, 2),
            jax.nn.relu,
            jnp.ravel,
            eqx.nn.Linear(width, width, key=keys[1]),
            jax.nn.sigmoid,
            eqx.nn.Linear(width, 2, key=keys[2]),
        ]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class StemAndAttention(eqx.Module):
    """Convolutions that are layers of nn, then attention between what they leave, which is not one."""

    first: eqx.nn.Conv2d
    second: eqx.nn.Conv2d
    query: eqx.nn.Linear
    value: eqx.nn.Linear
    out: eqx.nn.Linear

    def __init__(self, width, key):
        keys = jax.random.split(key, 5)
        self.first = eqx.nn.Conv2d(1, width, 3, padding=1, key=keys[0])
        self.second = eqx.nn.Conv2d(width, width, 3, stride=2, padding=1, key=keys[1])
        self.query, self.value = (eqx.nn.Linear(width, width, key=k) for k in keys[2:4])
        self.out = eqx.nn.Linear(width, 1, key=keys[4])

    def __call__(self, x):
        h = self.second(jax.nn.relu(self.first(x)))
        h = h.reshape(h.shape[0], -1).T
        q = jax.vmap(self.query)(jax.nn.gelu(h))
        h = h + jax.nn.softmax(q @ q.T / q.shape[-1], axis=-1) @ jax.vmap(self.value)(h)
        return self.out(jax.nn.relu(h).mean(0))


class TrunkAndGate(eqx.Module):
    """A network, and a gated layer on top that sees its output three times."""

    trunk: eqx.nn.MLP
    gate: eqx.nn.Linear
    value: eqx.nn.Linear
    out: eqx.nn.Linear

    def __init__(self, width, key):
        keys = jax.random.split(key, 4)
        self.trunk = eqx.nn.MLP(3, width, width, 2, key=keys[0])
        self.gate, self.value = (eqx.nn.Linear(width, width, key=k) for k in keys[1:3])
        self.out = eqx.nn.Linear(width, 1, key=keys[3])

    def __call__(self, x):
        h = self.trunk(x)
        return self.out(jax.nn.sigmoid(self.gate(h)) * self.value(h) + jnp.tanh(h))


class TrunkUsedAgain(TrunkAndGate):
    """The same, but what stands on the trunk uses one of its matrices once more."""

    def __call__(self, x):
        h = self.trunk(x)
        return self.out(jax.nn.sigmoid(self.gate(h)) * self.trunk.layers[1](jnp.tanh(h)))


class Normalised(nnx.Module):
    """Batch statistics, a projection to heads and back."""

    def __init__(self, width, rngs):
        self.conv, self.norm = nnx.Conv(1, width, (3, 3), padding="VALID", rngs=rngs), nnx.BatchNorm(width, rngs=rngs)
        self.heads = nnx.LinearGeneral(width, (4, width), rngs=rngs)
        self.merge = nnx.LinearGeneral((4, width), width, axis=(-2, -1), rngs=rngs)
        self.out = nnx.Linear(width, 1, rngs=rngs)

    def __call__(self, x):
        h = nnx.relu(self.norm(self.conv(x))).mean(axis=(1, 2))
        return self.out(jnp.tanh(self.merge(nnx.relu(self.heads(h)))))


class LayerNormMLP(nnx.Module):
    """A chain that layers of nn have."""

    def __init__(self, width, rngs):
        self.first, self.norm = nnx.Linear(3, width, rngs=rngs), nnx.LayerNorm(width, epsilon=0.1, rngs=rngs)
        self.second, self.scale = nnx.Linear(width, width, rngs=rngs), nnx.RMSNorm(width, epsilon=0.2, rngs=rngs)
        self.out = nnx.Linear(width, 1, rngs=rngs)

    def __call__(self, x):
        return self.out(nnx.relu(self.scale(self.second(nnx.relu(self.norm(self.first(x)))))))


class OwnRecurrence(nnx.Module):
    """Flax's own recurrent cell in its own loop."""

    def __init__(self, width, rngs):
        self.rnn = nnx.RNN(nnx.SimpleCell(3, width, rngs=rngs))
        self.out = nnx.Linear(width, 1, rngs=rngs)

    def __call__(self, x):
        return self.out(self.rnn(x)[:, -1])


def _per_position(p, x):
    """A matrix of its own for every position."""
    h = jnp.tanh(jnp.einsum("btc,tcd->btd", jax.nn.relu(x @ p["u"]), p["w"]))
    return h.mean(1) @ p["v"]


matrix_per_position = net(_per_position, u=(3, "n"), w=(4, "n", "n"), v=("n", 1))


def _padded(p, x):
    """Attention between the positions that a flag of the data says are there."""
    there = x[..., -1] > -1.0
    h = jnp.tanh(x[..., :3] @ p["u"])
    q = h @ p["q"]
    logits = jnp.where(there[:, None, :], jnp.einsum("btc,bsc->bts", q, q) / q.shape[-1], -1e9)
    h = jnp.tanh(jax.nn.softmax(logits, axis=-1) @ (h @ p["w"])) * there[..., None]
    return (h.sum(1) / there.sum(1, keepdims=True)) @ p["v"]


padded = net(_padded, u=(3, "n"), q=("n", "n"), w=("n", "n"), v=("n", 1))


def _experts(p, x):
    gates = jax.nn.softmax(x[..., :2], axis=-1)
    h = jax.nn.relu(jnp.einsum("bf,efc->bec", x, p["u"]))
    return jnp.einsum("be,bec->bc", gates, jnp.tanh(jnp.einsum("bec,ecd->bed", h, p["w"]))) @ p["v"]


experts = net(_experts, u=(2, 3, "n"), w=(2, "n", "n"), v=("n", 1))


def _cosines(p, x):
    """Attention by the angles of queries and keys."""
    h = jnp.tanh(x @ p["u"])
    q, k = (v / jnp.linalg.norm(v, axis=-1, keepdims=True) for v in (h @ p["q"], h @ p["k"]))
    return jnp.tanh(jax.nn.softmax(4 * q @ jnp.swapaxes(k, 1, 2), axis=-1) @ h @ p["w"]).mean(1) @ p["v"]


cosines = net(_cosines, u=(3, "n"), q=("n", "n"), k=("n", "n"), w=("n", "n"), v=("n", 1))


def _neighbours(p, x):
    """Points that see each other by their distance."""
    apart = jnp.sum((x[:, :, None] - x[:, None]) ** 2, axis=-1)
    return jnp.einsum("bts,bsc->btc", jnp.exp(-apart), jnp.tanh(x @ p["u"])).mean(1) @ p["v"]


neighbours = net(_neighbours, u=(3, "n"), v=("n", 1))


def _modulated(p, x):
    h = jnp.tanh(x[:, 2:] @ p["u"])
    return ((1 + x[:, :2] @ p["gain"]) * h * (x[:, :1] > 0) + x[:, :2] @ p["shift"]) @ p["v"]


modulated = net(_modulated, u=(1, "n"), gain=(2, "n"), shift=(2, "n"), v=("n", 1))


def _skip_from_input(p, x):
    return jax.nn.relu(jnp.concatenate([jnp.tanh(x @ p["u"]), x], axis=-1) @ p["w"]) @ p["v"]


skip_from_input = (
    lambda width, key: (
        net(_skip_from_input, u=(3, "n"), w=("n", "n"), v=("n", 1))[0](width, key)
        | {"w": jax.random.normal(key, (width + 3, width)) / (width + 3) ** 0.5}
    ),
    _skip_from_input,
)


def _columns(p, x):
    """Two columns of one readout, of different features."""
    h = jnp.tanh(x @ p["u"])
    return h @ p["v"][:, :1] + jax.nn.relu(h @ p["w"]) @ p["v"][:, 1:]


columns = net(_columns, u=(3, "n"), w=("n", "n"), v=("n", 2))


def _counter(p, x):
    def step(carry):
        count, h = carry
        return count + 1, jnp.tanh(h @ p["w"])

    return jax.lax.while_loop(lambda carry: carry[0] < 3, step, (0, x @ p["u"]))[1] @ p["v"]


counter = net(_counter, u=(3, "n"), w=("n", "n"), v=("n", 1))


def made(kind):
    return lambda width, key: kind(width, nnx.Rngs(key))
