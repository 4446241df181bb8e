"""Models as plain functions of JAX: pairs (init, apply)."""

import jax
import jax.numpy as jnp
import numpy as np


def normal(key, **shapes):
    keys = jax.random.split(key, len(shapes))
    return {
        name: jax.random.normal(k, shape) / np.sqrt(shape[0])
        for k, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def net(apply, **shapes):
    def init(width, key):
        return normal(key, **{name: tuple(width if s == "n" else s for s in shape) for name, shape in shapes.items()})

    return init, apply


two_layers = net(
    lambda p, x: jnp.tanh(jnp.tanh(x @ p["w1"]) @ p["w2"]) @ p["v"], w1=(3, "n"), w2=("n", "n"), v=("n", 1)
)

fourier = net(
    lambda p, x: jnp.maximum(jnp.sin(x @ p["w1"]) @ p["w2"], 0) @ p["v"], w1=(3, "n"), w2=("n", "n"), v=("n", 1)
)


def _deep_sets(p, xs):
    h = jax.nn.relu(xs @ p["inner"])
    return jax.nn.relu(h.sum(axis=1) @ p["outer"]) @ p["v"]


deep_sets = net(_deep_sets, inner=(3, "n"), outer=("n", "n"), v=("n", 1))

RING = (np.eye(4) + np.roll(np.eye(4), 1, 0) + np.roll(np.eye(4), -1, 0)) / 3


def _graph_network(p, xs):
    h = jax.nn.relu(jnp.einsum("ij,bjc->bic", RING, xs) @ p["w1"])
    h = jax.nn.relu(jnp.einsum("ij,bjc->bic", RING, h) @ p["w2"])
    return jnp.mean(h, axis=1) @ p["v"]


graph_network = net(_graph_network, w1=(3, "n"), w2=("n", "n"), v=("n", 1))


def _gated(p, x):
    h = jnp.tanh(x @ p["w0"])
    return (jax.nn.sigmoid(h @ p["gate"]) * (h @ p["value"])) @ p["v"]


gated = net(_gated, w0=(3, "n"), gate=("n", "n"), value=("n", "n"), v=("n", 1))


def _skips(p, x):
    h1 = jax.nn.relu(x @ p["w1"])
    h2 = jax.nn.relu(h1 @ p["w2"])
    return jnp.concatenate([h1, h2], axis=-1) @ p["v"]


skips = (
    lambda width, key: normal(key, w1=(3, width), w2=(width, width), v=(2 * width, 1)),
    _skips,
)

tied = net(
    lambda p, x: jnp.tanh(jnp.tanh(jnp.tanh(x @ p["u"]) @ p["w"]) @ p["w"]) @ p["v"],
    u=(3, "n"),
    w=("n", "n"),
    v=("n", 1),
)


def _embedding(p, x):
    tokens = x[..., 0].astype(int)
    h = p["table"][tokens]
    return jax.nn.relu(h.mean(axis=1) @ p["w"]) @ p["v"]


embedding = net(_embedding, table=(5, "n"), w=("n", "n"), v=("n", 1))


@jax.checkpoint
def _block(w, h):
    return h + jax.nn.leaky_relu(h, 0.1) @ w


residual = net(
    lambda p, x: jax.nn.silu(_block(p["w2"], _block(p["w1"], x @ p["u"]))) @ p["v"],
    u=(3, "n"), w1=("n", "n"), w2=("n", "n"), v=("n", 1),
)  # fmt: skip


def _normed(p, x):
    h = jnp.tanh(x @ p["u"])
    h = h / jnp.sqrt(jnp.mean(h**2, axis=-1, keepdims=True) + 1e-6)
    return jnp.cos(h @ p["w"]) @ p["v"]


normed = net(_normed, u=(3, "n"), w=("n", "n"), v=("n", 1))


def _added_heads(p, x):
    h = jnp.tanh(x @ p["u"])
    return h @ p["a"] - jax.nn.relu(h @ p["w"]) @ p["b"]


added_heads = net(_added_heads, u=(3, "n"), w=("n", "n"), a=("n", 1), b=("n", 1))
