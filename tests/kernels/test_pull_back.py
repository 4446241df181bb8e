"""Gradients tile by tile against jax.grad of the whole kernel."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from widetail import nn
from widetail.kernels import RBF, KernelValues, Matern
from widetail.kernels.engine import _tiles

VECTORS = np.random.default_rng(0).normal(size=(7, 3))
VECTORS[5], VECTORS[6] = VECTORS[0], 0
IMAGES = np.random.default_rng(1).normal(size=(6, 3, 2, 1))

CASES = {
    "network": (
        nn.Sequential(
            nn.Dense(weight_var=[0.5, 1.0, 2.0], bias_var=0.1),
            nn.Relu(),
            nn.Dense(weight_var=1.2, bias_var=0.3),
            nn.Erf(),
        ),
        VECTORS,
    ),
    "images": (nn.Sequential(nn.Conv(2, weight_var=1.5, bias_var=0.1), nn.Relu(), nn.GlobalAvgPool()), IMAGES),
    "rbf": (RBF(length_scale=[0.5, 1.0, 2.0], variance=1.3), VECTORS),
    "matern": (Matern(length_scale=0.8, variance=1.3, nu=1.5), VECTORS),
}


def by_jax(kernel, cotangent, x1, x2):
    parameters, rest = eqx.partition(kernel, eqx.is_inexact_array_like)

    def loss(parameters):
        values = eqx.combine(parameters, rest).kernel(jnp.asarray(x1), x2 if x2 is None else jnp.asarray(x2))
        return sum(jnp.vdot(k, g) for k, g in zip(values, cotangent, strict=True) if g is not None)

    with jax.enable_x64(True):
        return jax.jit(jax.grad(loss))(jax.tree.map(jnp.asarray, parameters))


def assert_same(found, expected):
    found = jax.tree.leaves(eqx.filter(found, eqx.is_inexact_array_like))
    for a, b in zip(found, jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


# the gradients of pixels are made of the same tiles
EITHER = [pytest.param(name, marks=pytest.mark.slow) if name == "images" else name for name in CASES]


@pytest.mark.parametrize("name", EITHER)
@pytest.mark.parametrize("symmetric", [True, False])
def test_equals_jax_grad(name, symmetric, monkeypatch):
    """With ragged tiles of four rows, equal rows and a cotangent that is not symmetric."""
    monkeypatch.setattr(_tiles, "MAX_TILE_ROWS", 4)
    kernel, x1 = CASES[name]
    x2 = None if symmetric else x1[1:4] + 0.5
    shape = (len(x1), len(x1) if symmetric else 3)
    rng = np.random.default_rng(2)
    cotangent = KernelValues(rng.normal(size=shape), rng.normal(size=shape) if kernel.has_ntk else None)
    assert_same(kernel.pull_back(cotangent, x1, x2), by_jax(kernel, cotangent, x1, x2))


@pytest.mark.parametrize("asked", ["nngp", "ntk"])
def test_one_kernel_only(asked):
    kernel, x = CASES["network"]
    cotangent = KernelValues(**{asked: np.random.default_rng(3).normal(size=(7, 7))})
    assert_same(kernel.pull_back(cotangent, x), by_jax(kernel, cotangent, x, None))


def test_shaped_like_the_kernel():
    kernel, x = CASES["network"]
    gradient = kernel.pull_back(KernelValues(np.ones((7, 7))), x)
    assert jax.tree.structure(gradient) == jax.tree.structure(kernel)
    assert gradient.layers[0].weight_var.shape == (3,)


@pytest.mark.parametrize("dtypes", [(np.float32, np.float64), (np.float64, np.float32)])
def test_the_cotangent_is_taken_to_the_precision_of_the_inputs(dtypes):
    kernel, x = CASES["rbf"]
    cotangent = KernelValues(np.random.default_rng(3).normal(size=(7, 7)).astype(dtypes[1]))
    gradient = kernel.pull_back(cotangent, x.astype(dtypes[0]))
    assert gradient.length_scale.dtype == dtypes[0]


@pytest.mark.parametrize(
    ("cotangent", "message"),
    [
        (KernelValues(), "cotangent must hold an array for nngp, for ntk, or for both; both are None"),
        (KernelValues(np.ones((7, 6))), r"cotangent\.nngp must have the kernel's shape \(7, 7\); got \(7, 6\)"),
        (KernelValues(None, np.ones((7, 7))), r"cotangent\.ntk must be None for RBF, which has no tangent kernel"),
    ],
)
def test_bad_cotangents(cotangent, message):
    with pytest.raises(ValueError, match=message):
        CASES["rbf"][0].pull_back(cotangent, VECTORS)
