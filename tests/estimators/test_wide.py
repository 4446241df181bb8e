"""Ensembles of finite networks as estimators."""

from itertools import pairwise

import jax
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_digits

import widetail as wt
from widetail import nn
from widetail.estimators import _wide_regressor, default_network
from widetail.finite import DivergenceError

from .scikit_learn_checks import checks_of

QUICK = {"net": nn.mlp(1, "relu"), "members": 2, "width": 16, "max_epochs": 60, "batch_size": 64, "learning_rate": 0.05}


MODELS = (wt.WideEnsembleClassifier(**QUICK), wt.WideEnsembleRegressor(**QUICK))
QUICK_CHECKS = {
    "check_dict_unchanged",
    "check_estimators_unfitted",
    "check_fit2d_1sample",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
}


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(("estimator", "check"), checks_of(MODELS, QUICK_CHECKS))
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    x, y = load_digits(return_X_y=True)
    return x.reshape(-1, 8, 8), y


@pytest.fixture(scope="module")
def images(digits):
    x, y = digits
    net = nn.Sequential(nn.Conv(3, weight_var=2.0, strides=2), nn.Relu(), nn.Flatten())
    model = wt.WideEnsembleClassifier(net, members=2, width=12, max_epochs=25, batch_size=64, learning_rate=0.03)
    return model.fit(x[:400], y[:400])


def test_images(digits, images):
    x, y = digits
    p = images.predict_proba(x[400:600])
    assert images.score(x[400:600], y[400:600]) > 0.85
    assert_allclose(p.sum(1), 1.0, atol=1e-6)
    assert_allclose(p, images.member_probabilities(x[400:600]).mean(0))
    assert_allclose(images.log_score(x[400:600], y[400:600]), np.mean(np.log(p[np.arange(200), y[400:600]])))
    assert images.input_shape_ == (8, 8, 1)
    with pytest.raises(ValueError, match=r"inputs of shape \(8, 8, 1\)"):
        images.predict(x[:5, :, :7])


@pytest.mark.parametrize(("shape", "features"), [((28, 28, 1), 7 * 7 * 32), ((32, 32, 3), 8 * 8 * 32), ((5,), 32)])
def test_default_networks(shape, features):
    network = default_network(shape).at_width(32)
    parameters = jax.eval_shape(lambda key: network.init(key, shape), jax.random.key(0))
    assert parameters["readout"].shape == (features, 1)


def test_files(images, digits, tmp_path):
    x, _ = digits
    images.save(tmp_path / "model")
    loaded = wt.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(x[:50]), images.predict_proba(x[:50]))
    assert np.array_equal(loaded.classes_, images.classes_)
    assert loaded.get_params()["width"] == 12
    damaged = (tmp_path / "model").read_bytes()[:-50]
    (tmp_path / "model").write_bytes(damaged)
    with pytest.raises(ValueError, match="damaged"):
        wt.load(tmp_path / "model")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(300, 2))
    return x, 100.0 + 20.0 * np.sin(2 * x[:, 0]) + 4.0 * rng.normal(size=300)


@pytest.fixture(scope="module")
def regressor(table):
    return wt.WideEnsembleRegressor(**QUICK).fit(*table)


def test_regression_and_its_distribution(table, regressor):
    x, y = table
    assert regressor.score(x, y) > 0.8
    dist = regressor.predict_dist(x)
    assert_allclose(dist.mean, regressor.predict(x), rtol=1e-9)
    lower, upper = regressor.predict_interval(x, 0.9)
    assert 0.8 < np.mean((lower < y) & (y < upper)) < 0.99
    assert_allclose(regressor.log_score(x, y), np.mean(dist.log_prob(y)))
    # the noise of the data has a standard deviation of 4; the networks' own errors add to it
    assert 3.0 < np.sqrt(regressor.noise_) * regressor.y_scaling_.factor[0] < 8.0
    f = regressor._outputs(x[:5])[..., 0] * regressor.y_scaling_.factor + regressor.y_scaling_.shift
    std = np.sqrt(regressor.noise_) * regressor.y_scaling_.factor
    assert_allclose(dist.cdf(y)[:5], scipy.stats.norm.cdf(y[:5], f, std).mean(0), rtol=1e-6)


