"""The normal and the Student-t predictive against scipy."""

import jax
import mpmath
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from widetail import predictive

MATRIX = np.array([[2.0, 0.6, 0.1], [0.6, 1.0, -0.2], [0.1, -0.2, 0.5]])
DIAGONAL = np.diag(MATRIX)
LOC = np.array([0.3, -1.0, 2.0])


@pytest.mark.parametrize("df", [0.7, 3.0, 40.0, 2004.0])
def test_marginals_and_joint_are_those_of_scipy(df):
    dist = predictive.StudentT(df, LOC, DIAGONAL, MATRIX, scale=1.3)
    law = scipy.stats.t(df, LOC, np.sqrt(1.3 * DIAGONAL))
    for y in (LOC, LOC + 0.1, LOC - 30.0, np.full(3, 1e6)):
        np.testing.assert_allclose(dist.log_prob(y), law.logpdf(y), rtol=1e-12)
        np.testing.assert_allclose(dist.cdf(y), law.cdf(y), rtol=1e-10)
        expected = scipy.stats.multivariate_t(LOC, 1.3 * MATRIX, df).logpdf(y)
        np.testing.assert_allclose(dist.joint_log_prob(y), expected, rtol=1e-11)
    for p in (1e-12, 0.01, 0.5, 0.9, 1 - 1e-12):
        np.testing.assert_allclose(dist.quantile(p), law.ppf(p), rtol=1e-10)


def test_outputs_share_their_scale():
    loc, y = np.array([[0.0, 1.0], [2.0, -1.0]]), np.array([[0.5, 0.1], [1.0, 4.0]])
    matrix = MATRIX[:2, :2]
    shared = predictive.StudentT(5.0, loc, np.diag(matrix), matrix)
    # Output by output, all values of the first and then all of the second.
    expected = scipy.stats.multivariate_t(loc.T.ravel(), np.kron(np.eye(2), matrix), 5.0).logpdf(y.T.ravel())
    np.testing.assert_allclose(shared.joint_log_prob(y), expected, rtol=1e-12)
    own = predictive.StudentT(np.array([5.0, 7.0]), loc, np.diag(matrix), matrix, scale=np.array([1.0, 2.0]))
    laws = [scipy.stats.multivariate_t(loc[:, d], (d + 1) * matrix, 5 + 2 * d) for d in (0, 1)]
    parts = [law.logpdf(y[:, d]) for d, law in enumerate(laws)]
    np.testing.assert_allclose(own.joint_log_prob(y), sum(parts), rtol=1e-12)
    assert own.sample(jax.random.key(0), (3,)).shape == (3, 2, 2)


def test_one_scale_for_each_joint_draw():
    dist = predictive.StudentT(12.0, np.zeros(2), np.ones(2), np.eye(2))
    squares = dist.sample(jax.random.key(2), (40_000,)) ** 2
    products = squares[:, 0] * squares[:, 1] / (12 / 10) ** 2
    # E[x^2 y^2] / (E[x^2] E[y^2]) is (df - 2) / (df - 4) for a joint t, and 1 for independent coordinates.
    assert abs(products.mean() - 10 / 8) < 4 * products.std() / np.sqrt(40_000)


def test_moments_that_do_not_exist():
    for df, mean_exists, var in [(0.9, False, np.nan), (1.5, True, np.inf), (3.0, True, 3.0)]:
        dist = predictive.StudentT(df, np.ones(1), np.ones(1))
        assert np.isfinite(dist.mean)[0] == mean_exists
        np.testing.assert_equal(dist.var, [var])
        np.testing.assert_allclose(dist.median, [1.0], rtol=1e-15)


@pytest.mark.parametrize("df", [0.6, 1.0, 1.3, 50.0])
def test_crps_of_heavy_tails(df):
    law = scipy.stats.t(df)
    expected = scipy.integrate.quad(lambda x: law.cdf(x) ** 2, -np.inf, 0.7, epsabs=1e-12)[0]
    expected += scipy.integrate.quad(lambda x: law.sf(x) ** 2, 0.7, np.inf, epsabs=1e-12)[0]
    dist = predictive.StudentT(df, np.zeros(1), np.ones(1))
    np.testing.assert_allclose(dist.crps([0.7]), [expected], rtol=1e-7)
    assert predictive.StudentT(0.5, np.zeros(1), np.ones(1)).crps([0.7]) == [np.inf]


def test_crps_of_the_normal():
    dist = predictive.Normal(np.zeros(1), np.ones(1), scale=4.0)
    law = scipy.stats.norm(0, 2)
    expected = scipy.integrate.quad(lambda x: law.cdf(x) ** 2, -np.inf, 1.2)[0]
    expected += scipy.integrate.quad(lambda x: law.sf(x) ** 2, 1.2, np.inf)[0]
    np.testing.assert_allclose(dist.crps([1.2]), [expected], rtol=1e-8)


