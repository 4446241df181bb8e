"""What a model goes by, against models without a row, and rows that were made unusual."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import widetail as wt

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.sin(X[:, 0]) + 0.3 * X[:, 2] + 0.1 * RNG.normal(size=40)
FIXED = {"net": wt.kernels.RBF(2.0), "noise": wt.ScaledNoise(0.05), "learn": False, "standardise": False}
NEW = RNG.normal(size=(4, 3))


@pytest.fixture(scope="module")
def model():
    return wt.ScaleMixtureRegressor(**FIXED).fit(X, Y)


def test_changes_are_those_of_models_without_the_row(model):
    rows, changes = model.leans_on(NEW, count=3)
    for place in range(4):
        without = {}
        for row in range(40):
            left = np.delete(np.arange(40), row)
            other = wt.ScaleMixtureRegressor(**FIXED, calibrate=False).fit(X[left], Y[left])
            without[row] = float(model.predict(NEW[place : place + 1])[0] - other.predict(NEW[place : place + 1])[0])
        order = sorted(without, key=lambda row, by=without: -abs(by[row]))[:3]
        assert rows[place].tolist() == order
        assert_allclose(changes[place], [without[row] for row in order], rtol=1e-7)


def test_relevances_rank_columns(model):
    assert list(model.relevances()) == ["x0", "x2", "x1"]
    frame = pd.DataFrame({"a": X[:, 0], "q": np.where(X[:, 1] > 0, "up", "down"), "c": X[:, 2]})
    learned = wt.ScaleMixtureRegressor(net=wt.kernels.RBF(2.0), max_iterations=5).fit(frame, Y)
    found = learned.relevances()
    assert set(found) == {"a", "q", "c"}
    assert found["a"] > 3 * found["q"]


def test_a_row_that_was_moved_is_unusual():
    y = Y.copy()
    y[7] += 3.0
    found = wt.ScaleMixtureRegressor(**FIXED).fit(X, y).unusual_rows(0.05)
    assert found[0] == 7
    assert len(found) < 6