def test_several_outputs_and_files(table, tmp_path):
    x, y = table
    model = wt.WideEnsembleRegressor(**QUICK).fit(x, np.stack([y, -3 * y], axis=1))
    assert model.predict(x).shape == (300, 2)
    assert_allclose(np.corrcoef(model.predict(x).T)[0, 1], -1.0, atol=0.05)
    model.save(tmp_path / "model")
    loaded = wt.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_dist(x[:9]).std, model.predict_dist(x[:9]).std)


@pytest.mark.slow
def test_scales_come_from_the_prior(table):
    x, y = table
    options = QUICK | {"max_epochs": 1, "members": 200, "width": 2}
    model = wt.WideEnsembleRegressor(prior=wt.InverseGamma(3.0, 2.0), **options).fit(x, y)
    assert scipy.stats.kstest(model.scales_, scipy.stats.invgamma(3.0, scale=2.0).cdf).pvalue > 0.01
    plain = wt.WideEnsembleRegressor(prior=wt.PointMass(1.0), **options).fit(x, y)
    assert np.all(plain.scales_ == 1.0)


def test_checkpoints(table, regressor, tmp_path):
    x, y = table
    path = str(tmp_path / "run")
    short = clone(regressor).set_params(checkpoint=path, max_epochs=3).fit(x, y)
    whole = clone(regressor).set_params(checkpoint=path).fit(x, y)
    assert len(short.history_.train_losses) == 3
    assert np.array_equal(whole.predict(x), regressor.predict(x))


@pytest.mark.slow
def test_divergence_is_named(table):
    model = wt.WideEnsembleRegressor(**QUICK | {"net": nn.mlp(3), "learning_rate": 1e15})
    with pytest.raises(DivergenceError, match="learning_rate"):
        model.fit(*table)
    assert not hasattr(model, "parameters_")


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("parameter", "value"),
    [("members", 0), ("width", 1.5), ("net", "mlp"), ("prior", 2.0), ("validation_fraction", 1.0), ("readout", "both")],
)
def test_bad_parameters_are_named(table, parameter, value):
    with pytest.raises(ValueError, match=parameter):
        wt.WideEnsembleRegressor(**{parameter: value}).fit(*table)


def test_a_class_without_rows(table):
    x, y = table
    labels = np.where(y > np.median(y), "high", "low")
    model = wt.WideEnsembleClassifier(**QUICK).fit(x, labels, classes=["low", "middle", "high"])
    p = model.predict_proba(x)
    assert model.classes_.tolist() == ["high", "low", "middle"]
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert 0 < p[:, 2].mean() < 0.3  # trained away from a third, but not to nothing
    assert model.score(x, labels) > 0.7
    with pytest.raises(ValueError, match=r"y has labels that classes does not list: \['low'\]; add them"):
        model.fit(x, labels, classes=["middle", "high"])


def test_members_hold_out_rows_that_they_share_with_a_neighbour():
    held_out = wt.WideEnsembleRegressor(members=8)._rows_to_hold_out(200)
    assert held_out.sum(axis=1).tolist() == [20] * 8
    assert [np.sum(a & b) for a, b in pairwise(held_out)] == [10] * 7
    assert held_out.any(axis=0).sum() == 90
    assert not wt.WideEnsembleRegressor(early_stopping=False)._rows_to_hold_out(200).any()


def test_the_noise_is_told_from_the_spread_of_the_members():
    """Members that have seen a row interpolate it; two that have not differ from it and from each other."""
    rng = np.random.default_rng(0)
    members, n, noise, spread = 6, 6000, 0.3, 0.1
    truth = rng.normal(size=(n, 1))
    y = truth + np.sqrt(noise) * rng.normal(size=(n, 1))
    unseen = np.array([(np.arange(n) % members == m) | ((np.arange(n) + 1) % members == m) for m in range(members)])
    f = np.where(unseen[..., None], truth + np.sqrt(spread) * rng.normal(size=(members, n, 1)), y)
    # the likelihood of two unseen members lies between the noise alone and the squared error of one of them
    assert noise < _wide_regressor._best_noise(f, y, unseen) < noise + spread
    assert _wide_regressor._best_noise(f, y, np.ones_like(unseen)) < 0.1 * noise
