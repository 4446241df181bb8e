"""The estimators among scikit-learn's own checks and tools."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import widetail as wt
from widetail import nn

from .scikit_learn_checks import checks_of

NET = nn.mlp(1, "erf")
QUICK = [
    wt.ScaleMixtureRegressor(net=NET, max_iterations=3),
    wt.ScaleMixtureClassifier(net=NET, learn=False),
]
SLOW = [
    wt.ScaleMixtureRegressor(),
    wt.ScaleMixtureRegressor(net=wt.kernels.RBF(), noise="independent", prior=wt.PointMass(1.0), max_iterations=2),
    wt.ScaleMixtureClassifier(),
]

# of a model that learns, which every check compiles for shapes of its own; the classifier here does without
QUICK_CHECKS = {
    "check_dict_unchanged",
    "check_estimators_nan_inf",
    "check_estimators_unfitted",
    "check_fit2d_1sample",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_regressor_multioutput",
    "check_regressors_int",
    "check_sample_weights_list",
}


def checks(models):
    """Weights equal repeated rows exactly, but an optimiser carries rounding on to the sixth digit."""
    reason = {"check_sample_weight_equivalence_on_dense_data": "learned numbers agree to the optimiser's precision"}
    return [
        check
        for model in models
        for check in checks_of([model], QUICK_CHECKS if model.learn else None, reason if model.learn else {})
    ]


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(("estimator", "check"), checks(QUICK))
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(("estimator", "check"), checks(SLOW))
def test_checks_of_scikit_learn_with_other_arguments(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    return x, np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=60)


def test_pipelines_grid_search_and_cross_validation(table):
    x, y = table
    model = make_pipeline(PolynomialFeatures(2, include_bias=False), QUICK[0])
    assert cross_val_score(model, x, y, cv=3).mean() > 0.5
    search = GridSearchCV(QUICK[0], {"net": [nn.mlp(1, "erf"), nn.mlp(1, "relu")]}, cv=2).fit(x, y)
    assert search.best_score_ > 0.5
    assert repr(clone(QUICK[0])) == repr(QUICK[0])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_and_feature_names(table, frame):
    x, y = table
    named = frame({"a": x[:, 0], "b": x[:, 1]})
    model = clone(QUICK[0]).fit(named, y)
    assert list(model.feature_names_in_) == ["a", "b"]
    assert_allclose(model.predict(named), clone(QUICK[0]).fit(x, y).predict(x))
    assert_allclose(model.predict(frame({"b": x[:, 1], "c": x[:, 0], "a": x[:, 0]})), model.predict(named))
    with pytest.raises(ValueError, match="lacks 'b'"):
        model.predict(frame({"a": x[:, 0]}))


def test_sample_weight_counts_observations(table):
    x, y = table
    counts = np.arange(60) % 3
    repeated = np.repeat(np.arange(60), counts)
    for model, tolerance in ((QUICK[0], 1e-5), (wt.ScaleMixtureRegressor(net=NET, learn=False), 1e-9)):
        weighted = clone(model).fit(x, y, sample_weight=counts)
        plain = clone(model).fit(x[repeated], y[repeated])
        for part in ("mean", "std"):
            found, expected = (getattr(fitted.predict_dist(x), part) for fitted in (weighted, plain))
            assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
