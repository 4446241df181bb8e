"""Counts with a mixture of rates, against sums over all counts."""

import jax
import numpy as np
import pytest
import scipy.stats

from widetail.sparse import CountMixture

WEIGHTS = np.array([0.3, 0.7])
RATES = np.array([[2.0, 40.0, 0.1], [5.0, 10.0, 0.3]])  # two nodes, three points
COUNTS = np.arange(200.0)


@pytest.fixture
def dist():
    return CountMixture(WEIGHTS, RATES)


@pytest.fixture
def table():
    """Probabilities of every count at every point."""
    return np.einsum("j,jmk->mk", WEIGHTS, scipy.stats.poisson.pmf(COUNTS, RATES[..., None]))


def test_probabilities_moments_and_quantiles(dist, table):
    y = np.array([3.0, 25.0, 0.0])
    np.testing.assert_allclose(dist.log_prob(y), np.log(table[np.arange(3), y.astype(int)]), rtol=1e-12)
    np.testing.assert_allclose(dist.cdf(y), [table[i, : int(v) + 1].sum() for i, v in enumerate(y)], rtol=1e-12)
    np.testing.assert_allclose(dist.mean, table @ COUNTS, rtol=1e-10)
    np.testing.assert_allclose(dist.var, table @ COUNTS**2 - (table @ COUNTS) ** 2, rtol=1e-10)
    expected = [np.searchsorted(np.cumsum(row), 0.9) for row in table]
    np.testing.assert_array_equal(dist.quantile(0.9), expected)
    assert np.all(np.isposinf(dist.quantile(1.0)))


def test_far_tails_keep_their_digits(dist):
    """Far beyond the smallest number that is not zero."""
    y = np.array([0.0, 2000.0, 900.0])
    parts = scipy.stats.poisson.logpmf(y, RATES) + np.log(WEIGHTS)[:, None]
    np.testing.assert_allclose(dist.log_prob(y), np.logaddexp(*parts), rtol=1e-12)
    assert dist.log_prob(y)[1] < -5000
    assert np.all(np.isneginf(dist.log_prob(np.array([0.5, -1.0, 1.5]))))  # no counts


def test_crps_is_its_definition(dist, table):
    y = np.array([3.0, 25.0, 0.0])
    steps = np.cumsum(table, axis=1) - (y[:, None] <= COUNTS)
    np.testing.assert_allclose(dist.crps(y), np.sum(steps**2, axis=1), rtol=1e-7)


def test_draws_of_one_value_and_none_of_several(dist, table):
    draws = dist[1].sample(jax.random.key(0), 4000)
    error = np.sqrt(dist.var[1] / 4000)
    assert draws.shape == (4000, 1)
    assert abs(draws.mean() - dist.mean[1]) < 4 * error
    np.testing.assert_allclose(dist[1].joint_log_prob(np.array([25.0])), np.log(table[1, 25]), rtol=1e-12)
    with pytest.raises(ValueError, match=r"joint law of counts of shape \(3,\) is not kept; use log_prob"):
        dist.sample(jax.random.key(0))
    with pytest.raises(ValueError, match="take one value"):
        dist.joint_log_prob(np.zeros(3))
