"""Distributions of scipy and numpyro as priors."""

import jax
import numpy as np
import numpyro.distributions
import pytest
import scipy.stats

from widetail import priors

wrap = priors.ScalePrior.wrap

PAIRS = {
    "uniform": (numpyro.distributions.Uniform(0.5, 2.0), scipy.stats.uniform(0.5, 1.5)),
    "inverse gamma": (numpyro.distributions.InverseGamma(2.0, 3.0), scipy.stats.invgamma(2.0, scale=3.0)),
    "half-Cauchy": (numpyro.distributions.HalfCauchy(2.0), scipy.stats.halfcauchy(scale=2.0)),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("uniform", marks=pytest.mark.slow),
        "half-Cauchy",
        pytest.param("inverse gamma", marks=pytest.mark.slow),
    ],
)
def test_numpyro(name):
    dist, law = PAIRS[name]
    prior = wrap(dist)
    p = np.array([1e-4, 0.3, 0.5, 0.99])
    x = law.ppf(p)
    np.testing.assert_allclose(prior.log_prob(x), law.logpdf(x), rtol=1e-6, atol=1e-6)  # numpyro stores float32
    np.testing.assert_allclose(prior.cdf(x), p, rtol=1e-6)
    np.testing.assert_allclose(prior.quantile(p), x, rtol=1e-6)
    np.testing.assert_allclose(prior.mean, law.mean(), rtol=1e-6)
    assert scipy.stats.kstest(prior.sample(jax.random.key(1), (4000,)), law.cdf).pvalue > 1e-3


@pytest.mark.slow
def test_numpyro_without_a_cdf():
    class Plain(numpyro.distributions.HalfNormal):
        def cdf(self, value):
            raise NotImplementedError

    prior, law = wrap(Plain(1.5)), scipy.stats.halfnorm(scale=1.5)
    p = np.array([1e-6, 0.4, 0.999])
    np.testing.assert_allclose(prior.cdf(law.ppf(p)), p, rtol=1e-9)
    np.testing.assert_allclose(prior.quantile(p), law.ppf(p), rtol=1e-9)


def test_numpyro_is_differentiable():
    def log_prob(rate):
        return wrap(numpyro.distributions.InverseGamma(2.0, rate)).log_prob(1.5)

    with jax.enable_x64(True):
        gradient = jax.grad(log_prob)(3.0)
    np.testing.assert_allclose(gradient, 2.0 / 3.0 - 1 / 1.5, rtol=1e-6)


def test_tails_are_measured():
    assert wrap(scipy.stats.invgamma(0.7)).tail_index == pytest.approx(0.7)
    assert wrap(scipy.stats.halfcauchy()).tail_index == pytest.approx(1.0)
    assert wrap(scipy.stats.uniform(1.0, 2.0)).tail_index == np.inf
    assert wrap(scipy.stats.expon()).tail_index > 1e9
    assert wrap(numpyro.distributions.HalfCauchy(1.0)).tail_index == pytest.approx(1.0)
    assert wrap(scipy.stats.halfcauchy()).mean == np.inf


def test_new_kind_of_scipy_distribution():
    prior = wrap(scipy.stats.make_distribution(scipy.stats.gamma)(a=1.5))
    law = scipy.stats.gamma(1.5)
    np.testing.assert_allclose(prior.log_prob(0.7), law.logpdf(0.7))
    np.testing.assert_allclose(prior.quantile(0.7), law.ppf(0.7))


def test_a_prior_wraps_to_itself():
    prior = priors.HalfCauchy()
    assert wrap(prior) is prior


@pytest.mark.parametrize("dist", [scipy.stats.norm(), numpyro.distributions.Normal(0.0, 1.0)])
def test_negative_support_is_refused(dist):
    with pytest.raises(ValueError, match="positive reals"):
        wrap(dist)


@pytest.mark.parametrize("dist", [scipy.stats.gamma, 3.0, None])
def test_other_things_are_refused(dist):
    with pytest.raises(TypeError, match="freeze it first"):
        wrap(dist)


def test_batches_of_numpyro_are_refused():
    with pytest.raises(ValueError, match="scalar"):
        wrap(numpyro.distributions.HalfNormal(np.ones(2)))


def test_scipy_inside_jit_says_why_not():
    prior = wrap(scipy.stats.gamma(2.0))
    with pytest.raises(TypeError, match=r"inside jax\.jit"):
        jax.jit(prior.log_prob)(1.0)


def test_numpyro_cannot_be_written_down():
    with pytest.raises(ValueError, match="never imports numpyro"):
        wrap(numpyro.distributions.HalfNormal(1.0)).to_config()


def test_repr():
    assert repr(wrap(scipy.stats.gamma(2.0, scale=3.0))) == "ScalePrior.wrap(scipy.stats.gamma(2.0, scale=3.0))"
    expected = "ScalePrior.wrap(numpyro.distributions.HalfNormal(scale=1.5))"
    assert repr(wrap(numpyro.distributions.HalfNormal(1.5))) == expected
