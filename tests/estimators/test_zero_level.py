"""The value of a pixel that counts as zero: its evidence, its choice, and what does not change it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_t
from sklearn.datasets import load_digits

import widetail as wt
from widetail import nn
from widetail.estimators import _zero_level
from widetail.estimators._scaling import Scaling

NET = nn.Sequential(nn.Conv(3, weight_var=2.0, bias_var=0.001), nn.Relu(), nn.Flatten())


@pytest.fixture(scope="module")
def images():
    x, y = load_digits(n_class=3, return_X_y=True)
    return x.reshape(-1, 8, 8, 1)[:24], np.eye(3)[y[:24]] - 1 / 3


def log_evidence(matrix, targets, noise):
    """All outputs share one scale: a multivariate t of 2 a degrees of freedom and shape b / a times the covariance."""
    covariance = np.kron(np.eye(targets.shape[1]), matrix + noise * np.eye(len(matrix)))
    return multivariate_t.logpdf(targets.T.ravel(), shape=covariance, df=4.0)


def test_the_evidence_is_that_of_a_student_t_with_the_best_noise(images):
    x, targets = images[0] / 8 - 1, images[1]
    matrix = np.asarray(NET.kernel(x).nngp)
    noises = np.geomspace(1e-4, 1, 200) * np.mean(np.diagonal(matrix))
    expected = max(log_evidence(matrix, targets, noise) for noise in noises)
    assert_allclose(_zero_level._evidence(NET, x, targets, np.ones(len(x))), expected, atol=0.05)


def test_the_best_level_has_the_largest_evidence_of_all(images):
    x, targets = images
    counts = np.ones(len(x))
    best = _zero_level.best_zero_level(NET, x, targets, counts)
    chosen = _zero_level._evidence(NET, best.apply(x), targets, counts)
    for level in (x.mean(), 0.0, 4.0, 8.0, 12.0, 16.0):
        scaled = (x - level) / np.sqrt(np.mean((x - level) ** 2))
        assert chosen >= _zero_level._evidence(NET, scaled, targets, counts) - 1e-6
    assert_allclose(np.mean(best.apply(x) ** 2), 1.0)


def test_an_image_observed_twice_counts_twice(images):
    x, targets = images
    counts = np.where(np.arange(len(x)) < 8, 2.0, 1.0)
    repeated = np.repeat(np.arange(len(x)), counts.astype(int))
    found = _zero_level.best_zero_level(NET, x, targets, counts)
    expected = _zero_level.best_zero_level(NET, x[repeated], targets[repeated], np.ones(len(repeated)))
    assert_allclose([found.shift, found.factor], [expected.shift, expected.factor], rtol=1e-12)


def test_images_of_one_colour_do_no_harm():
    x, targets = np.full((4, 4, 4, 1), 3.0), np.eye(4)
    assert np.isfinite(_zero_level.best_zero_level(NET, x, targets, np.ones(4)).apply(x)).all()


def test_two_scalings_are_one():
    x = np.random.default_rng(0).normal(size=(5, 2))
    first, second = Scaling(np.array([1.0, 2.0]), np.array([3.0, 4.0])), Scaling(np.array([0.5]), np.array([2.0]))
    assert_allclose(first.then(second).apply(x), second.apply(first.apply(x)), rtol=1e-14)


@pytest.mark.slow
def test_units_and_offset_of_pixels_do_not_matter():
    x, y = load_digits(n_class=3, return_X_y=True)
    x = x.reshape(-1, 8, 8)
    first, second = (
        wt.SparseMixtureClassifier(NET, inducing=20, open_share=0.0).fit(pixels[:150], y[:150]).predict_proba(pixels)
        for pixels in (x, 255.0 - 7.0 * x)
    )
    assert np.mean(first.argmax(axis=1) == y) > 0.95
    assert_allclose(first, second, atol=1e-4)