@given(log_df=st.floats(8, 14), z=st.floats(-6, 6))
def test_many_degrees_of_freedom_are_the_normal(log_df, z):
    df = 10**log_df
    y = LOC + z * np.sqrt(DIAGONAL)
    t, normal = predictive.StudentT(df, LOC, DIAGONAL, MATRIX), predictive.Normal(LOC, DIAGONAL, MATRIX)
    np.testing.assert_allclose(t.log_prob(y), normal.log_prob(y), atol=1e3 / df + 1e-12)
    np.testing.assert_allclose(t.joint_log_prob(y), normal.joint_log_prob(y), atol=1e6 / df + 1e-11)
    np.testing.assert_allclose(t.cdf(y), normal.cdf(y), atol=1e2 / df + 1e-9)


def test_the_matrix_is_made_once_and_only_for_joint_questions():
    calls = []

    def matrix():
        calls.append(1)
        return MATRIX

    dist = predictive.StudentT(4.0, LOC, DIAGONAL, matrix)
    dist.log_prob(LOC), dist.quantile(0.1), dist.crps(LOC), dist.var
    assert not calls
    dist.joint_log_prob(LOC), dist.sample(jax.random.key(0)), dist.joint_log_prob(LOC), dist[:2].joint_log_prob(LOC[:2])
    assert len(calls) == 1


def test_without_a_matrix_joint_questions_are_refused():
    dist = predictive.Normal(LOC, DIAGONAL)
    with pytest.raises(ValueError, match="none was given"):
        dist.sample(jax.random.key(0))
    np.testing.assert_allclose(dist[1].joint_log_prob(LOC[[1]]), dist.log_prob(LOC)[1])


def test_a_singular_covariance_can_be_drawn_from_but_has_no_density():
    dist = predictive.Normal(np.zeros(2), np.ones(2), np.ones((2, 2)))
    draws = dist.sample(jax.random.key(0), (10,))
    np.testing.assert_allclose(draws[:, 0], draws[:, 1], atol=1e-4)
    with pytest.raises(ValueError, match="no joint density"):
        dist.joint_log_prob(np.zeros(2))
    with pytest.raises(ValueError, match="not positive semidefinite"):
        predictive.Normal(np.zeros(2), np.ones(2), -np.eye(2)).sample(jax.random.key(0))


def test_a_point_that_is_known_exactly():
    dist = predictive.StudentT(4.0, np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    assert dist.quantile([0.0, 0.3])[:, 0].tolist() == [1.0, 1.0]
    np.testing.assert_array_equal(dist.cdf([0.9, 0.0]), [0.0, 0.5])
    np.testing.assert_array_equal(dist.log_prob([1.0, 0.0])[0], np.inf)
    np.testing.assert_array_equal(dist.log_prob([1.1, 0.0])[0], -np.inf)
    np.testing.assert_allclose(dist.crps([1.5, 0.0])[0], 0.5)


def test_bad_shapes_and_values_are_named():
    with pytest.raises(ValueError, match="dispersion must have shape"):
        predictive.Normal(LOC, MATRIX)
    with pytest.raises(ValueError, match="loc must have shape"):
        predictive.Normal(1.0, DIAGONAL)
    with pytest.raises(ValueError, match="zero or more"):
        predictive.Normal(LOC, -DIAGONAL)
    with pytest.raises(ValueError, match="factor must be positive"):
        predictive.Normal(LOC, DIAGONAL).rescale(0.0, -1.0)
    with pytest.raises(ValueError, match="one for each output"):
        predictive.Normal(LOC, DIAGONAL).rescale(0.0, [1.0, 2.0])


@pytest.mark.parametrize(("df", "smallest"), [(0.5, 1e-140), (3.0, 1e-300), (50.0, 1e-300)])
def test_quantiles_of_next_to_no_probability(df, smallest):
    """Where scipy's own quantiles overflow."""
    p = np.array([1e-20, 1e-70, 1e-120, smallest])
    q = predictive.StudentT(df, np.zeros(1), np.ones(1)).quantile(p)[:, 0]
    with mpmath.workdps(40):
        share = [df / (df + mpmath.mpf(z) ** 2) for z in q]
        tail = [
            mpmath.betainc(df / 2, 0.5, 0, w, regularized=True) / 2 / level for w, level in zip(share, p, strict=True)
        ]
    np.testing.assert_allclose(np.array(tail, float), 1.0, rtol=1e-11)
    assert np.all(q < 0)
