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


def test_partial_dependence_is_the_average_over_rows_with_its_covariance(model):
    """Against predictions row by row, and the joint covariance of the function at all rows."""
    name, values, average = model.partial_dependence(0, points=5, rows=40)
    assert name == "x0"
    assert_allclose(values, np.sort(X[:, 0])[[0, 10, 20, 29, 39]])  # even steps, rounded
    for place, value in enumerate(values):
        rows = X.copy()
        rows[:, 0] = value
        assert_allclose(average.median[place], model.predict(rows).mean(), rtol=1e-9)
        dist = model.posterior.f(rows)
        assert_allclose(average.var[place], np.asarray(dist.cov).mean(), rtol=1e-8)


@pytest.mark.parametrize("gaps", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_partial_dependence_of_a_table(gaps):
    levels = np.where(X[:, 1] > 0.3, "up", np.where(X[:, 1] < -0.3, "down", "level"))
    frame = pd.DataFrame({"a": X[:, 0], "q": levels, "day": pd.date_range("2020-01-01", periods=40)})
    if gaps:
        frame.loc[::9, "a"] = np.nan
        frame.loc[1, "q"] = None
    y = np.exp(X[:, 0] + (levels == "up"))
    learned = wt.ScaleMixtureRegressor(net=wt.kernels.Anova(2.0, 0.3), max_iterations=8, target="positive").fit(
        frame, y
    )
    found = learned.partial_dependence("q")
    assert found.values.tolist() == ["down", "level", "up"]
    low, high = found.average.interval(0.9)
    assert np.all((low > 0) & (low < found.average.median) & (found.average.median < high))
    assert np.argmax(found.average.median) == 2
    numbers = learned.partial_dependence("a", points=6)
    assert np.all(np.diff(numbers.values) > 0)
    assert np.all(np.diff(numbers.average.median) > 0)
    assert learned.partial_dependence("day", points=3).values.astype(str).tolist()[0] == "2020-01-01"
    with pytest.raises(ValueError, match="feature must be a name"):
        learned.partial_dependence("b")
    pytest.importorskip("matplotlib").use("agg")
    figure = wt.plots.dependences([found, numbers])
    assert [axes.get_xlabel() for axes in figure.axes] in (["a", "q"], ["q", "a"])


@pytest.mark.slow
def test_partial_dependence_of_integrated_hyperparameters():
    found = wt.ScaleMixtureRegressor(max_iterations=3).fit(X, Y).partial_dependence("x0", points=3)
    assert np.all(np.isfinite(found.average.interval(0.9)))
    assert found.average.median[2] > found.average.median[0]
