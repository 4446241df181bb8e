"""Where `nn` has the same architecture, both kernels are the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from widetail import nn, programs

from .zoo import IMAGES, SEQUENCES, VECTORS

_dense = nn.Dense(weight_var=2.0, bias_var=0.1)
_conv = nn.Conv(3, weight_var=2.0, bias_var=0.1)
_each = nn.Conv(1, weight_var=2.0, bias_var=0.1)

SLOW = ("mlp_any", "mlp_sin", "mlp_erf", "cnn_even_window", "cnn_2d", "cnn_1d", "mlp_tanh", "attention")
PAIRS = {
    "mlp_relu": (programs.mlp(depth=3), nn.mlp(3, "relu"), VECTORS),
    "mlp_erf": (programs.mlp(fn=jax.scipy.special.erf), nn.mlp(2, "erf"), VECTORS),
    "mlp_tanh": (programs.mlp(fn=jnp.tanh), nn.mlp(2, "tanh"), VECTORS),
    "mlp_gelu": (programs.mlp(fn=nn.Gelu()), nn.mlp(2, "gelu"), VECTORS),
    "mlp_sin": (programs.mlp(fn=nn.Sin(0.7, 0.2)), nn.mlp(2, nn.Sin(0.7, 0.2)), VECTORS),
    "mlp_any": (programs.mlp(fn=jax.nn.silu), nn.mlp(2, nn.Elementwise(jax.nn.silu)), VECTORS),
    "resnet": (programs.resnet(blocks=3), nn.resnet(3), VECTORS),
    "layer_norm": (
        programs.layer_norm_mlp,
        nn.Sequential(_dense, nn.LayerNorm(), nn.Relu(), _dense, nn.LayerNorm(), nn.Relu()),
        VECTORS,
    ),
    "cnn_1d": (programs.cnn, nn.cnn(2, window=(3,), pooling=True), SEQUENCES),
    "cnn_2d": (programs.cnn, nn.cnn(2, pooling=True), IMAGES),
    "cnn_even_window": (programs.cnn(window=2), nn.cnn(2, window=(2,), pooling=True), SEQUENCES),
    "attention": (
        programs.self_attention(query_var=0.9, value_var=0.8, output_var=0.7),
        nn.Sequential(_each, nn.Relu(), nn.SelfAttention(weight_var=0.56, query_key_var=0.81), nn.GlobalAvgPool()),
        SEQUENCES,
    ),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in PAIRS])
def test_programs_and_layers_agree(name):
    program, net, x = PAIRS[name]
    found, expected = program.kernel(x), net.kernel(x)
    part = program.kernel(x[:2], x[1:])
    for kind in ("nngp", "ntk"):
        wanted = getattr(expected, kind)
        np.testing.assert_allclose(getattr(found, kind), wanted, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(getattr(part, kind), wanted[:2, 1:], rtol=1e-10, atol=1e-9)


def test_relevance_of_features():
    relevances = np.array([0.5, 1.0, 2.0, 0.1])

    @programs.program
    def ard(p, x, *, var=(0.5, 1.0, 2.0, 0.1)):
        return p.nonlin(jax.nn.relu, p.input_matrix(var) @ x + p.bias(0.1))

    net = nn.Sequential(nn.Dense(weight_var=relevances, bias_var=0.1), nn.Relu())
    np.testing.assert_array_equal(ard.variances["U"], relevances)
    np.testing.assert_allclose(ard.kernel(VECTORS, get="nngp").nngp, net.kernel(VECTORS, get="nngp").nngp, rtol=1e-10)


@pytest.mark.slow
def test_heads_attend_alike_in_the_limit():
    one, many = (programs.self_attention(heads=heads).kernel(SEQUENCES, get="nngp").nngp for heads in (1, 3))
    np.testing.assert_allclose(many, one, rtol=1e-12)


@pytest.mark.parametrize(
    "spelling",
    [
        lambda z: jnp.maximum(z, 0),
        lambda z: jnp.maximum(0.0, z),
        lambda z: jnp.where(z > 0, z, 0),
        lambda z: jax.nn.relu(z),
        nn.Relu(),
    ],
)
def test_spellings_of_the_relu_find_its_closed_form(spelling):
    found = programs.mlp(fn=spelling).kernel(VECTORS, get="nngp").nngp
    np.testing.assert_allclose(found, nn.mlp(2, "relu").kernel(VECTORS, get="nngp").nngp, rtol=1e-12)
