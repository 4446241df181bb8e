"""Predictive distributions of y: joint ones, and those of likelihoods of one's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import laplace, norm

import widetail as wt
from widetail import sparse
from widetail.sparse import Likelihood, Memory, SparseModel, Whitening, train
from widetail.sparse.predictions import Integrated

from .problems import KERNEL, PRIORS, cached, inputs, scattered, sine, start


class Laplace(Likelihood):
    width: float = 0.3

    def log_prob(self, f, y, scale):
        width = jnp.asarray(self.width, f.dtype)
        return -jnp.abs(y - f) / width - jnp.log(2 * width)

    def sample(self, key, f, scale):
        return f + self.width * jax.random.laplace(key, f.shape, f.dtype)


class Plain(Likelihood):
    """Gaussian noise inside of the scale, and nothing said of closed forms."""

    noise: float = 0.2

    def log_prob(self, f, y, scale):
        return -0.5 * ((y - f) ** 2 / (self.noise * scale) + jnp.log(2 * np.pi * self.noise * scale))

    def sample(self, key, f, scale):
        return f + jnp.sqrt(self.noise * scale) * jax.random.normal(key, f.shape, f.dtype)


def model_of(likelihood, prior="inverse gamma", outputs=1, inducing=6):
    q = scattered(start(PRIORS[prior], outputs, inducing))
    whitening = Whitening.of(KERNEL, inputs()[:inducing])
    return SparseModel(whitening, q, likelihood, Memory.none(outputs, inducing))


X = np.linspace(-1.5, 1.5, 5)[:, None]


@pytest.mark.parametrize("outputs", [1, 2])
def test_joint_predictions_are_exact_when_every_row_is_an_inducing_input(outputs):
    x = inputs(25)
    y = np.concatenate([sine(x, seed=seed) for seed in range(outputs)], axis=1)
    prior = PRIORS["inverse gamma"]
    q = start(prior, outputs, 25)
    fit = train(cached(x, y, x), sparse.Gaussian(0.1), q, learn_likelihood=False, tolerance=1e-10)
    model = SparseModel(Whitening.of(KERNEL, x), fit.q, fit.likelihood, fit.memory)
    exact = wt.ScaleMixture(KERNEL, prior, wt.ScaledNoise(0.1)).posterior(x, y)
    y_new = np.random.default_rng(0).normal(size=(5, outputs))
    # the variational posterior of the scale is the exact one; nodes of the mixture are a finite sum
    assert_allclose(model.y(X).joint_log_prob(y_new), exact(X).joint_log_prob(y_new), rtol=1e-3)
    assert_allclose(model.y(X).log_prob(y_new), exact(X).log_prob(y_new), atol=1e-3)
    draws = model.y(X).sample(jax.random.key(0), 20_000)
    assert_allclose(np.std(draws, axis=0), exact(X).std, rtol=0.05)


def test_outputs_share_the_scale_of_a_draw():
    """Squares of two outputs are correlated although the outputs are not."""
    law = sparse.InverseGammaScale(3.0, 3.0, 3.0, 3.0)
    model = model_of(sparse.Gaussian(0.1), outputs=2)
    model = SparseModel(
        model.whitening, model.q.with_law(law).with_mean(np.zeros((2, 6))), model.likelihood, model.memory
    )
    draws = model.y(X[:1]).sample(jax.random.key(0), 40_000)[:, 0]
    assert abs(np.corrcoef(draws.T)[0, 1]) < 0.03
    logs = np.log(draws**2)
    assert np.corrcoef(logs.T)[0, 1] > 0.05
    exact = model.y(X[:1])
    scales, weights = law.nodes()
    sd = np.sqrt(scales[:, None] * (model.latent(X[:1])[1][0] + 0.1))
    joint = np.log(weights @ np.prod(norm.pdf(np.array([0.3, -0.4]) / sd) / sd, axis=1))
    assert_allclose(exact.joint_log_prob(np.array([[0.3, -0.4]])), joint, rtol=1e-9)


def test_a_likelihood_of_ones_own():
    model = model_of(Laplace())
    dist = model.y(X, is_vector=True)
    assert dist.event_shape == (5,)
    mean, variance = (part[:, 0] for part in model.latent(X))
    scales, weights = model.q.law.nodes()
    y = np.linspace(-1.0, 1.0, 5)
    for number in range(5):

        def density(f, number=number):
            sd = np.sqrt(scales * variance[number])
            return laplace.pdf(y[number], f, 0.3) * (weights @ norm.pdf(f, mean[number], sd))

        expected, _ = quad(density, -20, 20, points=[y[number], mean[number]], limit=200)
        # the density has a corner at f = y, between two nodes
        assert_allclose(np.exp(dist.log_prob(y)[number]), expected, rtol=3e-3)
    error = dist.std / np.sqrt(4096)
    assert np.all(np.abs(dist.mean - mean) < 4 * error)
    assert_allclose(dist.cdf(dist.quantile(0.3)), 0.3, atol=1e-3)
    draws = dist.sample(jax.random.key(1), 8000)
    assert_allclose(draws.std(axis=0), dist.std, rtol=0.1)
    assert_allclose(dist[1:3].mean, dist.mean[1:3])
    assert dist.log_prob(np.stack([y, y])).shape == (2, 5)
    with pytest.raises(ValueError, match="use log_prob"):
        dist.joint_log_prob(y)


def test_the_default_agrees_with_closed_forms():
    model = model_of(sparse.Gaussian(0.2), outputs=2)
    closed, latent = model.y(X), model.posterior(X)
    default = Integrated(latent, Plain(0.2))
    y = np.random.default_rng(0).normal(size=(5, 2))
    assert_allclose(default.log_prob(y), closed.log_prob(y), rtol=1e-6, atol=1e-6)
    assert_allclose(default.quantile(np.array([0.2, 0.7])), closed.quantile(np.array([0.2, 0.7])), atol=0.08)
    assert_allclose(default.crps(y), closed.crps(y), atol=0.03)
    assert_allclose(default.std, closed.std, rtol=0.05)


@pytest.mark.parametrize("likelihood", [sparse.StudentT(5.0, 0.1), sparse.Poisson("softplus")], ids=["t", "counts"])
def test_draws_are_joint_and_match_the_marginals(likelihood):
    model = model_of(likelihood, "point")
    close = np.array([[0.3], [0.3001], [1.4]])
    dist = model.y(close, is_vector=True)
    draws = dist.sample(jax.random.key(0), 20_000)
    assert_allclose(draws.mean(axis=0), dist.mean, atol=4 * np.max(dist.std) / np.sqrt(20_000))
    assert_allclose(draws.var(axis=0), dist.var, rtol=0.15)
    together, apart = np.corrcoef(draws.T)[0, 1:]
    assert together > apart
    with pytest.raises(ValueError, match="joint_log_prob"):
        dist.joint_log_prob(np.ones(3))


def test_class_numbers_have_a_predictive_too():
    model = model_of(sparse.Categorical(3), outputs=3)
    dist = model.y(X)
    assert dist.event_shape == (5,)
    p = model.class_probabilities(X).probabilities
    assert_allclose(np.exp(dist.log_prob(np.full(5, 2.0))), p[:, 2], atol=5e-3)
    assert set(np.unique(dist.sample(jax.random.key(0), 20))) <= {0.0, 1.0, 2.0}


@pytest.mark.slow
def test_the_regressor_takes_a_likelihood_of_ones_own():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (150, 1))
    y = 50 + 10 * (np.sin(2 * x[:, 0]) + 0.2 * rng.laplace(size=150))
    model = wt.SparseMixtureRegressor(wt.nn.mlp(1, "erf"), inducing=12, learn=False, likelihood=Laplace(0.3)).fit(x, y)
    assert model.score(x, y) > 0.8
    lower, upper = model.predict_interval(x, 0.9)
    assert 0.8 < np.mean((lower <= y) & (y <= upper)) < 0.99
