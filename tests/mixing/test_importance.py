"""Importance sampling from the prior, and the tail of its weights."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from widetail import mixing, priors

PRIOR = priors.InverseGamma(2.0, 2.0)


def test_agrees_with_the_closed_form_within_its_error():
    data = mixing.ScaledNoiseLikelihood(10, 10.0)
    exact = mixing.scale_posterior(PRIOR, data)
    scale = mixing.scale_posterior(PRIOR, data, "importance", draws=20_000, key=jax.random.key(0))
    ess = scale.diagnostics.ess
    assert 0.2 * 20_000 < ess < 20_000
    assert abs(scale.mean - exact.mean) < 4 * exact.std / np.sqrt(ess)  # four standard errors
    assert abs(scale.log_evidence - exact.log_evidence) < 4 / np.sqrt(ess)
    assert abs(scale.cdf(exact.quantile(0.3)) - 0.3) < 4 * 0.5 / np.sqrt(ess)
    np.testing.assert_allclose(scale.quantile(0.7), exact.quantile(0.7), rtol=0.05)
    np.testing.assert_allclose(scale.log_prob(0.9), exact.log_prob(0.9), atol=0.05)
    assert scipy.stats.kstest(scale.sample(jax.random.key(1), (300,)), exact.cdf).pvalue > 1e-3


def test_it_degenerates_with_the_data_and_says_so():
    few = mixing.ScaledNoiseLikelihood(10, 10.0)
    many = mixing.ScaledNoiseLikelihood(5000, 5000.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        good = mixing.scale_posterior(PRIOR, few, "importance", key=jax.random.key(0))
    with pytest.warns(mixing.ImportanceWarning, match="quadrature"):
        poor = mixing.scale_posterior(PRIOR, many, "importance", key=jax.random.key(0))
    assert good.diagnostics.ess > 250
    assert poor.diagnostics.ess < 40


@pytest.mark.slow
def test_batch_of_outputs():
    data = mixing.ScaledNoiseLikelihood(10, np.array([10.0, 2.0]))
    scale = mixing.scale_posterior(PRIOR, data, "importance", key=jax.random.key(0))
    assert scale.batch_shape == (2,)
    assert scale.quantile([0.1, 0.5, 0.9]).shape == (3, 2)
    assert scale.sample(jax.random.key(0), (4,)).shape == (4, 2)
    assert scale.diagnostics.ess.shape == (2,)
    assert np.all(np.diff(scale.quantile([0.1, 0.5, 0.9]), axis=0) > 0)


@pytest.mark.parametrize("shape", [0.2, 0.6, 1.1])
def test_pareto_k_finds_the_shape_of_a_known_tail(shape):
    weights = scipy.stats.genpareto(shape).rvs((20_000, 8), random_state=0)
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(mixing.pareto_k)(jnp.asarray(np.log(weights))))
    # Some 424 weights are in each tail: a standard error of (1 + k) / sqrt(424), over eight repetitions.
    assert abs(np.mean(found) - shape) < 4 * (1 + shape) / np.sqrt(424 * 8) + 0.02
