"""Every prior: the same law as in scipy, normalised, invertible, drawn right, differentiable, written down."""

import json

import jax
import numpy as np
import pytest
import scipy.stats

from widetail import priors

from .families import FAMILIES, OWN_FAMILIES, brute_force_log_integral

every_family = pytest.mark.parametrize("name", FAMILIES)
every_own_family = pytest.mark.parametrize("name", OWN_FAMILIES)
LEVELS = np.array([1e-9, 1e-3, 0.2, 0.5, 0.8, 0.999, 1 - 1e-9])


@every_family
def test_law_is_that_of_scipy(name):
    prior, law = FAMILIES[name]
    x = law.ppf(LEVELS)
    np.testing.assert_allclose(prior.log_prob(x), law.logpdf(x), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(prior.cdf(x), law.cdf(x), rtol=1e-11)
    np.testing.assert_allclose(prior.quantile(LEVELS), x, rtol=2e-7)  # 1 - 1e-9 has lost the digits
    # Of a positive variable without a mean scipy may say nan; it is infinite.
    np.testing.assert_allclose(prior.mean, np.nan_to_num(law.mean(), nan=np.inf, posinf=np.inf), rtol=1e-12)
    np.testing.assert_allclose(prior.support, law.support(), rtol=1e-12)


@every_family
def test_results_are_double_whatever_the_flag(name):
    prior, _ = FAMILIES[name]
    assert not jax.config.jax_enable_x64
    for value in (prior.log_prob(1.1), prior.cdf(1.1), prior.quantile(0.4), prior.mean):
        assert np.asarray(value).dtype == np.float64
    assert prior.sample(jax.random.key(0), (3,)).dtype == np.float64


@every_family
def test_density_of_the_logarithm_is_normalised(name):
    prior, law = FAMILIES[name]
    lower, upper = (np.log(np.clip(end, 1e-304, 1e304)) for end in law.support())

    def log_density(t):
        return prior.log_prob(np.exp(t)) + t

    total = brute_force_log_integral(log_density, np.log(law.ppf(0.5)), lower, upper)
    assert abs(total) < 1e-9


@every_family
def test_quantile_inverts_cdf(name):
    prior, _ = FAMILIES[name]
    p = np.array([1e-12, 1e-6, 0.1, 0.5, 0.9, 0.999, 0.999999])
    np.testing.assert_allclose(prior.cdf(prior.quantile(p)), p, rtol=1e-11, atol=1e-15)


@every_family
def test_draws_follow_the_law(name):
    prior, law = FAMILIES[name]
    draws = prior.sample(jax.random.key(7), (4000,))
    assert scipy.stats.kstest(draws, law.cdf).pvalue > 1e-3


@every_own_family
def test_gradient_of_the_density_in_the_parameters(name):
    prior, _ = OWN_FAMILIES[name]
    leaves, structure = jax.tree.flatten(prior)

    def total(leaves):
        return jax.tree.unflatten(structure, leaves).log_prob(np.array([0.3, 1.7])).sum()

    with jax.enable_x64(True):
        gradient = jax.grad(total)(leaves)
    for i, leaf in enumerate(leaves):
        step = 1e-6 * leaf
        ends = [total([*leaves[:i], leaf + s, *leaves[i + 1 :]]) for s in (step, -step)]
        np.testing.assert_allclose(gradient[i], (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("prior", [priors.InverseGamma(2.0, 3.0), priors.BurrXII(2.0, 1.5), priors.LogNormal()])
def test_gradient_of_the_quantile_in_the_parameters(prior):
    leaves, structure = jax.tree.flatten(prior)

    def quantile(leaves):
        return jax.tree.unflatten(structure, leaves).quantile(0.3)

    with jax.enable_x64(True):
        gradient = jax.grad(quantile)(leaves)
    for i, leaf in enumerate(leaves):
        ends = [quantile([*leaves[:i], leaf + s, *leaves[i + 1 :]]) for s in (1e-6, -1e-6)]
        np.testing.assert_allclose(gradient[i], (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


@every_own_family
def test_repr_is_the_code_that_makes_it(name):
    prior, _ = OWN_FAMILIES[name]
    again = eval(repr(prior), vars(priors))
    assert repr(again) == repr(prior)
    assert again.log_prob(1.3) == prior.log_prob(1.3)


@every_family
def test_config_goes_through_json(name):
    prior, _ = FAMILIES[name]
    again = priors.prior_from_config(json.loads(json.dumps(prior.to_config())))
    assert again.log_prob(1.3) == prior.log_prob(1.3)


@pytest.mark.parametrize(
    "config",
    [
        {"name": "InverseGamma", "params": {"a": 1.0}},
        {"name": "os", "params": {}},
        {"name": "scipy", "params": {"dist": "norm.__class__", "args": []}},
        {"params": {}},
    ],
)
def test_a_foreign_config_is_refused(config):
    with pytest.raises(ValueError, match="to_config"):
        priors.prior_from_config(config)


def test_outside_of_the_support():
    prior = priors.Gamma(2.0, 1.0)
    assert prior.log_prob(-1.0) == -np.inf
    assert prior.log_prob(0.0) == -np.inf
    assert prior.cdf(-1.0) == 0.0
    assert prior.quantile(0.0) == 0.0
    assert prior.quantile(1.0) == np.inf


def test_parameters_may_be_arrays():
    prior = priors.InverseGamma(np.array([2.0, 3.0]), 1.0)
    assert prior.sample(jax.random.key(0), (5,)).shape == (5, 2)
    np.testing.assert_allclose(prior.mean, [1.0, 0.5])
    expected = [priors.InverseGamma(a, 1.0).quantile(0.2) for a in (2.0, 3.0)]
    np.testing.assert_allclose(prior.quantile(0.2), expected, rtol=1e-12)


def test_point_mass():
    prior = priors.PointMass(1.5)
    assert prior.mean == 1.5
    np.testing.assert_allclose(prior.quantile([0.1, 0.9]), 1.5)
    np.testing.assert_allclose(prior.sample(jax.random.key(0), (2,)), 1.5)
    assert prior.cdf(1.4) == 0.0
    assert prior.cdf(1.6) == 1.0


def test_inside_jit():
    prior = priors.BurrXII(2.0, 1.5)
    inside = jax.jit(lambda p, x: p.log_prob(x) + p.quantile(0.3))(prior, 1.3)
    np.testing.assert_allclose(inside, prior.log_prob(1.3) + prior.quantile(0.3), rtol=1e-5)


@pytest.mark.parametrize("bad", [-1.0, 0.0, np.nan, np.inf])
@pytest.mark.parametrize("family", [priors.InverseGamma, priors.BurrXII, priors.Gamma, priors.BetaPrime])
def test_bad_parameters_are_named(family, bad):
    with pytest.raises(ValueError, match=f"{family.__name__}: .* must be positive"):
        family(bad, 1.0)


def test_a_parameter_that_is_no_number_is_named():
    with pytest.raises(TypeError, match="PointMass: v must be a number"):
        priors.PointMass("one")


def test_a_percentage_is_no_probability():
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        priors.HalfCauchy().quantile(95)
