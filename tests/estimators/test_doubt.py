"""Doubt about classes without rows, learned by hiding classes that have some."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail import metrics, sparse

CENTRES = np.array([[0.0, 4.0], [4.0, 0.0], [0.0, -4.0], [-4.0, 0.0], [8.0, 8.0]])


def blobs(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(CENTRES), n)
    return CENTRES[y] + rng.normal(size=(n, 2)), y


@pytest.fixture(scope="module")
def models():
    """Four of five classes have rows; with doubt, which is the default, and without."""
    x, y = blobs(750, 0)
    x, y = x[y != 4], y[y != 4]
    kernel = wt.kernels.RBF(0.7)
    shared = {"net": kernel, "prior": wt.PointMass(1.0), "inducing": 32, "learn": False}
    options = sparse.TrainingOptions(residual_share=1.0, max_iterations=10)
    return [
        wt.SparseMixtureClassifier(**shared, options=options, doubt=doubt).fit(x, y, classes=range(5))
        for doubt in ("auto", False)
    ]


def test_doubt_tells_a_class_without_rows_at_little_price(models):
    with_doubt, without = models
    x, y = blobs(400, 1)
    is_new = y == 4
    doubts = with_doubt.doubts(x)
    assert metrics.auroc(doubts[~is_new], doubts[is_new]) > 0.97
    scores = [np.log(model.predict_proba(x)[np.arange(len(y)), y]) for model in models]
    gain = scores[0] - scores[1]
    assert gain[is_new].mean() > 0.5
    assert gain[~is_new].mean() > -0.02
    assert with_doubt.doubt_.price <= 0.0051
    assert without.doubt_ is None
    with pytest.raises(ValueError, match="doubt=True"):
        without.doubts(x)


def test_doubt_goes_to_the_classes_without_rows(models):
    x = blobs(5, 2)[0]
    p, plain, doubts = models[0].predict_proba(x), models[1].predict_proba(x), models[0].doubts(x)
    assert_allclose(p.sum(axis=1), 1.0)
    expected = plain * (1 - doubts)[:, None]
    expected[:, 4] += doubts
    assert_allclose(p, expected, rtol=1e-6)


def test_doubt_is_saved(models, tmp_path):
    x = blobs(7, 3)[0]
    models[0].save(tmp_path / "model")
    assert_allclose(wt.load(tmp_path / "model").predict_proba(x), models[0].predict_proba(x))


def test_rows_of_a_class_end_the_doubt_about_it(models):
    doubt = models[0].doubt_
    assert doubt.is_unseen.tolist() == [False] * 4 + [True]
    later = doubt.after(np.array([4, 4]))
    p = np.full((3, 5), 0.2)
    assert later.applied(p, np.full(3, 0.5)) is p


def test_too_few_rows_have_no_doubt():
    x, y = blobs(60, 0)
    kept = y != 4
    shared = {"net": wt.kernels.RBF(0.7), "inducing": 8, "learn": False}
    model = wt.SparseMixtureClassifier(**shared).fit(x[kept], y[kept], classes=range(5))
    assert model.doubt_ is None


def test_wrong_doubt():
    with pytest.raises(ValueError, match="doubt must be True"):
        wt.SparseMixtureClassifier(doubt="much").fit(*blobs(20, 0))
