"""What was learned once, conditioned on other rows: folds of a cross-validation, and learning that goes on."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score

import widetail as wt

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = np.exp(np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=60))
LABELS = np.where(X[:, 0] + 0.3 * RNG.normal(size=60) > 0, "up", "down")


@pytest.fixture(scope="module")
def fitted() -> wt.ScaleMixtureRegressor:
    return wt.ScaleMixtureRegressor(net=wt.kernels.RBF(np.ones(2)), max_iterations=20).fit(X, Y)


def test_a_fold_is_the_learned_process_conditioned_on_its_rows(fitted):
    folds = KFold(3, shuffle=True, random_state=0)
    found = cross_val_predict(fitted.as_given(), X, Y, cv=folds)
    for seen, left in folds.split(X):
        x, z = X[seen], fitted.target_.forward(Y[seen])
        inputs = (x - x.mean(0)) / x.std(0)
        posterior = fitted.process_.posterior(inputs, (z - z.mean()) / z.std())
        location = posterior.location((X[left] - x.mean(0)) / x.std(0)) * z.std() + z.mean()
        assert_allclose(found[left], fitted.target_.inverse(location), rtol=1e-9)


def test_learning_goes_on_from_where_it_ended(fitted):
    again = fitted.as_given(learn=True).fit(X, Y)
    assert again.evidence_fit_.evaluations < fitted.evidence_fit_.evaluations
    assert again.evidence_fit_.log_evidence >= fitted.evidence_fit_.log_evidence - 1e-6
    assert again.target_ == fitted.target_


def test_all_processes_of_few_rows_stay(tmp_path):
    model = wt.ScaleMixtureRegressor(max_iterations=5).fit(X[:30], Y[:30])
    fold = clone(model.as_given()).fit(X[30:], Y[30:])
    assert fold.integrated_.names == model.integrated_.names
    assert_allclose(fold.integrated_.weights, model.integrated_.weights)
    fold.save(tmp_path / "model")
    assert_allclose(wt.load(tmp_path / "model").predict(X[:3]), fold.predict(X[:3]), rtol=1e-12)


def test_frames_keep_the_levels_that_were_seen(tmp_path):
    frame = pd.DataFrame({"a": X[:, 0], "level": np.where(np.arange(60) < 5, "rare", "often")})
    model = wt.ScaleMixtureRegressor(net=wt.kernels.RBF(np.ones(2)), max_iterations=5).fit(frame, Y)
    scores = cross_val_score(model.as_given(), frame, Y, cv=KFold(4), error_score="raise")  # one lacks a level
    assert np.all(np.isfinite(scores))
    fold = model.as_given().fit(frame[5:], Y[5:])
    fold.save(tmp_path / "model")
    assert_allclose(wt.load(tmp_path / "model").predict(frame[:3]), fold.predict(frame[:3]), rtol=1e-12)


def test_classes_and_a_search_over_parameters():
    model = wt.ScaleMixtureClassifier(net=wt.kernels.RBF(np.ones(2)), max_iterations=5).fit(X, LABELS)
    search = GridSearchCV(model.as_given(), {"probabilities": ["softmax", "largest"]}, cv=3, scoring="neg_log_loss")
    assert search.fit(X, LABELS).best_score_ > -0.7
    assert search.best_estimator_.process_ == model.process_


def test_what_is_no_start_is_refused():
    with pytest.raises(ValueError, match="as_given"):
        wt.ScaleMixtureRegressor(start=wt.ScaleMixtureRegressor()).fit(X, Y)
    with pytest.raises(Exception, match="not fitted"):
        wt.ScaleMixtureRegressor().as_given()
