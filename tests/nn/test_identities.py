"""Networks that must have the same kernels, and recursions written out by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from widetail import nn
from widetail.kernels import RBF

dense, relu = nn.Dense(weight_var=1.4, bias_var=0.1), nn.Relu()
X = np.random.default_rng(0).normal(size=(6, 3))
X[4], X[5] = -X[0], 0
SEQUENCES = np.random.default_rng(1).normal(size=(3, 6, 2))


def assert_same(first, second, x=X, rtol=1e-12):
    for a, b in zip(first.kernel(x), second.kernel(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-14)


EQUAL = {
    "nested": (
        nn.Sequential(nn.Sequential(nn.Dense(weight_var=[1.0, 2.0, 3.0]), relu), nn.Sequential(dense), relu),
        nn.Sequential(nn.Dense(weight_var=[1.0, 2.0, 3.0]), relu, dense, relu),
    ),
    "residual is a sum with the identity": (
        nn.Sequential(dense, nn.Residual(relu, dense), relu),
        nn.Sequential(dense, nn.Parallel(nn.Identity(), nn.Sequential(relu, dense)), relu),
    ),
    "a copy beside itself": (
        nn.Sequential(dense, relu, nn.Parallel(nn.Identity(), nn.Identity(), combine="concatenate"), dense),
        nn.Sequential(dense, relu, dense),
    ),
    "no dropout": (nn.Sequential(dense, nn.Dropout(0.0), relu), nn.Sequential(dense, relu)),
    "leaky relu of slope 0": (nn.Sequential(dense, nn.LeakyRelu(0.0)), nn.Sequential(dense, relu)),
    "leaky relu of slope 1": (nn.Sequential(dense, nn.LeakyRelu(1.0)), dense),
    "leaky relu of slope -1": (nn.Sequential(dense, nn.LeakyRelu(-1.0)), nn.Sequential(dense, nn.Abs())),
    "cosine": (nn.Sequential(dense, nn.Sin(1.3, phase=np.pi / 2)), nn.Sequential(dense, nn.Cos(1.3))),
    "homogeneous": (
        nn.Sequential(nn.Dense(weight_var=3.0), relu, nn.Dense(weight_var=0.5), relu),
        nn.Sequential(nn.Dense(weight_var=0.5), relu, nn.Dense(weight_var=3.0), relu),
    ),
    "layer norm forgets the scale": (
        nn.Sequential(nn.Dense(weight_var=3.0), nn.LayerNorm(), relu),
        nn.Sequential(nn.Dense(weight_var=0.2), nn.LayerNorm(), relu),
    ),
    "a sum of two is one of both variances": (
        nn.Sequential(
            nn.Parallel(nn.Dense(weight_var=0.5, bias_var=0.1), nn.Dense(weight_var=0.9, bias_var=0.2)), relu
        ),
        nn.Sequential(nn.Dense(weight_var=1.4, bias_var=0.3), relu),
    ),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_networks(name):
    assert_same(*EQUAL[name])


def test_random_fourier_features_have_the_gaussian_kernel():
    net = nn.Sequential(nn.Dense(weight_var=1.7), nn.Rbf(gamma=0.6))
    length_scale = np.sqrt(3 / (2 * 0.6 * 1.7))
    np.testing.assert_allclose(net.kernel(X).nngp, RBF(length_scale).kernel(X).nngp, rtol=1e-13)


@pytest.mark.parametrize("weights", ["softmax", "linear"])
def test_attention_sees_no_order_of_positions(weights):
    attention = nn.SelfAttention(weight_var=1.3, query_key_var=0.7, weights=weights)
    net = nn.Sequential(attention, relu, nn.GlobalAvgPool())
    shuffled = SEQUENCES[:, [3, 1, 5, 0, 2, 4]]
    for a, b, c in zip(
        net.kernel(SEQUENCES), net.kernel(shuffled), net.kernel(SEQUENCES.reshape(3, 2, 3, 2)), strict=True
    ):
        np.testing.assert_allclose(b, a, rtol=1e-12)
        np.testing.assert_allclose(c, a, rtol=1e-12)


def test_attention_with_small_logits_is_the_mean_over_positions():
    attended = nn.Sequential(nn.SelfAttention(weight_var=1.3, query_key_var=1e-30), nn.GlobalAvgPool()).kernel(
        SEQUENCES
    )
    mean = np.mean(SEQUENCES, axis=1)
    np.testing.assert_allclose(attended.nngp, 1.3 * mean @ mean.T / 2, rtol=1e-12)


def test_a_circular_convolution_commutes_with_shifts():
    net = nn.Sequential(nn.Conv(3, weight_var=1.5, bias_var=0.1, padding="CIRCULAR"), relu, nn.GlobalAvgPool())
    for a, b in zip(net.kernel(SEQUENCES), net.kernel(np.roll(SEQUENCES, 2, axis=1)), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12)


def relu_step(k11, k22, k12):
    """The two duals of the relu, from the textbook."""
    norm = np.sqrt(k11 * k22)
    t = np.arccos(np.clip(k12 / norm, -1, 1))
    return norm / (2 * np.pi) * (np.sin(t) + (np.pi - t) * np.cos(t)), (np.pi - t) / (2 * np.pi)


def erf_step(k11, k22, k12):
    det = (1 + 2 * k11) * (1 + 2 * k22)
    return 2 / np.pi * np.arcsin(2 * k12 / np.sqrt(det)), 4 / np.pi / np.sqrt(det - 4 * k12**2)


@pytest.mark.parametrize(("activation", "step"), [(nn.Relu(), relu_step), (nn.Erf(), erf_step)])
@pytest.mark.parametrize("depth", [1, 3, 12])
def test_recursion_by_hand(activation, step, depth):
    x = X[:4]
    k = x @ x.T / 3
    theta = np.zeros_like(k)
    for _ in range(depth):
        sigma = 1.7 * k + 0.2
        theta = sigma + 1.7 * theta
        variance = np.diagonal(sigma)
        k, slope = step(variance[:, None], variance[None, :], sigma)
        theta = theta * slope
    found = nn.mlp(depth, activation, weight_var=1.7, bias_var=0.2).kernel(x)
    np.testing.assert_allclose(found.nngp, k, rtol=1e-11)
    np.testing.assert_allclose(found.ntk, theta + k, rtol=1e-6)  # the textbook's angles of equal inputs are off by 1e-8
    is_apart = ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(found.ntk[is_apart], (theta + k)[is_apart], rtol=1e-11)


def test_parameters_may_be_jax_arrays():
    net = nn.Sequential(nn.Dense(weight_var=jnp.float32(1.5), bias_var=jnp.float32(0.25)), relu)
    np.testing.assert_allclose(
        net.kernel(X).nngp, nn.Sequential(nn.Dense(weight_var=1.5, bias_var=0.25), relu).kernel(X).nngp, rtol=1e-14
    )
