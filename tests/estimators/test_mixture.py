"""One name for exact and sparse models: what it picks, and that it says what that one says."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import widetail as wt

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=60)
LABELS = np.where(X[:, 0] + 0.5 * X[:, 1] + 0.3 * RNG.normal(size=60) > 0, "up", "down")
NET = wt.nn.mlp(1, "erf")


def test_few_rows_are_exact_and_many_are_not(tmp_path):
    exact = wt.MixtureRegressor(net=NET).fit(X, Y)
    assert exact.reason_ == "exact: 60 rows"
    assert isinstance(exact.estimator_, wt.ScaleMixtureRegressor)
    sparse = wt.MixtureRegressor(net=NET, exact_rows=50, inducing=20).fit(X, Y)
    assert "60 rows are more than exact_rows=50" in sparse.reason_
    assert isinstance(sparse.estimator_, wt.SparseMixtureRegressor)
    for model in (exact, sparse):
        alone = model.estimator_
        assert np.array_equal(model.predict(X[:5]), alone.predict(X[:5]))
        assert np.array_equal(model.predict_interval(X[:5], 0.5), alone.predict_interval(X[:5], 0.5))
        assert model.log_score(X, Y) == alone.log_score(X, Y)
        assert model.score(X, Y) > 0.8
        model.save(tmp_path / "model")
        assert np.array_equal(wt.load(tmp_path / "model").predict(X[:5]), model.predict(X[:5]))


def test_rows_beyond_memory_are_not_exact(monkeypatch):
    monkeypatch.setattr("widetail.estimators._mixture.available_memory", lambda: 1e4)
    model = wt.MixtureRegressor(net=NET, inducing=20).fit(X, Y)
    assert "more than memory allows" in model.reason_


def test_classes_of_a_frame_with_gaps():
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": np.where(X[:, 1] > 0, "x", "y")})
    frame.loc[::7, "b"] = np.nan
    model = wt.MixtureClassifier(net=wt.kernels.Linear(), exact_rows=30, inducing=10).fit(frame, LABELS)
    assert "10 inducing inputs" in model.reason_
    assert model.classes_.tolist() == ["down", "up"]
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    p = model.predict_proba(frame)
    assert np.array_equal(model.classes_[p.argmax(1)], model.predict(frame))
    assert model.score(frame, LABELS) > 0.8


@pytest.mark.parametrize(("name", "value"), [("exact_rows", -1), ("inducing", 0)])
def test_bad_numbers(name, value):
    with pytest.raises(ValueError, match=name):
        wt.MixtureRegressor(**{name: value}).fit(X, Y)


@pytest.mark.slow
def test_images_of_digits_are_regression_on_one_hot_targets():
    """A likelihood of classes gives them a log loss about three times as large."""
    x, y = load_digits(return_X_y=True)
    model = wt.MixtureClassifier().fit(x[:400], y[:400])
    assert isinstance(model.estimator_, wt.ScaleMixtureClassifier)
    assert "one-hot" in model.reason_
    assert model.classes_.tolist() == list(range(10))
    sparse = wt.SparseMixtureClassifier(inducing=400).fit(x[:400], y[:400])
    scores = sparse.network_scores_
    assert scores["regression on one-hot targets"] == max(scores.values())
    assert model.log_score(x[400:], y[400:]) > sparse.log_score(x[400:], y[400:])


@pytest.mark.slow
def test_straight_lines_are_found_where_classes_are_divided_by_one():
    """Log loss of new rows against logistic regression, which is the right model here; two standard errors."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1200, 8))
    p = 1 / (1 + np.exp(-x @ np.array([2.0, -1.0, 1.0, 0.5, 0, 0, 0, 0])))
    y = (rng.random(1200) < p).astype(int)
    model = wt.MixtureClassifier().fit(x[:200], y[:200])
    rows = np.arange(1000)
    ours = np.log(model.predict_proba(x[200:])[rows, y[200:]])
    theirs = np.log(LogisticRegression().fit(x[:200], y[:200]).predict_proba(x[200:])[rows, y[200:]])
    gain = ours - theirs
    assert gain.mean() > -2 * gain.std() / np.sqrt(1000)
