"""Models as users of Equinox write them."""

import equinox as eqx
import jax
import jax.numpy as jnp


def mlp(width, key):
    return eqx.nn.MLP(in_size=3, out_size=2, width_size=width, depth=2, activation=jax.nn.relu, key=key)


def gelu_mlp(width, key):
    return eqx.nn.MLP(in_size=3, out_size="scalar", width_size=width, depth=2, activation=jax.nn.gelu, key=key)


class CNN(eqx.Module):
    layers: list

    def __init__(self, width, key):
        key1, key2, key3 = jax.random.split(key, 3)
        self.layers = [
            eqx.nn.Conv2d(1, width, kernel_size=3, padding=1, key=key1),
            jax.nn.relu,
            eqx.nn.AvgPool2d(kernel_size=2, stride=2),
            eqx.nn.Conv2d(width, width, kernel_size=3, padding=1, key=key2),
            jax.nn.relu,
            jnp.ravel,
            eqx.nn.Linear(4 * width, 2, key=key3),
        ]

    def __call__(self, x):
        x = jnp.moveaxis(x, -1, 0)
        for layer in self.layers:
            x = layer(x)
        return x


class RNN(eqx.Module):
    hidden: eqx.nn.Linear
    inputs: eqx.nn.Linear
    out: eqx.nn.Linear
    width: int

    def __init__(self, width, key):
        key1, key2, key3 = jax.random.split(key, 3)
        self.hidden = eqx.nn.Linear(width, width, use_bias=False, key=key1)
        self.inputs = eqx.nn.Linear(3, width, key=key2)
        self.out = eqx.nn.Linear(width, 1, key=key3)
        self.width = width

    def __call__(self, xs):
        def step(h, x):
            return jnp.tanh(self.hidden(h) + self.inputs(x)), None

        h, _ = jax.lax.scan(step, jnp.zeros(self.width), xs)
        return self.out(h)


class GRU(eqx.Module):
    cell: eqx.nn.GRUCell
    out: eqx.nn.Linear

    def __init__(self, width, key):
        key1, key2 = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(3, width, key=key1)
        self.out = eqx.nn.Linear(width, 1, use_bias=False, key=key2)

    def __call__(self, xs):
        h = jnp.zeros(self.cell.hidden_size)
        for x in xs:
            h = self.cell(x, h)
        return self.out(h)


class TransformerBlock(eqx.Module):
    """Pre-norm attention and MLP, with logits scaled by 1/n, which has a limit at one head."""

    embed: eqx.nn.Linear
    query: eqx.nn.Linear
    value: eqx.nn.Linear
    norm1: eqx.nn.LayerNorm
    norm2: eqx.nn.LayerNorm
    up: eqx.nn.Linear
    down: eqx.nn.Linear
    out: eqx.nn.Linear
    scale: float

    def __init__(self, width, key, power=1.0):
        keys = jax.random.split(key, 6)
        self.embed = eqx.nn.Linear(3, width, key=keys[0])
        self.query = eqx.nn.Linear(width, width, use_bias=False, key=keys[1])
        self.value = eqx.nn.Linear(width, width, use_bias=False, key=keys[2])
        self.up = eqx.nn.Linear(width, 2 * width, key=keys[3])
        self.down = eqx.nn.Linear(2 * width, width, key=keys[4])
        self.out = eqx.nn.Linear(width, 1, use_bias=False, key=keys[5])
        self.norm1, self.norm2 = eqx.nn.LayerNorm(width), eqx.nn.LayerNorm(width)
        self.scale = width**-power

    def __call__(self, xs):
        h = jax.vmap(self.embed)(xs)
        a = jax.vmap(self.norm1)(h)
        q = jax.vmap(self.query)(a)
        logits = q @ q.T * self.scale
        h = h + jax.nn.softmax(logits, axis=-1) @ jax.vmap(self.value)(a)
        m = jax.vmap(self.up)(jax.vmap(self.norm2)(h))
        h = h + jax.vmap(self.down)(jax.nn.relu(m))
        return self.out(jnp.mean(h, axis=0))


