"""Models as users of Flax NNX write them."""

import jax
import jax.numpy as jnp
from flax import nnx


class MLP(nnx.Module):
    def __init__(self, width, rngs):
        self.linear1 = nnx.Linear(3, width, rngs=rngs)
        self.dropout = nnx.Dropout(rate=0.1, rngs=rngs)
        self.linear2 = nnx.Linear(width, width, rngs=rngs)
        self.linear3 = nnx.Linear(width, 1, rngs=rngs)

    def __call__(self, x):
        x = nnx.relu(self.dropout(self.linear1(x)))
        return self.linear3(nnx.relu(self.linear2(x)))


class CNN(nnx.Module):
    def __init__(self, width, rngs):
        self.conv1 = nnx.Conv(1, width, kernel_size=(3, 3), rngs=rngs)
        self.conv2 = nnx.Conv(width, 2 * width, kernel_size=(3, 3), rngs=rngs)
        self.linear1 = nnx.Linear(8 * width, width, rngs=rngs)
        self.linear2 = nnx.Linear(width, 3, rngs=rngs)

    def __call__(self, x):
        x = nnx.avg_pool(nnx.relu(self.conv1(x)), (2, 2), strides=(2, 2))
        x = nnx.relu(self.conv2(x))
        x = x.reshape(x.shape[0], -1)
        return self.linear2(nnx.relu(self.linear1(x)))


class ResBlock(nnx.Module):
    def __init__(self, inputs, outputs, strides, rngs):
        self.conv1 = nnx.Conv(inputs, outputs, (3, 3), strides=strides, use_bias=False, rngs=rngs)
        self.conv2 = nnx.Conv(outputs, outputs, (3, 3), use_bias=False, rngs=rngs)
        self.project = nnx.Conv(inputs, outputs, (1, 1), strides=strides, use_bias=False, rngs=rngs)

    def __call__(self, x):
        y = self.conv2(nnx.relu(self.conv1(nnx.relu(x))))
        return y + self.project(x)


class ResNet(nnx.Module):
    """As ResNet-18 without batch statistics: stages that halve the image and double the channels."""

    def __init__(self, width, rngs):
        self.stem = nnx.Conv(1, width, (3, 3), use_bias=False, rngs=rngs)
        self.blocks = nnx.List([ResBlock(width, width, 1, rngs), ResBlock(width, 2 * width, 2, rngs)])
        self.head = nnx.Linear(2 * width, 2, rngs=rngs)

    def __call__(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(jnp.mean(nnx.relu(x), axis=(1, 2)))


class MixerBlock(nnx.Module):
    """Channels are mixed by an MLP, tokens by a fixed average, as in simple mixers."""

    def __init__(self, width, rngs):
        self.norm = nnx.RMSNorm(width, rngs=rngs)
        self.up = nnx.Linear(width, 2 * width, rngs=rngs)
        self.down = nnx.Linear(2 * width, width, rngs=rngs)

    def __call__(self, x):
        x = x + jnp.mean(x, axis=1, keepdims=True)
        return x + self.down(nnx.gelu(self.up(self.norm(x))))


class Mixer(nnx.Module):
    def __init__(self, width, rngs):
        self.stem = nnx.Linear(3, width, rngs=rngs)
        self.block = MixerBlock(width, rngs)
        self.head = nnx.Linear(width, 1, use_bias=False, rngs=rngs)

    def __call__(self, x):
        return self.head(self.block(self.stem(x)).mean(axis=1))


class LSTM(nnx.Module):
    def __init__(self, width, rngs):
        self.wide = nnx.Linear(width, 4 * width, use_bias=False, rngs=rngs)
        self.inputs = nnx.Linear(3, 4 * width, rngs=rngs)
        self.head = nnx.Linear(width, 1, rngs=rngs)
        self.width = width

    def __call__(self, xs):
        def step(carry, x):
            h, c = carry
            i, f, g, o = jnp.split(self.wide(h) + self.inputs(x), 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        start = jnp.zeros((xs.shape[0], self.width), xs.dtype)
        (h, _), _ = jax.lax.scan(step, (start, start), jnp.swapaxes(xs, 0, 1))
        return self.head(h)


class InGroups(nnx.Module):
    """A filter per channel and then a mix of channels, as in mobile networks; or a few groups of many channels."""

    def __init__(self, width, rngs, groups=None):
        self.stem = nnx.Conv(1, width, (3, 3), rngs=rngs)
        self.filters = nnx.Conv(width, width, (3, 3), feature_group_count=groups or width, use_bias=False, rngs=rngs)
        self.mix = nnx.Conv(width, width, (1, 1), rngs=rngs)
        self.head = nnx.Linear(width, 1, rngs=rngs)

    def __call__(self, x):
        x = nnx.relu(self.stem(x))
        x = nnx.relu(self.mix(self.filters(x)))
        return self.head(jnp.mean(x, axis=(1, 2)))


class AllConvolutions(nnx.Module):
    def __init__(self, width, rngs):
        self.first, self.head = nnx.Conv(1, width, (3, 3), rngs=rngs), nnx.Conv(width, 1, (1, 1), rngs=rngs)

    def __call__(self, x):
        return self.head(nnx.relu(self.first(x))).mean(axis=(1, 2))


class PerPosition(nnx.Module):
    """The mean of what is read out at every position."""

    def __init__(self, width, rngs):
        self.first, self.second = nnx.Linear(3, width, rngs=rngs), nnx.Linear(width, width, rngs=rngs)
        self.head = nnx.Linear(width, 1, rngs=rngs)

    def __call__(self, x):
        return self.head(nnx.relu(self.second(nnx.relu(self.first(x))))).mean(axis=1)


def made(kind):
    return lambda width, key: kind(width, nnx.Rngs(key))
