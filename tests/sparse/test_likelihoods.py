"""What every likelihood owes: a density, draws from it, expectations, and a predictive distribution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm

from widetail.predictive import LazyMatrix
from widetail.sparse import Categorical, Latent

from .likelihoods import LIKELIHOODS

SCALE, MEAN, VARIANCE = 1.4, 0.6, 0.35
QUICK = ("student t",)

every_likelihood = pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in LIKELIHOODS]
)


def log_density_of(likelihood):
    compiled = jax.jit(lambda f, y: likelihood.log_prob(f, y, SCALE))

    def log_density(f, y):
        with jax.enable_x64(True):
            return np.asarray(compiled(np.asarray(f, float), np.asarray(y, float)))

    return log_density


def integral(values, support, y):
    return np.sum(values) if support is not None else np.trapezoid(values, y)


def targets(support):
    return np.linspace(-60.0, 60.0, 200_001) if support is None else support


@every_likelihood
def test_normalised_and_matched_by_draws(name):
    likelihood, support = LIKELIHOODS[name]
    y = targets(support)
    p = np.exp(log_density_of(likelihood)(np.full(y.shape, MEAN), y))
    assert_allclose(integral(p, support, y), 1.0, atol=1e-4)  # tails beyond the grid
    with jax.enable_x64(True):
        drawn = np.asarray(likelihood.sample(jax.random.key(0), jnp.full(40_000, MEAN, float), SCALE), float)
    mean = integral(p * y, support, y)
    assert abs(drawn.mean() - mean) < 4 * drawn.std() / np.sqrt(len(drawn))
    below = integral(p * (y <= 0.5), support, y)
    assert abs(np.mean(drawn <= 0.5) - below) < 4 * 0.5 / np.sqrt(len(drawn))


@every_likelihood
def test_expectations_against_an_integral_and_differences(name):
    likelihood, _ = LIKELIHOODS[name]
    log_density = log_density_of(likelihood)

    def expected(mean, variance):
        sd = np.sqrt(SCALE * variance)
        return quad(lambda f: log_density(f, 1.0) * norm.pdf(f, mean, sd), mean - 9 * sd, mean + 9 * sd)[0]

    with jax.enable_x64(True):
        parts = [jnp.full((1, 1), value, float) for value in (MEAN, VARIANCE, 1.0)]
        nodes = jnp.full(1, SCALE, float), jnp.ones(1), jnp.zeros((1, 1, 1, 1))
        found = jax.jit(lambda *given: likelihood.expectations(*given))(*parts, *nodes)
    assert_allclose(found.value[0], expected(MEAN, VARIANCE), rtol=1e-5)
    step = 1e-4
    slope = (expected(MEAN + step, VARIANCE) - expected(MEAN - step, VARIANCE)) / (2 * step)
    assert_allclose(found.slope[0, 0], slope, rtol=1e-3, atol=1e-6)
    by_variance = (expected(MEAN, VARIANCE + step) - expected(MEAN, VARIANCE - step)) / (2 * step)
    assert_allclose(found.curvature[0, 0], -2 * by_variance, rtol=1e-2, atol=1e-5)


@every_likelihood
def test_the_predictive_is_normalised_and_matched_by_draws(name):
    likelihood, support = LIKELIHOODS[name]
    covariance = LazyMatrix(lambda: np.array([[[VARIANCE, 0.1], [0.1, VARIANCE]]]))
    scales, weights = np.array([0.5, SCALE]), np.array([0.3, 0.7])
    latent = Latent(np.full((2, 1), MEAN), np.full((2, 1), VARIANCE), covariance, scales, weights, is_vector=True)
    dist = likelihood.predictive(latent)
    y = targets(support)[:: 1 if support is not None else 20]
    p = np.exp(dist.log_prob(np.stack([y, y], axis=1)))[:, 0]
    assert_allclose(integral(p, support, y), 1.0, atol=1e-3)
    assert_allclose(dist.mean[0], integral(p * y, support, y), rtol=0.05)
    with jax.enable_x64(True):
        parts = [jnp.full((1, 1), value, float) for value in (MEAN, VARIANCE, 1.0)]
        nodes = jnp.asarray(scales), jnp.asarray(weights), jnp.zeros((2, 1, 1, 1))
        assert_allclose(dist.log_prob(np.ones(2))[0], likelihood.log_predictive(*parts, *nodes)[0], atol=1e-4)
    draws = dist.sample(jax.random.key(0), 10_000)
    assert draws.shape == (10_000, 2)
    median = float(np.median(draws[:, 0]))
    assert abs(np.mean(draws[:, 0] <= median) - dist.cdf(np.full(2, median))[0]) < 4 * 0.5 / np.sqrt(10_000)


def test_classes_are_normalised():
    f = np.random.default_rng(0).normal(size=(4, 3))
    with jax.enable_x64(True):
        p = [np.exp(Categorical(3).log_prob(jnp.asarray(f), jnp.full(4, c), 1.0)) for c in range(3)]
    assert_allclose(np.sum(p, axis=0), 1.0)
