"""Width and tails of sparse regressors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail.estimators._sparse_tails import left_out

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (60, 1))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_t(2, 60)
FIXED = {"net": wt.nn.mlp(1, "erf"), "prior": wt.PointMass(1.0), "learn": False}


def test_left_out_rows_are_those_of_the_exact_process():
    """With all rows as inducing inputs and a known scale both are the same model."""
    options = wt.sparse.TrainingOptions(scale="given", learn_likelihood=False, precision="float64")
    noise = wt.sparse.Gaussian(0.05)
    model = wt.SparseMixtureRegressor(**FIXED, inducing=X, likelihood=noise, options=options).fit(X, Y)
    x, y = model.x_scaling_.apply(X), model.y_scaling_.apply(Y[:, None])
    exact = wt.ScaleMixture(FIXED["net"], wt.PointMass(1.0), wt.ScaledNoise(0.05)).posterior(x, y)
    for found, expected in zip(left_out(model.model_, x, y), exact.left_out(), strict=True):  # locations and scales
        assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_heavy_tails_make_the_middle_narrower(tmp_path):
    x = RNG.uniform(-2, 2, (400, 1))
    y = np.sin(2 * x[:, 0]) + 0.05 * RNG.standard_t(1.5, 400)
    new = RNG.uniform(-2, 2, (2000, 1))
    y_new = np.sin(2 * new[:, 0]) + 0.05 * RNG.standard_t(1.5, 2000)
    covered = {}
    for calibrate in (True, False):
        model = wt.SparseMixtureRegressor(**FIXED, inducing=25, calibrate=calibrate).fit(x, y)
        low, high = model.predict_interval(new, 0.5)
        covered[calibrate] = np.mean((low <= y_new) & (y_new <= high))
        model.save(tmp_path / "m")
        assert_allclose(wt.load(tmp_path / "m").predict_interval(new[:5], 0.5), (low[:5], high[:5]), rtol=1e-9)
    assert covered[False] > 0.7
    assert abs(covered[True] - 0.5) < 0.06  # of which 0.011 is the standard error of 2,000 rows
    assert model.tails_ is None


def test_positive_targets_have_positive_bounds():
    x = RNG.uniform(-2, 2, (150, 1))
    y = np.exp(2 * x[:, 0] + 0.3 * RNG.normal(size=150))
    model = wt.SparseMixtureRegressor(inducing=20).fit(x, y)
    assert model.target_.kind == "positive"
    low, high = model.predict_interval(x, 0.99)
    assert low.min() > 0
    assert np.mean((low <= y) & (y <= high)) > 0.95
    assert np.all((low < model.predict(x)) & (model.predict(x) < high))
    with pytest.raises(ValueError, match="likelihood='gaussian'"):
        wt.SparseMixtureRegressor(likelihood="poisson", target="positive").fit(x, np.ones(150))
