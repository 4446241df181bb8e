"""Error bars of trained networks, against refitting the linear model by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

import widetail as wt
from widetail.empirical import LinearisedRegressor

RNG = np.random.default_rng(3)
X = RNG.uniform(-1.0, 1.0, size=(12, 1))
Y = 1.0 + X[:, 0] + 0.3 * RNG.normal(size=12)
PARAMS = {"a": np.array([0.95, 1.0, 0.1])}  # nearly trained
UNTRAINED = {"a": np.array([0.5, -0.2, 0.1])}


def apply(params, x):
    """Linear in its parameters already, so that the linearised model is the model."""
    return jnp.concatenate([jnp.ones_like(x), x, x**2], axis=1) @ params["a"][:, None]


def slopes(x):
    return np.concatenate([np.ones_like(x), x, x**2], axis=1)


@pytest.fixture(scope="module")
def fitted():
    return LinearisedRegressor(apply, PARAMS, prior=wt.InverseGamma(2.0, 0.5)).fit(X, Y)


def conjugate(noise, at):
    """Bayesian linear regression with parameters around zero: mean and variance of f per unit of the scale."""
    j = slopes(X)
    precision = j.T @ j / noise + np.eye(3)
    mean = np.linalg.solve(precision, j.T @ Y / noise)
    return slopes(at) @ mean, np.sum(slopes(at) * np.linalg.solve(precision, slopes(at).T).T, axis=1)


def test_the_scale_and_the_widths_are_those_of_conjugate_regression(fitted):
    at = np.array([[-2.0], [0.3]])
    _, width = conjugate(fitted.noise_, at)
    law, dist = fitted.scale_.law, fitted.predict_dist(at)
    matrix = slopes(X) @ slopes(X).T + fitted.noise_ * np.eye(12)
    assert_allclose([law.a, law.b], [2.0 + 6.0, 0.5 + 0.5 * Y @ np.linalg.solve(matrix, Y)], rtol=1e-6)
    assert float(dist.df) == 2 * law.a
    assert_allclose(dist.var, (width + fitted.noise_) * law.b / law.a * dist.df / (dist.df - 2), rtol=1e-6)


def test_the_noise_is_the_likeliest_one(fitted):
    """The evidence of an inverse-gamma scale is a Student-t density of all targets."""

    def log_evidence(noise):
        matrix = slopes(X) @ slopes(X).T + noise * np.eye(12)
        return scipy.stats.multivariate_t(np.zeros(12), 0.5 / 2.0 * matrix, df=4.0).logpdf(Y)

    assert_allclose(12 * fitted.score_, log_evidence(fitted.noise_), rtol=1e-6)
    for factor in (0.3, 3.0):
        assert log_evidence(factor * fitted.noise_) < log_evidence(fitted.noise_)


def test_noise_is_at_least_what_the_network_leaves_unexplained(fitted):
    far = LinearisedRegressor(apply, UNTRAINED, prior=wt.InverseGamma(2.0, 0.5)).fit(X, Y)
    error = np.mean((Y - slopes(X) @ UNTRAINED["a"]) ** 2)

    def variance(noise):
        matrix = slopes(X) @ slopes(X).T + noise * np.eye(12)
        return noise * (Y @ np.linalg.solve(matrix, Y)) / 12

    assert variance(fitted.noise_) > np.mean((Y - slopes(X) @ PARAMS["a"]) ** 2)  # here the evidence decides
    assert variance(0.7 * far.noise_) < error <= variance(far.noise_)


def test_predictions_are_those_of_the_network(fitted):
    assert_allclose(fitted.predict(X), slopes(X) @ PARAMS["a"], rtol=1e-6)
    # where it was trained as the linear model would be, they are those of the regression
    mean, _ = conjugate(fitted.noise_, X)
    best = np.linalg.solve(slopes(X).T @ slopes(X) + fitted.noise_ * np.eye(3), slopes(X).T @ Y)
    trained = LinearisedRegressor(apply, {"a": best}, prior=wt.InverseGamma(2.0, 0.5)).fit(X, Y)
    assert_allclose(trained.predict(X), mean, rtol=1e-6)
    assert_allclose(trained.score_, fitted.score_, rtol=1e-6)  # the model is linear: wherever it is, the same evidence


def test_held_out_rows_calibrate():
    far, y_far = X[:5] + 0.1, Y[:5] + np.array([3.0, -3.0, 3.0, -3.0, 3.0])  # five times as wrong as the rows it knows
    model = LinearisedRegressor(apply, PARAMS, prior=wt.InverseGamma(2.0, 0.5), noise=0.1).fit(X, Y, far, y_far)
    _, width = conjugate(model.noise_, far)
    total = float(np.sum((y_far - slopes(far) @ PARAMS["a"]) ** 2 / (width + model.noise_)))
    assert_allclose([model.scale_.law.a, model.scale_.law.b], [4.5, 0.5 + 0.5 * total], rtol=1e-6)


def test_as_scikit_learn_has_it(fitted):
    from sklearn.base import clone

    assert clone(fitted).get_params()["noise"] is None
    assert fitted.score(X, Y) > 0.5
    mean, std = fitted.predict(X, return_std=True)
    assert_allclose(mean, fitted.predict(X), rtol=1e-12)
    lower, upper = fitted.predict_interval(X, 0.5)
    assert np.all((lower < mean) & (mean < upper) & (upper - lower < 2 * std))
    joint = fitted.predict_dist(X[:3])
    assert np.isfinite(joint.joint_log_prob(Y[:3]))


def test_bad_input(fitted):
    with pytest.raises(ValueError, match="as many outputs as the model, 1; got 2"):
        LinearisedRegressor(apply, PARAMS).fit(X, np.zeros((12, 2)))
    with pytest.raises(ValueError, match="noise must be a positive number"):
        LinearisedRegressor(apply, PARAMS, noise=-1.0).fit(X, Y)
    with pytest.raises(ValueError, match="given together"):
        LinearisedRegressor(apply, PARAMS).fit(X, Y, X)
    with pytest.raises(ValueError, match="not fitted yet"):
        LinearisedRegressor(apply, PARAMS).predict(X)
