"""Architectures by name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from widetail import nn


def test_mlp():
    assert repr(nn.mlp(2, "erf", weight_var=1.5, bias_var=0.2)) == (
        "nn.Sequential(nn.Dense(weight_var=1.5, bias_var=0.2), nn.Erf(), "
        "nn.Dense(weight_var=1.5, bias_var=0.2), nn.Erf())"
    )


@pytest.mark.parametrize("weights", [[1.0, 3.0], (1.0, 3.0), np.array([1.0, 3.0]), jnp.array([1.0, 3.0])])
def test_one_variance_per_feature_goes_to_the_first_layer(weights):
    first, _, second, _ = nn.mlp(2, weight_var=weights).layers
    np.testing.assert_array_equal(first.weight_var, [1.0, 3.0])
    assert second.weight_var == 2.0


@pytest.mark.parametrize("weight_var", [1.5, np.float64(1.5), np.array(1.5), jnp.float32(1.5)])
def test_one_variance_goes_to_every_layer(weight_var):
    assert [float(layer.weight_var) for layer in nn.mlp(2, weight_var=weight_var).layers[::2]] == [1.5, 1.5]


@pytest.mark.parametrize(
    ("activation", "layer"),
    [
        ("ReLU", nn.Relu()),
        ("leakyrelu", nn.LeakyRelu()),
        (nn.Sin(2.0), nn.Sin(2.0)),
        (jax.nn.silu, nn.Elementwise(jax.nn.silu)),
    ],
)
def test_activations(activation, layer):
    assert repr(nn.mlp(1, activation).layers[1]) == repr(layer)


def test_cnn_and_resnet():
    assert nn.cnn(1).layers[-1] == nn.Flatten()
    assert nn.cnn(1, pooling=True).layers[-1] == nn.GlobalAvgPool()
    assert not nn.cnn(2).needs_all_pairs(False)
    assert nn.cnn(2, pooling=True).needs_all_pairs(False)
    assert [type(layer).__name__ for layer in nn.resnet(2).layers] == ["Dense", "Residual", "Residual", "Relu"]


def test_images_without_channels_are_refused():
    with pytest.raises(ValueError, match=r"channel axis, x\[\.\.\., None\]"):
        nn.cnn(2).kernel(np.ones((3, 8, 8)))
    assert nn.cnn(1, window=(3,)).kernel(np.ones((3, 8, 2))).nngp.shape == (3, 3)


@pytest.mark.parametrize("builder", [nn.mlp, nn.cnn, nn.resnet])
def test_a_width_in_the_place_of_the_depth_is_refused(builder):
    with pytest.raises(ValueError, match=r"at most 50; got 512.*at_width\(512\)"):
        builder(512)
    assert builder(3) == builder(3)