class UNet(eqx.Module):
    """Down, up again, and a skip that is put beside; upwards by repeating pixels or by a transposed convolution."""

    first: eqx.nn.Conv2d
    down: eqx.nn.Conv2d
    up: eqx.nn.ConvTranspose2d | None
    last: eqx.nn.Conv2d
    head: eqx.nn.Linear

    def __init__(self, width, key, transposed=False):
        keys = jax.random.split(key, 5)
        self.first = eqx.nn.Conv2d(1, width, 3, padding=1, key=keys[0])
        self.down = eqx.nn.Conv2d(width, width, 3, padding=1, key=keys[1])
        self.up = eqx.nn.ConvTranspose2d(width, width, 2, stride=2, key=keys[2]) if transposed else None
        self.last = eqx.nn.Conv2d(2 * width, width, 3, padding=1, key=keys[3])
        self.head = eqx.nn.Linear(width, 1, key=keys[4])

    def __call__(self, x):
        skip = jax.nn.relu(self.first(jnp.moveaxis(x, -1, 0)))
        h = jax.nn.relu(self.down(eqx.nn.AvgPool2d(2, 2)(skip)))
        if self.up is None:
            h = jax.image.resize(h, (h.shape[0], 2 * h.shape[1], 2 * h.shape[2]), "nearest")
        else:
            h = self.up(h)
        h = jax.nn.relu(self.last(jnp.concatenate([skip, h], axis=0)))
        return self.head(h.mean((1, 2)))


class Tokens(eqx.Module):
    """Whole numbers in, a table and positions looked up."""

    table: eqx.nn.Embedding
    positions: jax.Array
    head: eqx.nn.MLP

    def __init__(self, width, key):
        keys = jax.random.split(key, 3)
        self.table = eqx.nn.Embedding(5, width, key=keys[0])
        self.positions = jax.random.normal(keys[1], (4, width))
        self.head = eqx.nn.MLP(width, 1, width, 1, key=keys[2])

    def __call__(self, tokens):
        return self.head(jnp.mean(jax.vmap(self.table)(tokens) + self.positions, axis=0))


class TwoHeads(eqx.Module):
    """A mean and a logarithm of a deviation, from heads of their own."""

    trunk: eqx.nn.MLP
    mean: eqx.nn.Linear
    deviation: eqx.nn.Linear

    def __init__(self, width, key):
        keys = jax.random.split(key, 3)
        self.trunk = eqx.nn.MLP(3, width, width, 1, final_activation=jax.nn.relu, key=keys[0])
        self.mean, self.deviation = (eqx.nn.Linear(width, 1, key=k) for k in keys[1:])

    def __call__(self, x):
        h = self.trunk(x)
        return jnp.concatenate([self.mean(h), self.deviation(h)])


class OwnAttention(eqx.Module):
    """Equinox's own attention with two heads; queries are divided by the root of their size once more."""

    embed: eqx.nn.Linear
    attention: eqx.nn.MultiheadAttention
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __init__(self, width, key):
        keys = jax.random.split(key, 3)
        self.embed = eqx.nn.Linear(3, width, key=keys[0])
        self.attention = eqx.nn.MultiheadAttention(num_heads=2, query_size=width, key=keys[1])
        self.norm = eqx.nn.LayerNorm(width)
        self.head = eqx.nn.Linear(width, 1, key=keys[2])

    def __call__(self, x):
        h = jax.vmap(self.embed)(x)
        h = h + self.attention(h, h, h, process_heads=lambda q, k, v: (q / jnp.sqrt(q.shape[-1]), k, v))
        return self.head(jnp.mean(jax.vmap(self.norm)(h), axis=0))


class Sines(eqx.Module):
    layers: list

    def __init__(self, width, key):
        sizes = [(3, width), (width, width), (width, 1)]
        self.layers = [eqx.nn.Linear(*s, key=k) for s, k in zip(sizes, jax.random.split(key, 3), strict=True)]

    def __call__(self, x):
        first, second, last = self.layers
        return last(jnp.sin(second(jnp.sin(30 * first(x)))))
