"""Error bars of trained networks, against refitting the linear model by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail.empirical import LinearisedRegressor

RNG = np.random.default_rng(3)
PARAMS = {"a": np.array([0.5, -0.2, 0.1])}
X = RNG.uniform(-1.0, 1.0, size=(12, 1))
Y = 1.0 + X[:, 0] + 0.3 * RNG.normal(size=12)


def apply(params, x):
    """Linear in its parameters already, so that the linearised model is the model."""
    return jnp.concatenate([jnp.ones_like(x), x, x**2], axis=1) @ params["a"][:, None]


def slopes(x):
    return np.concatenate([np.ones_like(x), x, x**2], axis=1)


@pytest.fixture(scope="module")
def fitted():
    return LinearisedRegressor(apply, PARAMS, prior=wt.InverseGamma(2.0, 0.5)).fit(X, Y)


def conjugate(x, y, prior, noise, at):
    """Bayesian linear regression around the parameters: mean and covariance per unit of the scale."""
    j = slopes(x)
    precision = j.T @ j / noise + np.eye(3)
    step = np.linalg.solve(precision, j.T @ (y - j @ PARAMS["a"]) / noise)
    return slopes(at) @ (PARAMS["a"] + step), np.sum(slopes(at) * np.linalg.solve(precision, slopes(at).T).T, axis=1)


def test_location_and_width_are_those_of_conjugate_regression(fitted):
    at = np.array([[-2.0], [0.3]])
    mean, width = conjugate(X, Y, None, fitted.noise_, at)
    dist = fitted.predict_dist(at)
    assert_allclose(dist.mean, mean, rtol=1e-6)
    law = fitted.scale_.law
    assert float(dist.df) == 2 * law.a == 2 * (2.0 + 6.0)  # twelve errors of rows left out
    expected = (width + fitted.noise_) * law.b / law.a * dist.df / (dist.df - 2)
    assert_allclose(dist.var, expected, rtol=1e-6)


def test_the_scale_is_learned_from_rows_left_out_one_by_one(fitted):
    total = 0.0
    for i in range(12):
        rest = np.arange(12) != i
        mean, width = conjugate(X[rest], Y[rest], None, fitted.noise_, X[i : i + 1])
        total += float((Y[i] - mean[0]) ** 2 / (width[0] + fitted.noise_))
    assert_allclose(fitted.scale_.law.b, 0.5 + 0.5 * total, rtol=1e-6)


def test_held_out_rows_calibrate():
    far, y_far = X[:5] + 0.1, Y[:5] + np.array([3.0, -3.0, 3.0, -3.0, 3.0])  # five times as wrong as the rows it knows
    model = LinearisedRegressor(apply, PARAMS, prior=wt.InverseGamma(2.0, 0.5), noise=0.1).fit(X, Y, far, y_far)
    mean, width = conjugate(X, Y, None, model.noise_, far)
    total = float(np.sum((y_far - mean) ** 2 / (width + model.noise_)))
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
