"""What the experiment with classes never seen is made of: tails, models as coded, distances from what is known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from widetail.experiments.unseen import drawn, train_published
from widetail.sparse import CachedRows, PointScale, class_probabilities
from widetail.sparse.predictions import Known, directions


@pytest.fixture(scope="module")
def latent():
    rng = np.random.default_rng(0)
    mean = 4 * rng.normal(size=(24, 4))
    mean[:, 0] -= 8  # small probabilities
    return mean, rng.gamma(2.0, size=(24, 4)), rng.integers(0, 4, 24)


def test_normal_tails_against_quadrature(latent):
    mean, variance, _ = latent
    exact = class_probabilities(mean, variance, PointScale(3.0, False), draws=64).probabilities
    for label in (0, 2):
        found = drawn(mean, np.sqrt(3 * variance), np.full(len(mean), label))
        assert_allclose(found.log_score, np.log(exact[:, label]), atol=0.1)
        assert abs(np.mean(found.log_score - np.log(exact[:, label]))) < 0.03  # the draws are the same for all rows
    assert_allclose(found.probabilities, exact, atol=0.02)


def test_heavy_tails_against_many_draws(latent):
    mean, variance, labels = latent
    mean = mean[:4] / 4
    found = drawn(mean, np.sqrt(variance[:4]), labels[:4], 4.0)
    f = mean + np.sqrt(variance[:4]) * stats.t(4).rvs((400_000, 4, 4), random_state=1)
    p = np.exp(f - f.max(axis=-1, keepdims=True))
    p = np.mean(p / p.sum(axis=-1, keepdims=True), axis=0)
    assert_allclose(found.log_score, np.log(p[np.arange(4), labels[:4]]), atol=0.03)
    assert_allclose(found.probabilities, p, atol=0.02)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1024, 6)).astype(np.float32)
    y = np.argmax(x[:, :3] + 0.5 * rng.normal(size=(1024, 3)), axis=1)
    return CachedRows.of(x, np.full(1024, 0.1), y)


def test_models_as_coded(rows):
    """The better of two laws has the larger bound, and one that is given stays."""
    factor = np.linalg.cholesky(np.eye(6) + 0.2)
    shared = {"prior": None, "epochs": 40, "is_given": True}
    bounds = [train_published(rows, factor, 3, scale=scale, **shared).bound for scale in (0.1, 100.0)]
    learned = train_published(rows, factor, 3, prior=None, epochs=40)
    assert learned.bound > max(bounds) - 0.02
    assert learned.degrees == np.inf
    heavy = train_published(rows, factor, 3, prior=2.0, epochs=40)
    assert 0.5 < heavy.a < 1000
    mean, variance = heavy.latent(rows.features, rows.residual)
    assert np.mean(np.argmax(mean, axis=1) == rows.y) > 0.7
    assert np.all(variance > 0.1)
    held = train_published(rows, factor, 3, scale=3.0, **shared)
    assert held.scale == pytest.approx(3.0, rel=1e-6)


def test_distance_from_known_classes():
    """A class has its own measure: the same step is usual for a wide class and far from a narrow one."""
    rng = np.random.default_rng(2)
    wide, narrow = rng.normal(size=(200, 3)), 0.02 * rng.normal(size=(200, 3))
    features = np.concatenate([wide + np.array([0, 0, 9]), narrow + np.array([9, 0, 0])])
    residual = np.full(len(features), 0.01)
    known = Known(directions(features, residual), np.repeat([0, 1], 200))
    new = np.array([[0.5, 0.5, 9.0], [9.0, 0.0, 0.0], [9.0, 0.6, 0.6], [0.0, 9.0, 0.0]])
    found = known.remoteness(directions(new, np.full(4, 0.01)))
    assert np.all(found[:2] < 2)
    assert np.all(found[2:] > 4)
    with pytest.raises(ValueError, match="none has as many"):
        Known(directions(features[:5], residual[:5]), np.arange(5)).remoteness(directions(new, np.full(4, 0.01)))
