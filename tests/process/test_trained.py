"""Trained networks: special cases, and finite networks under the exact flow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

import widetail as wt
from widetail import nn


def test_readout_training_is_noise_free_conditioning_with_the_prior_of_the_scale(problem):
    prior = wt.InverseGamma(2.0, 3.0)
    trained = wt.ScaleMixture(problem.net, prior).trained(problem.x, problem.y)(problem.x_new)
    solved = np.linalg.solve(problem.k_xx, problem.k_tx.T)
    assert_allclose(trained.mean, solved.T @ problem.y, atol=1e-6)
    variance = np.diag(problem.k_tt) - np.sum(problem.k_tx.T * solved, 0)
    assert_allclose(trained.var, 3.0 / (2.0 - 1.0) * variance, rtol=1e-4)  # E[beta] = b / (a - 1)


@pytest.mark.parametrize("layers", ["readout", "all"])
@pytest.mark.parametrize("readout", ["scaled", "direct"])
def test_time_zero_is_the_prior_and_long_times_approach_infinity(problem, layers, readout):
    process = wt.ScaleMixture(problem.net, wt.PointMass(0.8))
    start = process.trained(problem.x, problem.y, layers, 0.0, readout=readout)(problem.x_new)
    assert_allclose(start.mean, 0.0, atol=1e-12)
    assert_allclose(start.std, process.prior(problem.x_new).std, rtol=1e-9)
    late = process.trained(problem.x, problem.y, layers, 1e12, readout=readout)(problem.x_new)
    forever = process.trained(problem.x, problem.y, layers, readout=readout)(problem.x_new)
    assert_allclose(late.mean, forever.mean, atol=1e-4)
    assert_allclose(late.std, forever.std, rtol=1e-3)


def test_trained_covariance_against_a_matrix_exponential(problem):
    k = problem.net.kernel(np.concatenate([problem.x, problem.x_new]))
    theta, theta_new = k.ntk[:40, :40], k.ntk[40:, :40]
    beta, time = 0.8, 3.0
    decay = scipy.linalg.expm(-2 * time * beta / 40 * theta)
    gain = theta_new @ np.linalg.solve(theta, np.eye(40) - decay)
    cov = beta * (problem.k_tt + gain @ problem.k_xx @ gain.T - gain @ problem.k_tx.T - problem.k_tx @ gain.T)
    dist = wt.ScaleMixture(problem.net, wt.PointMass(beta)).trained(problem.x, problem.y, "all", time)(problem.x_new)
    assert_allclose(dist.mean, gain @ problem.y, atol=1e-9)
    assert_allclose(dist.var, np.diag(cov), rtol=1e-7)


def test_direct_training_of_all_layers_depends_on_the_scale(problem):
    """Theta = K + beta (Theta_1 - K): the location differs from that of the scaled readout unless beta is 1."""
    for beta, same in ((1.0, True), (4.0, False)):
        process = wt.ScaleMixture(problem.net, wt.PointMass(beta))
        scaled = process.trained(problem.x, problem.y, "all")(problem.x_new).mean
        direct = process.trained(problem.x, problem.y, "all", readout="direct")(problem.x_new).mean
        assert np.allclose(scaled, direct, atol=1e-6) == same


def test_finite_networks_with_a_trained_readout_follow_the_limit():
    """800 networks of width 256 under the exact flow; 4.5 standard errors, plus 3 % of the spread for the width."""
    rng = np.random.default_rng(1)
    x, x_new = rng.normal(size=(8, 2)), rng.normal(size=(3, 2))
    y, time = np.sin(x[:, 0]), 20.0
    net = nn.mlp(1, "erf")
    dist = wt.ScaleMixture(net, wt.PointMass(1.0)).trained(x, y, "readout", time)(x_new)
    f = net.at_width(256)
    inputs = jnp.asarray(np.concatenate([x, x_new]), jnp.float32)

    def outputs(key):
        params = f.init(key, (2,))
        h = f.features(params, inputs) / 16.0
        return h, params["readout"][:, 0]

    h, v = (np.asarray(part, np.float64) for part in jax.vmap(outputs)(jax.random.split(jax.random.key(0), 800)))
    results = []
    for features, readout in zip(h, v, strict=True):
        train, test = features[:8], features[8:]
        residual = y - train @ readout
        values, vectors = np.linalg.eigh(train @ train.T)
        learned = -np.expm1(-2 * time / 8 * values) / np.maximum(values, 1e-12)
        results.append(test @ readout + test @ train.T @ (vectors * learned) @ vectors.T @ residual)
    results = np.stack(results)
    spread = np.asarray(dist.std)
    assert np.all(np.abs(results.mean(0) - dist.mean) < 4.5 * spread / np.sqrt(800) + 0.03 * spread)
    assert np.all(np.abs(results.std(0) / spread - 1) < 4.5 / np.sqrt(1600) + 0.03)
