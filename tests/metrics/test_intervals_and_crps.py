"""Scores of intervals and quantiles, and closed forms of the CRPS, against integrals of their definitions."""

import jaxtyping
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from numpy.testing import assert_allclose

from widetail import metrics, predictive

POINTS = np.array([-9.0, -1.3, 0.0, 0.4, 30.0])


def crps_by_integration(law, y):
    below = scipy.integrate.quad(lambda t: law.cdf(t) ** 2, -np.inf, y, limit=200)[0]
    return below + scipy.integrate.quad(lambda t: law.sf(t) ** 2, y, np.inf, limit=200)[0]


@pytest.mark.parametrize("degrees", [1.2, 2.0, 4.0, 300.0])
def test_crps_of_student_t(degrees):
    law = scipy.stats.t(degrees, 0.7, 2.5)
    ours = metrics.crps_student_t(degrees, np.full(5, 0.7), np.full(5, 2.5), POINTS)
    tolerance = 2e-3 if degrees < 2 else 1e-6  # of the integral, whose tails are heavy
    assert_allclose(ours, [crps_by_integration(law, y) for y in POINTS], rtol=tolerance)
    theirs = predictive.StudentT(degrees, np.full(5, 0.7), np.full(5, 2.5**2)).crps(POINTS)
    assert_allclose(ours, theirs, rtol=1e-9)


def test_crps_of_normal():
    law = scipy.stats.norm(0.7, 2.5)
    ours = metrics.crps_normal(np.full(5, 0.7), np.full(5, 2.5), POINTS)
    assert_allclose(ours, [crps_by_integration(law, y) for y in POINTS], rtol=1e-7)
    assert_allclose(metrics.crps(predictive.Normal(np.full(5, 0.7), np.full(5, 2.5**2)), POINTS), ours.mean())


@pytest.mark.parametrize("law", [scipy.stats.norm(1.0, 2.0), scipy.stats.t(3, 0.0, 1.0), scipy.stats.expon()])
def test_crps_from_quantiles_converges(law):
    y = np.array([-0.5, 0.3, 4.0])
    exact = np.mean([crps_by_integration(law, value) for value in y])
    errors = []
    for number in (50, 400):
        levels = (np.arange(number) + 0.5) / number
        quantiles = np.repeat(law.ppf(levels)[:, None], 3, axis=1)
        errors.append(abs(metrics.crps_from_quantiles(quantiles, levels, y) - exact))
    assert errors[1] < 0.003 * exact
    assert errors[1] < errors[0] / 3


def test_crps_from_one_quantile_is_the_absolute_error():
    assert metrics.crps_from_quantiles(np.array([[1.0, 2.0]]), np.array([0.5]), np.array([3.0, 2.5])) == 1.25


def test_interval_score_is_the_sum_of_two_pinball_losses():
    """Gneiting and Raftery: 2 / alpha times the losses of the quantiles at alpha / 2 and 1 - alpha / 2."""
    rng = np.random.default_rng(0)
    lower, y = rng.normal(size=(2, 40))
    upper = lower + rng.uniform(0.0, 2.0, 40)
    total = 0.0
    for level, end in ((0.05, lower), (0.95, upper)):
        total += np.where(y < end, (1 - level) * (end - y), level * (y - end)).mean()
    assert metrics.interval_score(lower, upper, y, 0.9) == pytest.approx(2 / 0.1 * total)


def test_true_quantiles_have_the_best_interval_score():
    law = scipy.stats.t(4)
    y = law.ppf((np.arange(4000) + 0.5) / 4000)
    scores = {
        factor: metrics.interval_score(np.full(4000, -end), np.full(4000, end), y, 0.9)
        for factor in (0.8, 1.0, 1.25)
        for end in [factor * law.ppf(0.95)]
    }
    assert min(scores, key=scores.__getitem__) == 1.0


def test_infinite_intervals_have_an_infinite_score():
    assert metrics.interval_score(np.array([-np.inf]), np.array([np.inf]), np.array([0.0]), 0.9) == np.inf


def test_log_score_is_minus_the_nll():
    dist = predictive.Normal(np.zeros(5), np.ones(5))
    assert metrics.log_score(dist, POINTS) == pytest.approx(scipy.stats.norm.logpdf(POINTS).mean())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: metrics.interval_score(a, a - 1.0, a, 0.9), "lower must not be above upper; it is at 2 of 2"),
        (lambda a: metrics.interval_score(a, a, a, 90), "coverage must lie strictly between 0 and 1, got 90"),
        (lambda a: metrics.interval_score(a, a[:1], a, 0.9), "same shape"),
        (lambda a: metrics.crps_normal(a, 0.0 * a, a), "std must be positive"),
        (lambda a: metrics.crps_student_t(1.0, a, a + 1, a), "degrees must be larger than 1"),
        (lambda a: metrics.crps_from_quantiles(a[None], np.array([0.2, 0.3]), a), "quantiles must have shape"),
        (lambda a: metrics.crps_from_quantiles(np.ones((2, 2)), np.array([0.3, 0.2]), a), "levels must increase"),
    ],
)
def test_bad_input_is_named(call, message, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as users have it
    with pytest.raises(ValueError, match=message):
        call(np.array([0.5, 1.5]))
