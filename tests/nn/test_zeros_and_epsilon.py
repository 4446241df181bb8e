"""Zeros before and after along each axis; what normalisation adds to the variance."""

import jax
import numpy as np
import pytest

from widetail import nn

RNG = np.random.default_rng(5)
X = RNG.normal(size=(3, 5, 4, 2))


@pytest.mark.parametrize(
    "layer",
    [
        lambda padding: nn.Conv(3, strides=2, bias_var=0.1, padding=padding),
        lambda padding: nn.LocalConv((3, 2), padding=padding),
    ],
    ids=["conv", "local"],
)
def test_zeros_are_those_that_inputs_could_hold_themselves(layer):
    given = nn.Sequential(layer(((1, 2), (0, 3))), nn.Relu(), nn.GlobalAvgPool()).kernel(X)
    held = nn.Sequential(layer("VALID"), nn.Relu(), nn.GlobalAvgPool())
    expected = held.kernel(np.pad(X, ((0, 0), (1, 2), (0, 3), (0, 0))))
    np.testing.assert_allclose(given.nngp, expected.nngp, rtol=1e-12)
    np.testing.assert_allclose(given.ntk, expected.ntk, rtol=1e-12)


def test_zeros_around_windows_of_means():
    net = nn.Sequential(nn.AvgPool((2, 3), (2, 1), ((0, 1), (1, 1))), nn.Conv(1), nn.Relu(), nn.Flatten())
    shown = nn.Sequential(nn.AvgPool((2, 3), (2, 1)), nn.Conv(1), nn.Relu(), nn.Flatten())
    expected = shown.kernel(np.pad(X, ((0, 0), (0, 1), (1, 1), (0, 0))))
    np.testing.assert_allclose(net.kernel(X).ntk, expected.ntk, rtol=1e-12)


def test_finite_networks_have_the_same_zeros():
    net = nn.Sequential(nn.Conv(3, strides=2, padding=((1, 1), (2, 0))), nn.Relu(), nn.Flatten())
    finite = net.at_width(7)
    features = finite.features(finite.init(jax.random.key(0), X.shape[1:]), X.astype(np.float32))
    assert features.shape == (3, 7 * 3 * 2)  # (5 + 2 - 3) // 2 + 1 by (4 + 2 - 3) // 2 + 1


def test_epsilon_is_added_to_the_variance():
    x = RNG.normal(size=(4, 3))
    before = nn.Dense(weight_var=2.0, bias_var=0.3).kernel(x, get="nngp").nngp
    found = nn.Sequential(nn.Dense(weight_var=2.0, bias_var=0.3), nn.LayerNorm(epsilon=0.7)).kernel(x, get="nngp").nngp
    deviations = np.sqrt(np.diag(before) + 0.7)
    np.testing.assert_allclose(found, before / np.outer(deviations, deviations), rtol=1e-12)


def test_what_is_no_padding_is_refused():
    with pytest.raises(ValueError, match=r"zeros before and after along each axis.*got \(\(1, -1\),\)"):
        nn.Conv(3, padding=((1, -1),))
    with pytest.raises(ValueError, match=r"has padding=\(\(1, 1\),\), but it receives images"):
        nn.Sequential(nn.Conv(3, padding=((1, 1),)), nn.GlobalAvgPool()).kernel(X)
    with pytest.raises(ValueError, match="epsilon must be a number, 0 or more"):
        nn.LayerNorm(epsilon=-1.0)
