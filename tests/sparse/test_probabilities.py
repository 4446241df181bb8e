"""Class probabilities against integrals taken in other ways."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import log_expit, logsumexp

from widetail.sparse import InverseGammaScale, PointScale, class_probabilities

Z = np.linspace(-14.0, 14.0, 60_001)
LOG_NORMAL = -0.5 * Z**2 - 0.5 * np.log(2 * np.pi) + np.log(Z[1] - Z[0])


def logistic_normal(mean, deviation):
    """log E[sigmoid(f)]: a sum over a fine grid, in logarithms."""
    return logsumexp(log_expit(mean + deviation * Z) + LOG_NORMAL)


def test_two_classes_against_a_fine_grid_down_to_small_probabilities():
    cases = [(m, s) for m in (0.0, -4.0, -13.0, -25.0, -60.0) for s in (0.02, 0.3, 1.0, 3.0, 9.0, 25.0)]
    expected = np.array([logistic_normal(*case) for case in cases])
    mean, deviation = np.array(cases).T
    found = class_probabilities(mean[:, None], deviation[:, None] ** 2, PointScale(1.0, learn=False), draws=64)
    is_asked = expected > np.log(1e-7)
    assert np.sum(expected[is_asked] < np.log(1e-4)) >= 3
    assert_allclose(np.log(found.probabilities[:, 1])[is_asked], expected[is_asked], atol=1e-3)


def test_three_classes_against_nested_sums():
    # the first latent value is known; over the others a grid of two dimensions
    mean, deviation = np.array([[0.0, -9.0, -6.0], [3.0, -14.0, 1.0]]), np.array([[1e-5, 1.3, 2.5], [1e-5, 4.0, 0.4]])
    z = np.linspace(-9.0, 9.0, 901)
    log_weight = -0.5 * z**2 - logsumexp(-0.5 * z**2)
    found = class_probabilities(mean, deviation**2, PointScale(1.0, learn=False), draws=64).probabilities
    for row in range(2):
        second, third = (mean[row, k] + deviation[row, k] * z for k in (1, 2))
        total = np.logaddexp(mean[row, 0], np.logaddexp(second[:, None], third[None]))
        for column, f in enumerate((mean[row, 0], second[:, None], third[None])):
            expected = logsumexp(f - total + log_weight[:, None] + log_weight[None])
            assert_allclose(np.log(found[row, column]), expected, atol=1e-3)


@pytest.mark.parametrize("a", [1.5, 8.0, 400.0])
def test_the_scale_is_integrated(a):
    law = InverseGammaScale(a, 2 * a, 2.0, 2.0)
    mean, deviation = -11.0, 2.0
    # a fine grid of logarithms of the scale, for the density of InverseGamma(a, 2 a)
    logs = np.log(2.0) + np.linspace(-1.0, 1.0, 301) * (30 / a if a < 10 else 12 / np.sqrt(a))
    log_weight = stats.invgamma.logpdf(np.exp(logs), a, scale=2 * a) + logs
    values = [logistic_normal(mean, deviation * np.exp(log / 2)) for log in logs]
    expected = logsumexp(log_weight + values) - logsumexp(log_weight)
    found = class_probabilities(np.array([[mean]]), np.array([[deviation**2]]), law, draws=64).probabilities
    assert_allclose(np.log(found[0, 1]), expected, atol=3e-3)


def test_probabilities_are_whole_and_shifts_of_all_outputs_do_not_matter():
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=(7, 5)) * 6, np.exp(rng.normal(size=(7, 5)) * 2)
    law = PointScale(2.0, learn=False)
    found, shifted = (class_probabilities(m, variance, law, draws=64).probabilities for m in (mean, mean + 40.0))
    assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    assert_allclose(found, shifted, rtol=1e-6)
