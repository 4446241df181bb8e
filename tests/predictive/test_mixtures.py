"""Mixtures against the closed forms that they contain."""

import jax
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from widetail import mixing, predictive, priors

MATRIX = np.array([[2.0, 0.6, 0.1], [0.6, 1.0, -0.2], [0.1, -0.2, 0.5]])
DIAGONAL = np.diag(MATRIX)
LOC = np.array([0.3, -1.0, 2.0])
PRIOR, DATA = priors.InverseGamma(1.5, 2.0), mixing.ScaledNoiseLikelihood(4, 5.0)
CLOSED = mixing.scale_posterior(PRIOR, DATA)
QUADRATURE = mixing.scale_posterior(PRIOR, DATA, "quadrature")


def test_from_scale_chooses_the_class():
    kinds = {
        predictive.Normal: mixing.scale_posterior(priors.PointMass(2.0), DATA),
        predictive.StudentT: CLOSED,
        predictive.NormalScaleMixture: QUADRATURE,
    }
    for kind, scale in kinds.items():
        assert type(predictive.from_scale(scale, LOC, DIAGONAL, MATRIX)) is kind
    dist = predictive.from_scale(CLOSED, LOC, DIAGONAL)
    np.testing.assert_allclose([dist.df, dist.scale], [7.0, 4.5 / 3.5])


def test_scale_mixture_equals_student_t():
    t = predictive.from_scale(CLOSED, LOC, DIAGONAL, MATRIX)
    mixture = predictive.from_scale(QUADRATURE, LOC, DIAGONAL, MATRIX)
    for y in (LOC, LOC + 1, LOC - 40, np.full(3, 1e100)):
        np.testing.assert_allclose(mixture.log_prob(y), t.log_prob(y), rtol=1e-11)
        np.testing.assert_allclose(mixture.joint_log_prob(y), t.joint_log_prob(y), rtol=1e-11)
        np.testing.assert_allclose(mixture.cdf(y), t.cdf(y), rtol=1e-11)
        np.testing.assert_allclose(mixture.crps(y), t.crps(y), rtol=1e-10)
    p = np.array([1e-12, 1e-3, 0.3, 0.99, 1 - 1e-12])
    np.testing.assert_allclose(mixture.quantile(p), t.quantile(p), rtol=1e-11)
    np.testing.assert_allclose(mixture.var, t.var, rtol=1e-11)


def test_joint_density_of_many_more_points_than_data():
    # As a function of the scale the density of 400 values is far narrower than the nodes of the posterior are apart.
    m = 400
    y = 1.7 * np.random.default_rng(0).normal(size=m)
    dists = [predictive.from_scale(s, np.zeros(m), np.ones(m), np.eye(m)) for s in (CLOSED, QUADRATURE)]
    np.testing.assert_allclose(*(dist.joint_log_prob(y) for dist in dists), rtol=1e-11)


def test_an_outlier_after_much_data():
    data = mixing.ScaledNoiseLikelihood(1000, 900.0)
    dists = [
        predictive.from_scale(mixing.scale_posterior(PRIOR, data, method), np.zeros(1), np.ones(1))
        for method in ("closed", "quadrature")
    ]
    np.testing.assert_allclose(*(dist.log_prob([100.0]) for dist in dists), rtol=1e-9)


def test_each_output_with_its_own_scale():
    data = mixing.ScaledNoiseLikelihood(4, np.array([5.0, 0.3]))
    loc, y = np.stack([LOC, -LOC], 1), np.array([[1.0, 2.0], [0.0, -0.5], [3.0, 1.0]])
    t = predictive.from_scale(mixing.scale_posterior(PRIOR, data), loc, DIAGONAL, MATRIX)
    scale = mixing.scale_posterior(PRIOR, data, "quadrature")
    scales, log_weights = scale.nodes(refine=2)
    nodes = predictive.NormalMixture(
        log_weights,
        np.broadcast_to(loc, (len(scales), *loc.shape)),
        scales[:, None] * DIAGONAL[:, None],
        lambda j: scales[j][:, None, None] * MATRIX,
        scale.tail_index,
    )
    for mixture in (predictive.from_scale(scale, loc, DIAGONAL, MATRIX), nodes):
        for method in ("log_prob", "joint_log_prob", "cdf", "crps"):
            np.testing.assert_allclose(getattr(mixture, method)(y), getattr(t, method)(y), rtol=1e-10)
        np.testing.assert_allclose(mixture.quantile(0.01), t.quantile(0.01), rtol=1e-10)
        np.testing.assert_allclose(mixture.var, t.var, rtol=1e-9)
        draws = mixture.sample(jax.random.key(0), (2000,))
        assert scipy.stats.kstest(t.cdf(draws)[:, 1, 1], "uniform").pvalue > 1e-3


