"""Sequences of unequal length through the estimators: the flag of `nn.Masked` is no number to scale."""

import numpy as np
import pytest

import widetail as wt
from widetail import nn

LAYERS = nn.Conv(3, bias_var=0.1), nn.Relu(), nn.GlobalAvgPool()
X = np.random.default_rng(0).normal(size=(16, 5, 2))
Y = X[:, :, 0].mean(1)


def test_sequences_of_one_length_are_sequences():
    """With a flag that never changes, as without one."""
    with_flag = wt.ScaleMixtureRegressor(nn.Masked(*LAYERS), learn=False).fit(nn.stack_unequal(X), Y)
    plain = wt.ScaleMixtureRegressor(nn.Sequential(*LAYERS), learn=False).fit(X, Y)
    np.testing.assert_allclose(with_flag.predict(nn.stack_unequal(X)), plain.predict(X), atol=1e-8)


@pytest.mark.slow
def test_sparse_models_take_them_too():
    x = nn.stack_unequal(X)
    regressor = wt.SparseMixtureRegressor(nn.Masked(*LAYERS), inducing=8).fit(x, Y)
    assert np.corrcoef(regressor.predict(x), Y)[0, 1] > 0.95
    classifier = wt.SparseMixtureClassifier(nn.Masked(*LAYERS), inducing=8).fit(x, np.median(Y) < Y)
    assert np.mean(classifier.predict(x) == (np.median(Y) < Y)) > 0.8


def test_what_fills_shorter_ones_up_does_not_matter():
    short = [row[: 3 + k % 3] for k, row in enumerate(X)]
    model = wt.ScaleMixtureRegressor(nn.Masked(*LAYERS), learn=False).fit(nn.stack_unequal(short), Y)
    x = nn.stack_unequal(short[:3])
    x[0, 4, :2] = 100.0  # there are three positions
    np.testing.assert_allclose(model.predict(x), model.predict(nn.stack_unequal(short))[:3], rtol=1e-9)
