"""Finite networks, batches, predictions and empirical kernels of the compat module against each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from widetail import nn
from widetail.compat import neural_tangents as nt
from widetail.compat.neural_tangents import stax

KEY = jax.random.PRNGKey(0)
X = jax.random.normal(KEY, (5, 3))
NEW = jax.random.normal(jax.random.PRNGKey(1), (4, 3))
Y = jax.random.normal(jax.random.PRNGKey(2), (5, 2))
INIT, APPLY, KERNEL = stax.serial(stax.Dense(512, 1.3, 0.2), stax.Relu(), stax.Dense(2, 1.1, 0.1))


@pytest.mark.slow
def test_a_wide_network_has_the_kernel_of_the_limit():
    sampled = nt.monte_carlo_kernel_fn(INIT, APPLY, KEY, 64, vmap_axes=0)(X, NEW, ("nngp", "ntk"))
    limit = KERNEL(X, NEW, ("nngp", "ntk"))
    # 128 outputs: the standard error of a covariance is about 1 / sqrt(128) of it; four of them
    assert np.max(np.abs(sampled.nngp - limit.nngp)) < 4 / np.sqrt(128) * np.max(limit.nngp)
    assert np.max(np.abs(sampled.ntk - limit.ntk)) < 0.05 * np.max(limit.ntk)


@pytest.mark.slow
def test_ways_to_an_empirical_kernel_agree():
    _, params = INIT(KEY, X.shape)
    expected = nt.empirical_ntk_fn(APPLY, trace_axes=())(X, NEW, params)
    for way in nt.NtkImplementation:
        found = nt.empirical_ntk_fn(APPLY, trace_axes=(), vmap_axes=0, implementation=way)(X, NEW, params)
        assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    vector = jnp.ones((4, 2))
    product = nt.empirical_ntk_vp_fn(APPLY, X, NEW, params)(vector)
    assert_allclose(product, jnp.einsum("nmab,mb->na", expected, vector), rtol=1e-3, atol=1e-3)


def test_batches_change_nothing():
    whole = KERNEL(X, NEW)
    parts = nt.batch(KERNEL, batch_size=2)(X, NEW)
    for name in ("nngp", "ntk", "cov1", "cov2"):
        assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-5)
    assert (parts.shape1, parts.shape2) == (whole.shape1, whole.shape2)


@pytest.mark.slow
def test_training_in_closed_form_by_an_equation_and_by_ensembles():
    both = KERNEL(X, None, ("nngp", "ntk"))
    across = KERNEL(NEW, X, "ntk")
    closed = nt.predict.gradient_descent_mse(both.ntk, Y)
    flow = nt.predict.gradient_descent(lambda f, y: 0.5 * jnp.mean((f - y) ** 2), both.ntk, Y)
    times = jnp.array([0.0, 3.0])
    for one, other in zip(closed(times, 0.0, 0.0, across), flow(times, 0.0, 0.0, across), strict=True):
        assert_allclose(one, other, atol=2e-4)
    ensemble = nt.predict.gradient_descent_mse_ensemble(KERNEL, X, Y)
    late = ensemble(t=jnp.inf, x_test=NEW, compute_cov=True)
    end = ensemble(x_test=NEW, compute_cov=True)
    for name in ("nngp", "ntk"):
        assert_allclose(getattr(late, name).mean, getattr(end, name).mean, atol=2e-3)
        assert_allclose(getattr(late, name).covariance, getattr(end, name).covariance, atol=2e-3)
    assert_allclose(ensemble(t=3.0, x_test=NEW, get="ntk"), closed(3.0, None, 0.0, across), atol=1e-4)


def test_linear_models_take_the_names_of_arguments():
    _, params = INIT(KEY, X.shape)
    for model in (nt.linearize(f=APPLY, params=params), nt.taylor_expand(f=APPLY, params=params, degree=1)):
        assert_allclose(model(params, X), APPLY(params, X), rtol=1e-6)


def test_gradients_go_through_pooling_inside_of_jit():
    _, apply, _ = stax.serial(stax.AvgPool((2,), (1,), "SAME", normalize_edges=True), stax.SumPool((2,)))
    x = jnp.arange(6.0).reshape(1, 6, 1)
    slope = jax.jit(jax.grad(lambda x: jnp.sum(apply([(), ()], x))))(x)
    assert_allclose(jnp.sum(slope * x), jnp.sum(apply([(), ()], x)), rtol=1e-5)  # linear


def test_masks_of_finite_networks():
    net = stax.serial(stax.Dense(4, 1.0, 0.5), stax.Relu(), stax.GlobalAvgPool())
    x = np.ones((2, 3, 2), np.float32)
    x[1, 2:] = 7.0
    _, params = net[0](KEY, x.shape)
    short = net[1](params, x[1:, :2])
    assert_allclose(stax.unmask_fn(net[1])(params, x, mask_constant=7.0)[1:], short, rtol=1e-5)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_masks_of_kernels_are_those_of_nn(padding):
    net = stax.serial(
        stax.Conv(4, (3,), (2,), padding), stax.Relu(), stax.SumPool((2,), (1,), padding), stax.Conv(4, (1,)),
        stax.Erf(), stax.GlobalAvgPool(), stax.Dense(1),
    )  # fmt: skip
    same = nn.Masked(
        nn.Conv(3, strides=2, padding=padding), nn.Relu(), nn.SumPool(2, strides=1, padding=padding), nn.Conv(1),
        nn.Erf(), nn.GlobalAvgPool(),
    )  # fmt: skip
    parts = [np.random.default_rng(size).normal(size=(size, 2)) for size in (7, 9)]
    flagged = nn.stack_unequal(parts)
    x = np.where(flagged[..., -1:] > 0, flagged[..., :-1], 7.0)
    assert_allclose(net[2](x, None, "nngp", mask_constant=7.0), same.kernel(flagged, get="nngp").nngp, rtol=2e-5)


def test_what_is_not_supported_says_so():
    with pytest.raises(AttributeError, match="TensorFlow"):
        _ = nt.experimental
    with pytest.raises(ValueError, match="random weights"):
        stax.Relu()[2](X)
    with pytest.warns(UserWarning, match="one device"):
        nt.batch(KERNEL, 2, device_count=2)
    with pytest.raises(ValueError, match="get must name"):
        KERNEL(X, None, "covariance")
    with pytest.raises(ValueError, match="as many axes and features"):
        KERNEL(X, X[:, :1])
    with pytest.raises(ValueError, match="implementation must be one of"):
        nt.empirical_ntk_fn(stax.Relu()[1], implementation=7)
    with pytest.raises(ValueError, match=r"takes inputs with axes NABC; got shape"):
        stax.Conv(4, (3, 3))[2](X)
    with pytest.raises(ValueError, match="padding must be one of 'CIRCULAR', 'SAME', 'VALID'; got 'WRAP'"):
        stax.Conv(4, (3,), padding="WRAP")