def test_prior_predictive_of_the_half_cauchy():
    dist = predictive.from_scale(mixing.scale_posterior(priors.HalfCauchy(1.0)), np.zeros(1), np.ones(1))
    assert dist.var == [np.inf]
    assert dist.mean == [0.0]
    t = np.linspace(-80, 80, 20_001)
    normal = scipy.stats.norm.pdf(0.8, 0, np.exp(t / 2))
    expected = np.sum(normal * scipy.stats.halfcauchy.pdf(np.exp(t)) * np.exp(t)) * (t[1] - t[0])
    np.testing.assert_allclose(np.exp(dist.log_prob([0.8])), [expected], rtol=1e-9)


def test_importance_nodes_make_a_predictive():
    scale = mixing.scale_posterior(PRIOR, DATA, "importance", draws=4000, key=jax.random.key(0))
    dist = predictive.from_scale(scale, LOC, DIAGONAL, MATRIX)
    exact = predictive.from_scale(CLOSED, LOC, DIAGONAL, MATRIX)
    np.testing.assert_allclose(dist.log_prob(LOC + 1), exact.log_prob(LOC + 1), atol=0.05)
    np.testing.assert_allclose(dist.quantile(0.9), exact.quantile(0.9), atol=0.2)
    assert dist.sample(jax.random.key(1), (2,)).shape == (2, 3)


@given(loc=st.floats(-5, 5), log_var=st.floats(-5, 5), z=st.floats(-8, 8))
def test_a_mixture_of_one_node_is_the_normal(loc, log_var, z):
    var = np.exp(log_var)
    one = predictive.NormalMixture(np.zeros(1), np.array([[loc]]), np.array([[var]]))
    normal = predictive.Normal(np.array([loc]), np.array([var]))
    y = np.array([loc + z * np.sqrt(var)])
    for method in ("log_prob", "joint_log_prob", "cdf", "crps"):
        np.testing.assert_allclose(getattr(one, method)(y), getattr(normal, method)(y), rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(one.quantile([1e-12, 0.4]), normal.quantile([1e-12, 0.4]), rtol=1e-11, atol=1e-13)


def test_node_mixture_with_distant_locations():
    dist = predictive.NormalMixture(np.log([0.25, 0.75]), np.array([[-50.0], [50.0]]), np.ones((2, 1)))
    expected = [-50 + scipy.stats.norm.ppf(0.4), 50 + scipy.stats.norm.ppf(0.35 / 0.75)]
    np.testing.assert_allclose(dist.quantile([0.1, 0.6])[:, 0], expected, rtol=1e-10)
    np.testing.assert_allclose(dist.mean, [25.0])
    np.testing.assert_allclose(dist.var, [1 + 50**2 - 25**2])
    draws = dist.sample(jax.random.key(0), (1000,))
    assert abs((draws < 0).mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 1000)


def test_node_mixture_without_moments_or_matrices():
    dist = predictive.NormalMixture(np.zeros(1), np.zeros((1, 2)), np.ones((1, 2)), tail_index=0.8)
    assert dist.var.tolist() == [np.inf, np.inf]
    assert dist.mean.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="none were given"):
        dist.joint_log_prob(np.zeros(2))
    with pytest.raises(ValueError, match="put the nodes first"):
        predictive.NormalMixture(np.zeros(3), np.zeros((2, 3)), np.ones((2, 3)))
