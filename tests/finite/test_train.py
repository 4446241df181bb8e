"""Gradient descent: tangent kernels, the flow, both parametrisations, divergence."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail import finite, nn

NET = nn.mlp(2, "erf", weight_var=2.0, bias_var=0.2)
X = np.array([[-1.0, 0.3], [0.2, 1.0], [1.1, -0.4]])
Y = np.array([0.5, -1.0, 0.3])
X_NEW = np.array([[0.0, 0.0], [2.0, 1.0]])
PRIOR = wt.InverseGamma(3.0, 3.0)


def mean_tangent_kernel(width, beta, networks=12, **options):
    network = finite.ScaledNetwork(NET, width, **options)
    inputs = jnp.asarray(X, jnp.float32)

    def one(key):
        return network.tangent_kernel(network.init(key, (2,), beta), beta, inputs)

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), networks)))


@pytest.mark.parametrize("beta", [0.5, pytest.param(4.0, marks=pytest.mark.slow)])
def test_tangent_kernels_of_both_readouts_are_those_predicted(beta):
    """12 networks of width 400: five standard errors."""
    k = NET.kernel(X)
    nngp, ntk = np.asarray(k.nngp), np.asarray(k.ntk)
    predicted = {"scaled": beta * ntk, "direct": nngp + beta * (ntk - nngp)}
    for readout, expected in predicted.items():
        found = mean_tangent_kernel(400, beta, readout=readout)
        assert np.all(np.abs(found.mean(0) - expected) < 5 * found.std(0) / np.sqrt(12))
        other = predicted["direct" if readout == "scaled" else "scaled"]
        assert np.max(np.abs(found.mean(0) - other)) > 0.2 * np.max(np.abs(other))


@pytest.mark.slow
def test_the_tangent_kernel_approaches_its_limit():
    limit = np.asarray(NET.kernel(X).ntk)
    errors = [np.sqrt(np.mean((mean_tangent_kernel(w, 1.0, 16) - limit) ** 2)) for w in (25, 400)]
    assert errors[1] < errors[0] / 2.5  # a fourth, up to chance


@pytest.mark.slow
def test_the_standard_parametrisation_has_another_tangent_kernel():
    """Trained as they are, readout weights of variance 1 / N count N times as much: the kernel grows with the width."""
    width = 200
    standard = mean_tangent_kernel(width, 1.0, parametrisation="standard").mean(0)
    ntk = mean_tangent_kernel(width, 1.0).mean(0)
    assert np.all(np.diag(standard) > 0.5 * width * np.diag(np.asarray(NET.kernel(X).nngp)))
    assert np.all(np.diag(ntk) < 10)


@pytest.mark.parametrize("readout", ["scaled", pytest.param("direct", marks=pytest.mark.slow)])
def test_small_steps_on_the_readout_follow_the_exact_flow(readout):
    options = {"width": 24, "networks": 6, "key": jax.random.key(4), "readout": readout}
    exact = finite.train_readout(NET, PRIOR, X, Y, X_NEW, time=2.0, **options)
    steps = finite.train(NET, PRIOR, X, Y, X_NEW, layers="readout", steps=400, learning_rate=0.005, **options)
    assert np.array_equal(exact.scales, steps.scales)
    assert_allclose(steps.values, exact.values, atol=5e-3)
    before = finite.train_readout(NET, PRIOR, X, Y, X_NEW, time=0.0, **options)
    assert np.max(np.abs(before.values - exact.values)) > 0.2


@pytest.mark.slow
def test_all_layers_of_wide_networks_follow_the_flow_of_the_limit():
    """24 networks of width 600 at time 1, scale 1: mean and spread of the limit, four standard errors and 4 %."""
    time = 1.0
    limit = wt.ScaleMixture(NET, wt.PointMass(1.0)).trained(X, Y, "all", time)(X_NEW)
    draws = finite.train(
        NET, wt.PointMass(1.0), X, Y, X_NEW, width=600, networks=24, steps=20, learning_rate=time / 20,
        key=jax.random.key(0),
    )  # fmt: skip
    spread = np.asarray(limit.std)
    assert np.all(np.abs(draws.values.mean(0) - limit.mean) < 4 * spread / np.sqrt(24) + 0.04)
    assert np.all(np.abs(draws.values.std(0) / spread - 1) < 4 / np.sqrt(48) + 0.04)


@pytest.mark.slow
def test_rates_are_stable_for_every_scale_and_training_fits():
    prior = wt.HalfCauchy(1.0)  # scales over many orders of magnitude
    for readout in ("scaled", "direct"):
        draws = finite.train(
            NET, prior, X, Y, X, width=128, networks=16, steps=300, readout=readout, key=jax.random.key(0)
        )
        assert np.max(draws.scales) / np.min(draws.scales) > 30
        assert np.all(draws.losses < 1e-3 * (1 + draws.scales))
        assert_allclose(draws.values, np.broadcast_to(Y, (16, 3)), atol=0.05 * np.sqrt(1 + draws.scales.max()))


@pytest.mark.slow
def test_optimisers_of_optax_and_standard_parametrisation():
    options = {"width": 32, "networks": 3, "steps": 150, "key": jax.random.key(0)}
    adam = finite.train(NET, PRIOR, X, Y, X, optimiser=optax.scale_by_adam(), learning_rate=0.02, **options)
    assert np.all(adam.losses < 0.05)
    standard = finite.train(NET, PRIOR, X, Y, X, parametrisation="standard", learning_rate=0.005, **options)
    assert np.all(standard.losses < 0.3)
    start = {**options, "steps": 0}
    first, second = (
        finite.train(NET, PRIOR, X, Y, X, parametrisation=p, learning_rate=0.1, **start) for p in ("ntk", "standard")
    )
    assert_allclose(first.values, second.values, rtol=1e-4, atol=1e-5)  # one function at the start


@pytest.mark.slow
def test_seeds_reproduce_bit_for_bit():
    options = {"width": 16, "networks": 4, "steps": 20, "key": jax.random.key(3)}
    first, second = (finite.train(NET, PRIOR, X, Y, X_NEW, **options) for _ in range(2))
    assert np.array_equal(first.values, second.values)


def test_divergence_is_named():
    with pytest.raises(finite.DivergenceError, match=r"network \d+, with readout variance .* learning rate 1e\+05"):
        finite.train(
            nn.mlp(2, "relu"), PRIOR, X, Y, X, width=16, networks=4, steps=60, learning_rate=1e5,
            key=jax.random.key(0),
        )  # fmt: skip


@pytest.mark.usefixtures("as_users_call")
def test_bad_input():
    options = {"width": 4, "networks": 2, "key": jax.random.key(0)}
    with pytest.raises(ValueError, match="learning_rate must be given"):
        finite.train(NET, PRIOR, X, Y, X, parametrisation="standard", **options)
    with pytest.raises(ValueError, match="learning_rate must be positive"):
        finite.train(NET, PRIOR, X, Y, X, learning_rate=-0.1, **options)
    with pytest.raises(ValueError, match="layers must be"):
        finite.train(NET, PRIOR, X, Y, X, layers="hidden", **options)
    with pytest.raises(ValueError, match="steps must be"):
        finite.train(NET, PRIOR, X, Y, X, steps=1.5, **options)
