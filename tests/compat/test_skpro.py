"""The regressor as one of skpro's, in an environment that has skpro; its own checks of estimators and distributions."""

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt

pytest.importorskip("skpro")
pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def fitted():
    from widetail.compat.skpro import ProbaRegressor

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(30, 2)), columns=["a", "b"], index=range(100, 130))
    y = pd.DataFrame({"price": 5 + np.sin(X["a"]) + 0.1 * rng.normal(size=30)})
    inner = wt.ScaleMixtureRegressor(net=wt.kernels.RBF(2.0), max_iterations=5)
    return ProbaRegressor(inner).fit(X, y), inner.fit(X, y["price"]), X.iloc[:4], y.iloc[:4]


def test_the_same_numbers_as_the_regressor(fitted):
    ours, inner, X, y = fitted
    interval = ours.predict_interval(X, coverage=[0.9])
    assert list(interval.index) == list(X.index)
    lower, upper = inner.predict_interval(X, 0.9)
    assert_allclose(interval["price", 0.9, "lower"], lower)
    assert_allclose(interval["price", 0.9, "upper"], upper)
    assert_allclose(ours.predict_quantiles(X, alpha=[0.1, 0.5]), inner.predict_quantiles(X, (0.1, 0.5)))
    assert_allclose(ours.predict_var(X)["price"], inner.predict_dist(X).var)
    assert_allclose(ours.predict(X)["price"], inner.predict(X), rtol=1e-9)
    dist = ours.predict_proba(X)
    assert_allclose(dist.log_pdf(y)["price"], inner.predict_dist(X).log_prob(y["price"].to_numpy()))
    assert_allclose(dist.iloc[[1, 3]].ppf(0.3)["price"], inner.predict_quantiles(X.iloc[[1, 3]], (0.3,))[:, 0])
    assert float(dist.iloc[1, 0].cdf(5.0)) == pytest.approx(
        float(inner.predict_dist(X.iloc[[1]]).cdf(np.array([5.0]))[0])
    )


def test_scores_of_skpro_work_on_it(fitted):
    from skpro.metrics import CRPS, LogLoss, PinballLoss

    ours, inner, X, y = fitted
    dist = ours.predict_proba(X)
    assert LogLoss()(y, dist) == pytest.approx(-inner.log_score(X, y["price"]))
    assert np.isfinite(CRPS()(y, dist))
    assert np.isfinite(PinballLoss()(y, ours.predict_quantiles(X, alpha=[0.1, 0.9])))


@pytest.mark.slow
def test_the_checks_of_skpro_pass():
    """In a process of its own: they look at signatures, which the checks of types in tests hide."""
    code = (
        "from skpro.utils import check_estimator; from widetail.compat.skpro import ProbaRegressor;"
        "check_estimator(ProbaRegressor, raise_exceptions=True)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
