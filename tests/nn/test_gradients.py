"""Transformations of kernels: second derivatives, both modes, vmap. First derivatives are in the battery."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from widetail import nn

from .zoo import named


def relu_erf(weight_var):
    return nn.Sequential(
        nn.Dense(weight_var=weight_var, bias_var=0.1),
        nn.Relu(),
        nn.Dense(weight_var=weight_var, bias_var=0.2),
        nn.Erf(),
    )


@pytest.fixture(scope="module")
def x():
    return named("relu").inputs()


def total_nngp(weight_var, x):
    return jnp.sum(jnp.sin(relu_erf(weight_var).kernel(x, get="nngp").nngp))


def test_second_derivatives(x):
    with jax.enable_x64(True):
        first = jax.jit(jax.grad(total_nngp))
        second = jax.jit(jax.hessian(total_nngp))(1.3, x)
        difference = (first(1.3 + 1e-5, x) - first(1.3 - 1e-5, x)) / 2e-5
    np.testing.assert_allclose(second, difference, rtol=1e-7)


def test_forward_mode_equals_reverse_mode(x):
    with jax.enable_x64(True):
        _, forward = jax.jit(lambda w, x: jax.jvp(lambda w: total_nngp(w, x), (w,), (1.0,)))(1.3, x)
        reverse = jax.jit(jax.grad(total_nngp))(1.3, x)
    np.testing.assert_allclose(forward, reverse, rtol=1e-12)


def test_vmap_over_a_variance(x):
    variances = np.array([0.5, 1.0, 2.0])
    with jax.enable_x64(True):
        many = jax.jit(jax.vmap(lambda w, x: relu_erf(w).kernel(x), in_axes=(0, None)))(variances, x)
    for i, weight_var in enumerate(variances):
        one = relu_erf(float(weight_var)).kernel(x)
        np.testing.assert_allclose(many.nngp[i], one.nngp, atol=1e-7)
        np.testing.assert_allclose(many.ntk[i], one.ntk, atol=1e-7)


def test_vmap_over_data_sets():
    x = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
    net = relu_erf(1.1)
    many = jax.jit(jax.vmap(net.kernel))(x)
    for i in range(2):
        np.testing.assert_allclose(many.nngp[i], net.kernel(x[i]).nngp, rtol=1e-5)


def test_without_the_x64_flag_a_transformation_is_in_single_precision(x):
    """The flag decides inside a transformation, quietly, also for one variance per feature."""
    total = jax.grad(lambda w: jnp.sum(nn.Sequential(nn.Dense(weight_var=w), nn.Relu()).kernel(x).nngp))
    gradient = jax.jit(total)(jnp.ones(3))
    assert gradient.dtype == jnp.float32
    assert np.all(np.isfinite(gradient))


def test_gradients_in_a_whole_network(x):
    """By JAX and by Equinox, which passes over Python floats."""

    def loss(net):
        return jnp.sum(net.kernel(x, get="nngp").nngp)

    net = relu_erf(1.3)
    with jax.enable_x64(True):
        whole = jax.jit(jax.grad(loss))(net)
        filtered = eqx.filter_jit(eqx.filter_grad(loss))(net)
    assert jax.tree.structure(whole) == jax.tree.structure(net)
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(filtered), strict=True):
        assert np.asarray(a) != 0
        np.testing.assert_allclose(a, b, rtol=1e-12)
