"""Kinds of noise of the regressor: outliers, loud inputs, files, and what does not go together."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail import nn, predictive
from widetail.estimators import Scaling, _exact

NET = nn.mlp(1, "erf")
QUICK = {"net": NET, "max_iterations": 8}
BAD = [7, 21, 40]


def data(n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-2, 2, n))[:, None]
    y = 100 + 10 * np.sin(2 * x[:, 0]) + rng.normal(size=n)
    y[BAD] += np.array([60.0, -80.0, 1e6])
    return x, y


@pytest.fixture(scope="module")
def rows():
    return wt.ScaleMixtureRegressor(noise="rows", **QUICK).fit(*data())


@pytest.fixture(scope="module")
def auto():
    return wt.ScaleMixtureRegressor(noise="auto", **QUICK).fit(*data())


def error(model):
    x = np.linspace(-1.8, 1.8, 30)[:, None]
    return np.sqrt(np.mean((model.predict(x) - 100 - 10 * np.sin(2 * x[:, 0])) ** 2))


def test_outliers_are_named_and_do_not_pull(rows):
    assert isinstance(rows.process_.noise, wt.RowNoise)
    assert sorted(rows.outliers()) == BAD
    assert rows.outliers()[0] == 40
    assert error(rows) < 1.0
    assert error(wt.ScaleMixtureRegressor(**QUICK).fit(*data())) > 100
    lower, upper = rows.predict_interval(data()[0], 0.5)
    assert np.all(upper - lower < 4)


def test_the_map_of_the_target_is_that_of_rows_which_are_no_outliers():
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (80, 2))
    y = np.exp(2.0 * x[:, 0] + 1.5 * x[:, 1] + 0.05 * rng.normal(size=80))
    bad = rng.choice(80, 12, replace=False)
    y[bad] -= 5 * y.std()  # no longer positive, so that a constant noise sees a target that can be anything
    model = wt.ScaleMixtureRegressor(net=wt.kernels.RBF(2.0), noise="rows", max_iterations=4)
    warp = model.fit(x, y).target_.warp
    assert isinstance(warp, predictive.BentWarp)
    assert warp.bend > 0.5
    y[bad] = np.abs(y[bad])
    assert model.fit(x, y).target_.kind == "positive"


def test_the_kind_of_noise_is_chosen_by_left_out_rows(auto):
    assert auto.noise_choice_.name in ("rows", "both")
    assert list(auto.noise_choice_.scores) == ["constant", "rows", "inputs", "both"]
    assert auto.noise_choice_.scores["rows"] > auto.noise_choice_.scores["constant"] + 0.5
    assert sorted(auto.outliers()) == BAD
    assert error(auto) < 1.0


@pytest.mark.parametrize("kind", ["rows", "auto"])
def test_saved_and_loaded(kind, rows, auto, tmp_path):
    model = {"rows": rows, "auto": auto}[kind]
    model.save(tmp_path / "model")
    again = wt.load(tmp_path / "model")
    x, y = data()
    assert_allclose(again.predict(x), model.predict(x), rtol=1e-12)
    assert_allclose(again.predict_dist(x).log_prob(y), model.predict_dist(x).log_prob(y), rtol=1e-10)
    assert again.outliers().tolist() == model.outliers().tolist()
    assert again.noise_choice_ is None


def test_rows_that_count_twice_are_rows_that_are_there_twice():
    x, y = data(44, seed=1)
    weights = np.ones(44)
    weights[::4] = 2
    options = {"noise": wt.RowNoise(variance=0.05), "net": NET, "learn": False}
    weighted = wt.ScaleMixtureRegressor(**options).fit(x, y, weights)
    repeated = wt.ScaleMixtureRegressor(**options).fit(
        *(np.repeat(part, weights.astype(int), axis=0) for part in (x, y))
    )
    new = np.linspace(-2, 2, 9)[:, None]
    assert_allclose(weighted.predict(new), repeated.predict(new), rtol=1e-3)
    assert_allclose(weighted.predict_dist(new).std, repeated.predict_dist(new).std, rtol=0.02)
    left = weights.copy()
    left[43] = 0  # an absent row is not counted in the answer
    assert max(wt.ScaleMixtureRegressor(**options).fit(x, y, left).outliers(1.5), default=0) < 43


@pytest.mark.slow
def test_noise_that_depends_on_the_input():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-2, 2, 250))[:, None]
    sd = np.where(x[:, 0] > 0, 3.0, 0.3)
    y = np.sin(2 * x[:, 0]) + sd * rng.normal(size=250)
    constant, inputs, auto = (
        wt.ScaleMixtureRegressor(net=NET, noise=noise, max_iterations=20).fit(x, y)
        for noise in ("scaled", "inputs", "auto")
    )
    quiet, loud = (np.asarray(inputs.predict_dist(np.array([[at]])).std)[0] for at in (-1.0, 1.0))
    assert 0.2 < quiet < 0.5
    assert 2.0 < loud < 4.0
    assert auto.noise_choice_.name == "inputs"
    assert len(inputs.outliers()) == 0
    new, clean = np.full((400, 1), -1.0), np.sin(-2.0) + 0.3 * rng.normal(size=400)
    assert inputs.log_score(new, clean) > constant.log_score(new, clean) + 0.5


@pytest.mark.slow
def test_few_rows_are_integrated_given_the_noise_of_the_rows(tmp_path, monkeypatch):
    # one architecture in place of four
    monkeypatch.setattr(
        _exact, "candidates_for_few_rows", lambda features: {"sum": wt.kernels.Anova(3.0, 0.15, order=1)}
    )
    rng = np.random.default_rng(3)
    x = rng.normal(size=(40, 2))
    y = x[:, 0] + np.sin(2 * x[:, 1]) + 0.1 * rng.normal(size=40)
    y[[3, 30]] += [8.0, -9.0]
    model = wt.ScaleMixtureRegressor(noise="rows", max_iterations=10).fit(x, y)
    assert len(model.integrated_.processes) > 1
    assert all(isinstance(one.noise, wt.RowNoise) for one in model.integrated_.processes)
    assert {3, 30} <= set(model.outliers().tolist())
    new = rng.normal(size=(200, 2))
    truth = new[:, 0] + np.sin(2 * new[:, 1])
    plain = wt.ScaleMixtureRegressor(max_iterations=10).fit(x, y)
    assert np.mean((model.predict(new) - truth) ** 2) < 0.5 * np.mean((plain.predict(new) - truth) ** 2)
    model.save(tmp_path / "model")
    assert_allclose(wt.load(tmp_path / "model").predict(new), model.predict(new), rtol=1e-10)


SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("inputs", "both", "auto")]


@pytest.mark.parametrize("kind", ["rows", *SLOW])
@pytest.mark.parametrize("case", ["two rows", "constant y", "half equal", "all far"])
def test_hard_cases_end_with_finite_numbers(kind, case):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(14, 2)), rng.normal(size=14)
    if case == "two rows":
        x, y = x[:2], y[:2]
    elif case == "constant y":
        y = np.full(14, 3.0)
    elif case == "half equal":
        y[:8] = 1.0
    else:
        y = 1e8 * rng.standard_cauchy(14)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the (scales of the rows|noise of the inputs) still change")
        model = wt.ScaleMixtureRegressor(noise=kind, net=NET, max_iterations=4).fit(x, y)
    assert np.all(np.isfinite(model.predict(x)))
    assert np.all(np.isfinite(model.predict_dist(x).log_prob(y)))
    assert np.all(np.isfinite(model.predict_interval(x)))


def test_guarantees_that_need_closed_forms_are_refused_and_cv_works(rows):
    with pytest.raises(NotImplementedError, match="method='cv\\+'"):
        rows.predict_interval(data()[0], method="full")


@pytest.mark.slow
def test_cross_validated_intervals_of_rows():
    x, y = data(50)
    model = wt.ScaleMixtureRegressor(noise="rows", **QUICK).fit(x, y)
    lower, upper = model.predict_interval(x, 0.8, method="cv+")
    assert np.mean((lower <= y) & (y <= upper)) >= 0.6


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (wt.ScaleMixtureRegressor(noise="loud"), "noise must be one of 'scaled', 'independent', 'rows'"),
        (wt.ScaleMixtureRegressor(noise=0.1), "noise must be"),
        (wt.ScaleMixtureRegressor(noise="auto", learn=False), "name a kind of noise"),
        (wt.ScaleMixtureClassifier(noise="rows"), "noise must be 'scaled', 'independent', wt.ScaledNoise"),
    ],
)
def test_bad_noise(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(np.eye(12), np.arange(12) % 2)


def test_outliers_have_no_say_in_the_units_of_targets():
    rng = np.random.default_rng(0)
    y = rng.normal(5.0, 2.0, size=(2001, 1))
    robust = Scaling.robust(y, np.ones(2001))
    assert_allclose((robust.shift[0], robust.factor[0]), (5.0, 2.0), atol=0.15)
    y[::10] = 1e9
    assert_allclose(Scaling.robust(y, np.ones(2001)).factor, robust.factor, rtol=0.3)
    twice = Scaling.robust(np.repeat(y, 2, axis=0), np.ones(4002))
    assert_allclose(twice.factor, Scaling.robust(y, np.full(2001, 2.0)).factor)
    equal = np.array([[1.0]] * 8 + [[5.0]])
    assert Scaling.robust(equal, np.ones(9)) == Scaling.of(equal, np.ones(9))
    # a value that stands for a missing one must not make all others equal
    y[7] = 1e38
    assert_allclose(Scaling.robust(y, np.ones(2001)).factor, robust.factor, rtol=0.3)


def test_a_target_that_cannot_be_squared_is_named():
    x, y = data()
    y[7] = 1e200
    with pytest.raises(ValueError, match=r"y\[7\] is 1e\+200, more than 1e\+100 times.*sample_weight 0"):
        wt.ScaleMixtureRegressor(noise="rows", **QUICK).fit(x, y)


@pytest.mark.slow
def test_a_target_that_stands_for_a_missing_one_does_not_pull():
    x, y = data()
    y[7] = 3.4e38
    model = wt.ScaleMixtureRegressor(noise="rows", **QUICK).fit(x, y)
    assert model.outliers()[0] == 7
    assert error(model) < 1.0
