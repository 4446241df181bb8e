"""Means over random networks: each is what its network says, the error is that of the mean, the limit is near."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from widetail import nn
from widetail.empirical import EmpiricalKernel, monte_carlo

X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def test_means_and_errors_are_those_of_the_networks():
    f = nn.mlp(depth=1, activation="erf").at_width(8, outputs=2)
    found = monte_carlo(f, jax.random.key(1), X, X[:2], networks=5, outputs="each")
    draws = [EmpiricalKernel(f, f.init(key, (3,))) for key in jax.random.split(jax.random.key(1), 5)]
    for name in ("nngp", "ntk"):
        each = np.stack([np.asarray(getattr(kernel, name)(X, X[:2], "each")) for kernel in draws])
        np.testing.assert_allclose(getattr(found, name), np.mean(each, axis=0), rtol=1e-6)
        expected = np.std(each, axis=0, ddof=1) / np.sqrt(5)
        np.testing.assert_allclose(getattr(found, f"{name}_error"), expected, rtol=1e-5)


def test_the_limit_is_within_the_errors_and_the_bias_of_the_width():
    net = nn.mlp(depth=1, activation="relu", weight_var=2.0, bias_var=0.1)
    found = monte_carlo(net.at_width(128), jax.random.key(2), X, networks=60, get="ntk")
    assert found.nngp is None
    assert found.nngp_error is None
    limit = net.kernel(X.astype(float)).ntk
    assert np.all(np.abs(found.ntk - limit) < 5 * found.ntk_error + 2 / 128 * np.max(limit))
    assert np.max(found.ntk_error) < 0.1 * np.max(limit)


def test_a_function_needs_a_way_to_draw_its_parameters():
    def apply(params, x):
        return x @ params

    found = monte_carlo(apply, jax.random.key(0), X, networks=3, init=lambda key: jax.random.normal(key, (3, 1)))
    np.testing.assert_allclose(found.ntk, X @ X.T, rtol=1e-5, atol=1e-6)  # whatever the parameters
    with pytest.raises(ValueError, match="init must be given"):
        monte_carlo(apply, jax.random.key(0), X)
    with pytest.raises(ValueError, match="at least 2"):
        monte_carlo(apply, jax.random.key(0), X, networks=1, init=lambda key: jnp.ones((3, 1)))


def test_other_parameters_must_have_the_same_shapes():
    kernel = EmpiricalKernel(lambda params, x: x @ params, jnp.ones((3, 1)))
    with pytest.raises(ValueError, match="structure and the shapes"):
        kernel.with_params(jnp.ones((2, 1)))
