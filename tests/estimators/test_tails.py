"""Width and tails that the regressor measures on left-out rows."""

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

import widetail as wt
from widetail.estimators import Tails
from widetail.files import from_config, to_config
from widetail.process import LeftOut

NET = wt.nn.mlp(1, "erf", weight_var=2.0, bias_var=0.1)


def test_left_out_rows_are_predicted_as_after_refitting():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(9, 2)), rng.normal(size=(9, 2))
    counts = np.arange(9) % 3 + 1
    for noise in (wt.ScaledNoise(0.1), wt.IndependentNoise(0.1)):
        process = wt.ScaleMixture(NET, wt.PointMass(1.7), noise)
        left_out = process.posterior(x, y, counts=counts).left_out()
        for row in range(9):
            fewer = counts - (np.arange(9) == row)
            rest = fewer > 0
            dist = process.posterior(x[rest], y[rest], counts=fewer[rest])(x[row : row + 1])
            assert_allclose(left_out.location[row], dist.mean[0], atol=1e-8)
            assert_allclose(left_out.scale[row], dist.std[0], rtol=1e-8)


@pytest.mark.parametrize(("degrees", "factor"), [(3.0, 0.5), (6.0, 1.3), (1e5, 1.0)])
def test_tails_of_many_rows_are_found(degrees, factor):
    scores = scipy.stats.t(degrees, scale=factor).rvs(20_000, random_state=0)
    tails = Tails.measure(scores, LeftOut(np.zeros(20_000), np.ones(20_000)), np.ones(20_000))
    # standard errors at 20,000 rows: about 0.004 of 1 / degrees and 1 % of the factor
    assert_allclose(1 / tails.degrees, [1 / degrees], atol=0.02)
    assert_allclose(tails.factor, [factor], rtol=0.04)


def test_a_few_rows_change_little():
    tails = Tails.measure(np.array([0.1, -0.2, 0.05]), LeftOut(np.zeros(3), np.ones(3)), np.ones(3))
    assert tails.factor[0] > 0.4
    assert tails.degrees[0] > 100


def test_rows_count_as_often_as_observed():
    scores = scipy.stats.t(4.0).rvs(50, random_state=1)
    counts = np.arange(50) % 4 + 1.0
    weighted = Tails.measure(scores, LeftOut(np.zeros(50), np.ones(50)), counts)
    repeated = np.repeat(scores, counts.astype(int))
    same = Tails.measure(repeated, LeftOut(np.zeros(len(repeated)), np.ones(len(repeated))), np.ones(len(repeated)))
    assert_allclose(weighted.degrees, same.degrees, rtol=1e-3)
    assert_allclose(weighted.factor, same.factor, rtol=1e-4)


def test_numbers_that_were_learned_make_left_out_rows_too_near():
    scores = np.random.default_rng(0).normal(size=100)
    left = LeftOut(np.zeros(100), np.ones(100))
    tails = Tails.measure(scores, left, np.ones(100), learned=10)
    larger = Tails.measure(np.sqrt(1.2) * scores, left, np.ones(100))
    assert_allclose(tails.factor, larger.factor)


@pytest.mark.parametrize("half_a_step", [0.0, 0.01])
@pytest.mark.parametrize(("degrees", "scale"), [(1e5, 0.4), (3.0, 0.6), (1e5, 1.4)])
def test_ninety_per_cent_intervals_are_as_wide_as_they_have_to_be(degrees, scale, half_a_step):
    scores, left = scipy.stats.t(degrees, scale=scale).rvs(200, random_state=0), LeftOut(np.zeros(200), np.ones(200))
    free = Tails.measure(scores, left, np.ones(200), half_a_step)
    tails = Tails.measure(scores, left, np.ones(200), half_a_step, least_width=1.0)
    assert_allclose(tails.degrees, free.degrees)  # tails are what was measured

    def width(tails):
        return tails.factor[0] * scipy.stats.t(tails.degrees[0]).ppf(0.95) / scipy.stats.norm.ppf(0.95)

    assert width(tails) == pytest.approx(max(width(free), 1.0))


@pytest.mark.slow
def test_intervals_of_learned_processes_hold_more_of_what_they_promise():
    rng = np.random.default_rng(0)
    new = slice(60, None)
    covered: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(20):
        x = rng.normal(size=(360, 5))
        kernel = np.asarray(wt.kernels.RBF().kernel(x / np.exp(rng.normal(size=5)) / 2).nngp)
        y = np.linalg.cholesky(kernel + 1e-8 * np.eye(360)) @ rng.normal(size=360) + 0.2 * rng.normal(size=360)
        net = wt.nn.Sequential(wt.nn.Dense(weight_var=np.full(5, 0.3)), wt.nn.Rbf())
        fit = wt.fit_evidence(wt.ScaleMixture(net, noise=wt.ScaledNoise(0.05)), x[:60], y[:60], max_iterations=60)
        posterior = fit.process.posterior(x[:60], y[:60])
        for is_mended, shares in covered.items():
            learned = is_mended * len(fit.learned)
            tails = Tails.measure(y[:60], posterior.left_out(), np.ones(60), learned=learned)
            shares.append(wt.metrics.coverage(tails.apply(posterior(x[new])), y[new], 0.9))
    assert np.mean(covered[0]) < 0.85
    assert np.mean(covered[0]) + 0.02 < np.mean(covered[1]) < 0.92


@pytest.mark.parametrize("half_a_step", [0.0, 0.05])
def test_tails_of_a_stream_are_those_of_all_its_rows(half_a_step):
    scores = scipy.stats.t(4.0, scale=0.7).rvs(1500, random_state=2)
    tails, counts = None, np.ones(500)
    for part in np.split(scores, 3):
        left = LeftOut(np.zeros(500), np.ones(500))
        tails = Tails.of_stream(part, left, counts, half_a_step, tails)
    whole = Tails.measure(scores, LeftOut(np.zeros(1500), np.ones(1500)), np.ones(1500), half_a_step)
    assert_allclose(1 / tails.degrees, 1 / whole.degrees, atol=1e-3)
    assert_allclose(tails.factor, whole.factor, rtol=1e-3)
    assert from_config(to_config(tails)).log_likelihood.shape == tails.log_likelihood.shape
    old = Tails(whole.degrees, whole.factor)
    assert Tails.of_stream(scores[:3], LeftOut(np.zeros(3), np.ones(3)), np.ones(3), 0.0, old) is old


def test_calibration_mends_coverage_and_score_under_heavy_tailed_noise():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, size=(800, 1))
    y = np.sin(2.0 * x[:, 0]) + 0.2 * rng.standard_t(2.5, size=800)
    train, test = slice(0, 400), slice(400, None)
    score, covered = {}, {}
    for calibrate in (False, True):
        model = wt.ScaleMixtureRegressor(net=NET, calibrate=calibrate).fit(x[train], y[train])
        score[calibrate] = model.log_score(x[test], y[test])
        lower, upper = model.predict_interval(x[test], coverage=0.5)
        covered[calibrate] = np.mean((lower <= y[test]) & (y[test] <= upper))
    assert score[True] > score[False] + 0.05
    # one standard error of 400 rows is 0.025
    assert abs(covered[True] - 0.5) < 0.075
    assert covered[False] > 0.6


def test_without_calibration_the_predictive_is_that_of_the_process():
    x = np.linspace(-1.0, 1.0, 20)[:, None]
    model = wt.ScaleMixtureRegressor(net=NET, calibrate=False, standardise=False).fit(x, np.sin(3 * x[:, 0]))
    assert model.tails_ is None
    assert_allclose(model.predict_dist(x).std, model.posterior(x).std)
