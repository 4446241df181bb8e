"""Every kernel against its own finite networks.

The mean over many networks of the features' second moments estimates the NNGP kernel, the mean of the empirical
tangent kernel estimates the NTK. Each entry may differ from the limit by five standard errors of that mean, plus the
bias of a finite width, as a fraction of the largest entry of the kernel. With 2000 networks of width 32 the bias was
1.5 / width at most (dropout), and 6 / width behind the softmax, whose logits are themselves a mean over the width.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from widetail import nn

from .zoo import ACTIVATIONS, COMPOSITIONS, IMAGE, SEQUENCE, Case, over

STANDARD_ERRORS = 5
BIAS, SOFTMAX_BIAS = 2, 8

_dense = nn.Dense(weight_var=1.4, bias_var=0.1)
WINDOWS = [
    Case(
        f"conv_{padding}_window_{window}_strides_{strides}_{'x'.join(map(str, shape[:-1]))}",
        nn.Sequential(nn.Conv(window, weight_var=1.5, bias_var=0.1, strides=strides, padding=padding), nn.Relu(), end),
        shape,
    )
    for padding, window, strides, shape, end in [
        ("SAME", 2, 2, SEQUENCE, nn.Flatten()),
        ("VALID", 2, 1, SEQUENCE, nn.GlobalAvgPool()),
        ("CIRCULAR", 3, 1, SEQUENCE, nn.GlobalAvgPool()),
        ("SAME", (2, 3), (2, 1), IMAGE, nn.GlobalAvgPool()),
        ("VALID", 2, 1, IMAGE, nn.Flatten()),
        ("CIRCULAR", (3, 2), (1, 2), IMAGE, nn.GlobalAvgPool()),
    ]
]


def sample_kernels(network, keys, x):
    """Features' second moments and the empirical tangent kernel of one network per key."""

    def one(key):
        init_key, mask_key = jax.random.split(key)
        parameters = network.init(init_key, x.shape[1:])
        features = network.features(parameters, x, key=mask_key)
        jacobian = jax.jacrev(lambda p: network.apply(p, x, key=mask_key)[:, 0])(parameters)
        flat = jnp.concatenate([leaf.reshape(len(x), -1) for leaf in jax.tree.leaves(jacobian)], axis=1)
        return features @ features.T / features.shape[1], flat @ flat.T

    return jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=32))(keys)


def check(case, width, networks):
    x = case.generic(3, np.float32)
    keys = jax.random.split(jax.random.key(7), networks)
    samples = sample_kernels(case.net.at_width(width), keys, jnp.asarray(x))
    for name, limit, drawn in zip(("nngp", "ntk"), case.net.kernel(x.astype(float)), samples, strict=True):
        drawn = np.asarray(drawn, float)
        error = np.std(drawn, axis=0, ddof=1) / np.sqrt(networks)
        bias = SOFTMAX_BIAS if case.name == "attention_softmax" else BIAS
        allowed = STANDARD_ERRORS * error + bias / width * np.max(limit)
        gap = np.abs(np.mean(drawn, axis=0) - limit)
        assert np.all(gap <= allowed), (name, np.mean(drawn, axis=0), limit, gap / allowed)
        assert np.all(STANDARD_ERRORS * error < 0.25 * np.max(limit)), "too few networks to say anything"


QUICK = ["relu", "resnet", "dropout"]
# the same layers in other places; compiling a network and its Jacobian takes two seconds
OTHERS = ["gelu", "elementwise", "ard", "sum", "conv1d_dense", "attention_linear", "pool_then_activation", "sum_pool"]
OTHERS += ["attention_softmax", "conv_circular_strides", "concatenate", "layer_norm", "conv_valid_strides"]
ALL = ACTIVATIONS + COMPOSITIONS + WINDOWS


@over([case for case in ALL if case.name in QUICK + OTHERS], slow=OTHERS)
def test_finite_networks_approach_the_limit(case):
    check(case, width=32 if case.shape == IMAGE else 64, networks=128 if case.shape == IMAGE else 256)


@pytest.mark.slow
@over(ALL)
def test_many_wide_networks_approach_the_limit(case):
    check(case, width=64 if case.shape == IMAGE else 128, networks=300 if case.shape == IMAGE else 1500)
