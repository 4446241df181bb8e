"""Kernels of the compat module against what neural-tangents 0.6.5 computed, and against `nn` where that is wrong."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.compat.networks import cases, evaluate, inputs
from widetail import nn
from widetail.compat.neural_tangents import stax

EXPECTED = json.loads((Path(__file__).parent / "neural_tangents.json").read_text())
# neural-tangents takes Hermite polynomials of inputs of variance one only, has NaN where a rectified monomial meets
# equal inputs, and gives the sizes of a resized image to a kernel whose axes it has reversed
THEY_DIFFER = ("Hermite", "RectifiedMonomial", "ImageResize")
QUICK = ("stax.Abs()", "FanInProd", "stax.LayerNorm(axis=(1, 2))")
CASES = [
    pytest.param(*case, marks=[] if any(word in case[0] for word in QUICK) else [pytest.mark.slow]) for case in cases()
]


def test_every_network_has_a_reference():
    names = {expression + (" masked" if is_masked else "") for expression, _, is_masked in cases()}
    assert {name for name in names if not any(word in name for word in THEY_DIFFER)} == set(EXPECTED)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("expression", "kind", "is_masked"), CASES)
def test_network(expression, kind, is_masked):
    with jax.enable_x64(True):
        found = evaluate(expression, kind, is_masked, stax, jnp, jax.jit)
    if any(word in expression for word in THEY_DIFFER):
        assert all(np.all(np.isfinite(found[a][g])) for a in found for g in found[a])
        return
    expected = EXPECTED[expression + (" masked" if is_masked else "")]
    for other in found:
        for get in found[other]:
            theirs = np.asarray(expected[other][get])
            assert_allclose(found[other][get], theirs, rtol=0, atol=2e-7 * np.max(np.abs(theirs)))


@pytest.mark.parametrize(
    ("kind", "layer", "ours"),
    [
        pytest.param("images", stax.ImageResize((-1, 3, 5, -1), "linear"), nn.Resize((3, 5)), marks=pytest.mark.slow),
        ("vectors", stax.Hermite(3), nn.Hermite(3)),
        ("vectors", stax.RectifiedMonomial(2), nn.RectifiedMonomial(2)),
    ],
)
def test_where_they_differ_it_is_what_nn_says(kind, layer, ours):
    x, new = inputs(kind, False)
    first = stax.Conv(4, (2, 2), padding="SAME") if kind == "images" else stax.Dense(4, 1.2, 0.3)
    end = (stax.Relu(), stax.Flatten()) if kind == "images" else ()
    body = (nn.Conv((2, 2)), ours, nn.Relu(), nn.Flatten()) if kind == "images" else None
    net = nn.Sequential(*(body or (nn.Dense(weight_var=1.2**2, bias_var=0.3**2), ours)))
    with jax.enable_x64(True):
        found = stax.serial(first, layer, *end, stax.Dense(1))[2](jnp.asarray(x), jnp.asarray(new), ("nngp", "ntk"))
    expected = net.kernel(x, new)
    assert_allclose(found.nngp, expected.nngp, rtol=1e-9, atol=1e-9 * np.max(expected.nngp))
    assert_allclose(found.ntk, expected.ntk, rtol=1e-6, atol=1e-7 * np.max(expected.ntk))


@pytest.mark.filterwarnings("ignore:stax.ElementwiseNumerical")
def test_a_gaussian_that_grows():
    """Against quadrature while its second moments exist, infinite from there on."""
    x = jnp.array([[0.5, -0.2], [-0.3, 0.4]])
    b = 0.15
    with jax.enable_x64(True):
        found, expected = (  # compiled whole: operation by operation there are a hundred
            jax.jit(
                lambda x, phi=phi: stax.serial(stax.Dense(4, 1.2), phi, stax.Dense(1))[2](x, None, ("nngp", "ntk"))
            )(x)
            for phi in (stax.Gaussian(0.7, b), stax.ElementwiseNumerical(lambda z: 0.7 * jnp.exp(b * z**2), deg=60))
        )
    assert_allclose(found.nngp, expected.nngp, rtol=1e-6)
    assert_allclose(found.ntk, expected.ntk, rtol=1e-6)
    assert np.isinf(stax.serial(stax.Dense(4), stax.Gaussian(1.0, b))[2](20 * x, None, "nngp")[0, 0])
