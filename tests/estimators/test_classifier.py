"""The classifier: probabilities, labels, files."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits

import widetail as wt
from widetail import nn
from widetail.estimators._probabilities import best_temperature, probability_of_largest

NET = nn.mlp(2, "relu")


@pytest.fixture(scope="module")
def digits():
    x, y = load_digits(return_X_y=True)
    return x[:300], y[:300], x[300:500], y[300:500]


@pytest.mark.parametrize("probabilities", ["softmax", pytest.param("largest", marks=pytest.mark.slow)])
def test_digits(digits, probabilities):
    x, y, x_new, y_new = digits
    if probabilities == "largest":  # an integral for every row
        x_new, y_new = x_new[:60], y_new[:60]
    model = wt.ScaleMixtureClassifier(net=NET, max_iterations=10, probabilities=probabilities).fit(x, y)
    p = model.predict_proba(x_new)
    assert model.score(x_new, y_new) > 0.9
    assert_allclose(p.sum(1), 1.0, atol=1e-12)
    assert np.array_equal(model.classes_[p.argmax(1)], model.predict(x_new))
    assert -model.log_score(x_new, y_new) < 0.5


def test_no_class_is_impossible_however_sure_the_outputs_are():
    x = np.r_[np.linspace(-2.0, -1.0, 20), np.linspace(1.0, 2.0, 20)][:, None]
    quiet = {"noise": wt.ScaledNoise(1e-9), "learn": False, "probabilities": "largest"}
    model = wt.ScaleMixtureClassifier(net=wt.kernels.RBF(1.0), **quiet).fit(x, x[:, 0] > 0)
    assert_allclose(model.predict_proba(np.array([[1.5]])), [[0.5 / 41, 40.5 / 41]], rtol=1e-6)
    assert_allclose(model.log_score(x, x[:, 0] < 0), np.log(0.5 / 41), rtol=1e-6)


def test_probability_of_the_largest_against_simulation():
    """400,000 draws with one scale each; four standard errors."""
    rng = np.random.default_rng(0)
    location, std = np.array([[0.3, 0.0, -0.5]]), np.array([[0.2], [1.5]])
    log_weights = np.log([0.3, 0.7])
    node = rng.choice(2, 400_000, p=[0.3, 0.7])
    draws = location + std[node] * rng.normal(size=(400_000, 3))
    frequency = np.bincount(draws.argmax(1), minlength=3) / 400_000
    exact = probability_of_largest(location, std, log_weights)[0]
    assert np.all(np.abs(exact - frequency) < 4 * np.sqrt(exact * (1 - exact) / 400_000))


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [3, 11], [0.5, 1.5]])
def test_labels_of_any_kind_survive_a_file(labels, tmp_path):
    x = np.random.default_rng(0).normal(size=(30, 2))
    y = np.asarray(labels)[(x[:, 0] > 0).astype(int)]
    if isinstance(labels[0], float):
        with pytest.raises(ValueError, match="continuous"):
            wt.ScaleMixtureClassifier(net=NET).fit(x, y)
        return
    model = wt.ScaleMixtureClassifier(net=NET, max_iterations=3).fit(x, y)
    model.save(tmp_path / "model")
    loaded = wt.load(tmp_path / "model")
    assert loaded.classes_.dtype == model.classes_.dtype
    assert np.array_equal(loaded.predict(x), model.predict(x))
    assert np.array_equal(loaded.predict_proba(x), model.predict_proba(x))


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="only one class"):
        wt.ScaleMixtureClassifier(net=NET).fit(np.eye(3), np.ones(3, int))


def test_left_out_locations_equal_refitting():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 2)), rng.normal(size=(12, 2))
    for noise in (wt.ScaledNoise(0.1), wt.IndependentNoise(0.1)):
        process = wt.ScaleMixture(NET, wt.PointMass(1.0), noise)
        counts = np.arange(12) % 3 + 1
        left_out = process.posterior(x, y, counts=counts).left_out().location
        for row in range(12):
            fewer = counts - (np.arange(12) == row)
            rest = fewer > 0
            location = process.posterior(x[rest], y[rest], counts=fewer[rest]).f(x[row : row + 1]).mean
            assert_allclose(left_out[row], location[0], atol=1e-8)


def test_outputs_share_one_scale(digits):
    x, y, x_new, _ = digits
    dist = wt.ScaleMixtureClassifier(net=NET, learn=False).fit(x, y).predict_dist(x_new[:3])
    assert dist.sample(jax.random.key(0), (5,)).shape == (5, 3, 10)


def test_few_rows_that_are_all_told_apart_do_not_make_it_certain():
    """All left-out rows had the largest score for their label, and new ones were given probabilities of 1e-176."""
    rng = np.random.default_rng(0)
    x, x_new = rng.normal(size=(30, 3)), rng.normal(size=(500, 3))
    model = wt.ScaleMixtureClassifier(net=wt.nn.mlp(2), learn=False, noise=wt.ScaledNoise(1e-6)).fit(x, x[:, 0] > 0)
    wrong = 1 - model.predict_proba(x).max(axis=1)
    assert np.all(wrong > 1e-4)
    log_scores = np.log(model.predict_proba(x_new)[np.arange(500), (x_new[:, 0] > 0).astype(int)])
    assert np.mean(log_scores) > np.log(0.5)  # better than a coin
    assert np.min(log_scores) > np.log(1e-4)


def test_rows_that_are_told_apart_equally_well_are_trusted_by_the_rule_of_succession():
    scores = np.where(np.arange(20)[:, None] % 2 == np.arange(2), 0.4, -0.4)
    factor = best_temperature(scores, np.arange(20) % 2, np.ones(20))
    assert 1 / (1 + np.exp(0.8 * factor)) == pytest.approx(0.5 / 21, rel=1e-9)
