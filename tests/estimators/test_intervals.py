"""Spread as scikit-learn has it, and intervals with a guarantee, through the regressor."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import widetail as wt

rng = np.random.default_rng(7)
X = np.column_stack([rng.normal(size=24), np.arange(24) % 2])
Y = 20.0 + 5.0 * np.sin(2.0 * X[:, 0]) + rng.normal(size=24)
X_NEW = np.array([[0.2, 0.0], [1.0, 1.0], [-3.0, 0.0]])


def squared_exponential(first, second):
    return np.exp(-0.5 * np.sum((first[:, None] - second[None]) ** 2, axis=-1))


def regressor(**changes):
    given = {"net": squared_exponential, "noise": wt.ScaledNoise(0.2), "prior": wt.PointMass(1.0), "learn": False}
    return wt.ScaleMixtureRegressor(**(given | changes))


@pytest.mark.parametrize("y", [Y, np.stack([Y, -Y], axis=1)], ids=["vector", "two outputs"])
def test_predict_is_that_of_scikit_learns_gaussian_process(y):
    ours = regressor(standardise=False, calibrate=False).fit(X, y)
    theirs = GaussianProcessRegressor(RBF() + WhiteKernel(0.2), optimizer=None).fit(X, y)
    for options in ({"return_std": True}, {"return_cov": True}):
        for mine, other in zip(ours.predict(X_NEW, **options), theirs.predict(X_NEW, **options), strict=True):
            assert_allclose(mine, other, atol=1e-6)
    assert_allclose(ours.predict(X_NEW), theirs.predict(X_NEW), atol=1e-6)


def test_both_spreads_at_once_are_refused():
    with pytest.raises(ValueError, match="return_std and return_cov cannot both be True"):
        regressor().fit(X, Y).predict(X_NEW, return_std=True, return_cov=True)


def test_spread_is_that_of_the_calibrated_distribution():
    model = regressor(prior=wt.InverseGamma(2.0, 2.0)).fit(X, Y)
    dist = model.predict_dist(X_NEW)
    assert_allclose(model.predict(X_NEW, return_std=True)[1], dist.std)
    covariance = model.predict(X_NEW, return_cov=True)[1]
    assert_allclose(np.diag(covariance), dist.var)
    uncalibrated = model.posterior(model.x_scaling_.apply(X_NEW)).cov
    correlation = [
        matrix / np.sqrt(np.outer(np.diag(matrix), np.diag(matrix))) for matrix in (covariance, uncalibrated)
    ]
    assert_allclose(*correlation)


@pytest.mark.parametrize("method", ["full", "jackknife+"])
def test_guarantees_are_those_of_the_process_in_the_units_of_y(method):
    compute = {"full": wt.conformal.full, "jackknife+": wt.conformal.jackknife_plus}[method]
    model = regressor().fit(X, Y)
    lower, upper = compute(model.posterior, model.x_scaling_.apply(X_NEW), 0.8)
    shift, factor = Y.mean(), Y.std()
    assert_allclose(model.predict_interval(X_NEW, 0.8, method), (shift + factor * lower, shift + factor * upper))
    both = regressor().fit(X, np.stack([Y, 3.0 * Y], axis=1))
    low, high = both.predict_interval(X_NEW, 0.8, method=method)
    assert_allclose(low, np.stack([shift + factor * lower, 3 * shift + 3 * factor * lower], axis=1), rtol=1e-9)
    assert high.shape == (3, 2)


def test_cv_plus_learns_everything_anew():
    """Standardisation too: models of the folds, put together by hand, say the same."""
    model = regressor().fit(X, Y)
    lower, upper = model.predict_interval(X_NEW, 0.8, method="cv+")
    fits = model._cross_fits
    assert len(fits.held_out) == 10
    ends = []
    for fold in fits.held_out:
        rest = np.setdiff1d(np.arange(24), fold)
        other = regressor().fit(X[rest], Y[rest])

        def middle_and_width(x, other=other):
            low, middle, high = other.predict_quantiles(x, [0.158655253931, 0.5, 0.841344746069]).T
            return middle, 0.5 * (high - low)

        there, new = middle_and_width(X[fold]), middle_and_width(X_NEW)
        width = (np.abs(Y[fold] - there[0]) / there[1])[:, None] * new[1]
        ends.extend(zip(new[0] - width, new[0] + width, strict=True))
    below, above = np.sort(np.array(ends), axis=0).transpose(1, 0, 2)
    assert_allclose(lower, below[4], rtol=1e-6)  # floor(0.2 * 25) = 5
    assert_allclose(upper, above[-5], rtol=1e-6)
    model.fit(X[:12], Y[:12])
    assert not hasattr(model, "_cross_fits")


@pytest.mark.parametrize("method", ["full", "jackknife+", "cv+"])
def test_groups_by_column_and_by_labels(method):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"length": X[:, 0], "site": X[:, 1]})
    named = regressor().fit(frame, Y)
    expected = named.predict_interval(frame[:3], 0.8, method, groups=(X[:, 1], X[:3, 1]))
    assert_allclose(named.predict_interval(frame[:3], 0.8, method, groups="site"), expected)
    assert_allclose(named.predict_interval(frame[:3], 0.8, method, groups=1), expected)
    assert not np.allclose(named.predict_interval(frame[:3], 0.8, method), expected)


def test_a_saved_model_says_the_same(tmp_path):
    model = regressor(net=wt.kernels.RBF()).fit(X, Y)
    model.save(tmp_path / "model")
    again = wt.load(tmp_path / "model")
    for method in ("predictive", "full", "jackknife+"):
        assert_allclose(again.predict_interval(X_NEW, 0.8, method), model.predict_interval(X_NEW, 0.8, method))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"method": "jackknife"},
            r"method must be one of 'predictive', 'jackknife\+', 'full', 'cv\+'; got 'jackknife'",
        ),
        ({"groups": 0}, "groups are for the methods with a guarantee"),
        ({"method": "full", "groups": 2}, "a column of X.*numbers from 0 to 1.*got 2"),
        ({"method": "full", "groups": "site"}, "got 'site'"),
        ({"method": "full", "groups": ([0], [1])}, "24 labels of observed rows"),
        ({"method": "full", "coverage": 90}, "coverage must be one number strictly between 0 and 1"),
    ],
)
def test_bad_input_is_named(arguments, message, monkeypatch):
    import jaxtyping

    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as users have it
    with pytest.raises(ValueError, match=message):
        regressor().fit(X, Y).predict_interval(X_NEW, **arguments)


def test_one_row_is_too_few_for_cv_plus():
    with pytest.raises(ValueError, match=r"method='cv\+' needs two rows at least"):
        regressor().fit(X[:1], Y[:1]).predict_interval(X_NEW, method="cv+")
