"""Student-t marginals with the dependence of another distribution."""

import jax
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from numpy.testing import assert_allclose

from widetail import predictive

COVARIANCE = np.array([[1.0, 0.5], [0.5, 4.0]])
NORMAL = predictive.Normal(np.array([0.0, 1.0]), np.diagonal(COVARIANCE), COVARIANCE)
LAW = scipy.stats.t(5.0, [0.0, 1.0], [0.7, 1.4])
Y = np.array([[0.3, -2.0], [5.0, 8.0]])


def test_marginals_are_students():
    dist = predictive.Recalibrated(NORMAL, 5.0, 0.7)
    assert_allclose(dist.log_prob(Y), LAW.logpdf(Y), atol=1e-13)
    assert_allclose(dist.cdf(Y), LAW.cdf(Y), atol=1e-14)
    assert_allclose(dist.quantile(np.array([0.01, 0.7])), [LAW.ppf(0.01), LAW.ppf(0.7)], rtol=1e-12)
    assert_allclose(dist.mean, LAW.mean())
    assert_allclose(dist.var, LAW.var())


def test_crps_is_the_integral():
    dist = predictive.Recalibrated(NORMAL, 5.0, 0.7)[:1]
    law = scipy.stats.t(5.0, 0.0, 0.7)
    below = scipy.integrate.quad(lambda x: law.cdf(x) ** 2, -np.inf, 0.3)[0]
    above = scipy.integrate.quad(lambda x: law.sf(x) ** 2, 0.3, np.inf)[0]
    assert_allclose(dist.crps(np.array([0.3])), [below + above], rtol=1e-8)


@pytest.mark.parametrize("base", [NORMAL, predictive.StudentT(3.0, NORMAL.mean, np.diagonal(COVARIANCE), COVARIANCE)])
def test_joint_density_is_that_of_the_copula(base):
    dist = predictive.Recalibrated(base, 5.0, 0.7)
    # the density of the base at the same levels, in its own marginals
    if base is NORMAL:
        values, joint = (
            scipy.stats.norm([0.0, 1.0], [1.0, 2.0]),
            scipy.stats.multivariate_normal([0.0, 1.0], COVARIANCE),
        )
    else:
        values, joint = (
            scipy.stats.t(3.0, [0.0, 1.0], [1.0, 2.0]),
            scipy.stats.multivariate_t([0.0, 1.0], COVARIANCE, 3.0),
        )
    x = values.ppf(dist.cdf(Y))
    expected = joint.logpdf(x) - values.logpdf(x).sum(1) + dist.log_prob(Y).sum(1)
    assert_allclose(dist.joint_log_prob(Y), expected, atol=1e-9)


def test_draws_have_the_marginals_and_the_rank_correlation(key):
    draws = predictive.Recalibrated(NORMAL, 5.0, 0.7).sample(key, (4000,))
    for column, (location, scale) in enumerate([(0.0, 0.7), (1.0, 1.4)]):
        assert scipy.stats.kstest(draws[:, column], scipy.stats.t(5.0, location, scale).cdf).pvalue > 1e-3
    rank = scipy.stats.spearmanr(draws).statistic
    assert abs(rank - 6 / np.pi * np.arcsin(0.25 / 2)) < 4 / np.sqrt(4000)


def test_one_law_per_output():
    base = predictive.Normal(np.zeros((3, 2)), np.ones(3), np.eye(3))
    dist = predictive.Recalibrated(base, np.array([3.0, 30.0]), np.array([1.0, 0.5]))
    y = np.full((3, 2), 2.0)
    expected = [scipy.stats.t(3.0).logpdf(2.0), scipy.stats.t(30.0, 0.0, 0.5).logpdf(2.0)]
    assert_allclose(dist.log_prob(y), np.tile(expected, (3, 1)), atol=1e-13)
    assert dist.sample(jax.random.key(1), (5,)).shape == (5, 3, 2)


def test_extreme_values_stay_finite():
    dist = predictive.Recalibrated(NORMAL, 3.0, 1.0)
    y = np.array([1e12, -1e12])
    assert np.all(np.isfinite(dist.log_prob(y)))
    assert np.isfinite(dist.joint_log_prob(y))


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="degrees must be positive"):
        predictive.Recalibrated(NORMAL, 0.0, 1.0)
    with pytest.raises(ValueError, match="factor must be positive, a number or one for each output"):
        predictive.Recalibrated(NORMAL, 4.0, np.ones(2))
