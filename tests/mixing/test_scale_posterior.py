"""The posterior of the readout variance against closed forms, brute force and arbitrary precision."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from tests.priors.families import FAMILIES, OWN_FAMILIES, brute_force_log_integral
from widetail import mixing, priors

SIZES = [1, 10, 1000, 100_000]


def log_likelihood(t, n, quad):
    with np.errstate(over="ignore"):
        return -0.5 * n * (t + np.log(2 * np.pi)) - 0.5 * quad * np.exp(-t)


@pytest.mark.parametrize("quad", [0.0, 1e-300, 1e-3, 50.0, 1e300])
def test_quadrature_equals_closed_form_from_tiny_to_huge(quad):
    prior = priors.InverseGamma(2.0, 3.0)
    for n in SIZES:
        data = mixing.ScaledNoiseLikelihood(n, quad, 1.5)
        closed = mixing.scale_posterior(prior, data)
        quadrature = mixing.scale_posterior(prior, data, "quadrature")
        np.testing.assert_allclose(quadrature.log_evidence, closed.log_evidence, rtol=1e-14, atol=1e-9)
        # Log densities of size n log(quad) leave fewer digits for large n.
        np.testing.assert_allclose(quadrature.mean, closed.mean, rtol=1e-8)


# of the heavy tails the heaviest, of the others one; the densities themselves are tested with the priors
QUICK = ("inverse gamma", "Burr XII with a heavy tail", "log-normal", "wrapped Weibull", "wrapped uniform")
SOME_SLOW = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FAMILIES]


@pytest.mark.parametrize("name", SOME_SLOW)
def test_evidence_equals_brute_force(name):
    prior, law = FAMILIES[name]
    lower, upper = (np.log(np.clip(end, 1e-304, 1e304)) for end in law.support())
    for n in SIZES:
        quad = 1.3 * n
        found = mixing.scale_posterior(prior, mixing.ScaledNoiseLikelihood(n, quad))

        def log_density(t, n=n, quad=quad):
            with np.errstate(all="ignore"):
                return law.logpdf(np.exp(t)) + t + log_likelihood(t, n, quad)

        start = np.log(found.quantile(0.5)) if name.startswith("wrapped") else np.log(1.3)
        expected = brute_force_log_integral(log_density, start, lower, upper)
        np.testing.assert_allclose(found.log_evidence, expected, rtol=1e-14, atol=1e-8)


@pytest.mark.parametrize(
    ("prior", "density"),
    [
        (priors.HalfCauchy(1.0), lambda b: 2 / (mpmath.pi * (1 + b**2))),
        (priors.BurrXII(2.0, 0.25), lambda b: 0.5 * b * (1 + b**2) ** mpmath.mpf("-1.25")),
        (priors.Gamma(0.6, 1.0), lambda b: b ** mpmath.mpf("-0.4") * mpmath.exp(-b) / mpmath.gamma("0.6")),
    ],
)
def test_one_observation_and_a_heavy_tail_in_arbitrary_precision(prior, density):
    def integrand(t):
        b = mpmath.exp(t)
        return density(b) * b * mpmath.exp(-t / 2 - mpmath.mpf("0.35") / b) / mpmath.sqrt(2 * mpmath.pi)

    expected = mpmath.log(mpmath.quad(integrand, [-40, -10, -3, 0, 3, 10, 40, 120]))
    found = mixing.scale_posterior(prior, mixing.ScaledNoiseLikelihood(1, 0.7))
    assert abs(found.log_evidence - float(expected)) < 1e-10


@pytest.mark.parametrize("name", SOME_SLOW)
def test_prior_as_mixing_law(name):
    prior, _ = FAMILIES[name]
    scale = mixing.scale_posterior(prior, method="quadrature")
    np.testing.assert_allclose(scale.log_evidence, 0.0, atol=1e-8)
    scales, log_weights = scale.nodes()
    assert scales.shape == log_weights.shape
    np.testing.assert_allclose(np.exp(log_weights).sum(), 1.0)


def test_law_of_the_scale_equals_closed_form():
    data = mixing.ScaledNoiseLikelihood(7, 5.0)
    closed = mixing.scale_posterior(priors.InverseGamma(1.2, 2.0), data)
    scale = mixing.scale_posterior(priors.InverseGamma(1.2, 2.0), data, "quadrature")
    p = np.array([1e-10, 1e-3, 0.3, 0.5, 0.9, 1 - 1e-6])
    x = closed.quantile(p)
    np.testing.assert_allclose(x, scipy.stats.invgamma(4.7, scale=4.5).ppf(p), rtol=1e-9)
    np.testing.assert_allclose(scale.quantile(p), x, rtol=1e-9)
    np.testing.assert_allclose(scale.cdf(x), p, rtol=1e-10)
    np.testing.assert_allclose(scale.log_prob(x), closed.log_prob(x), rtol=1e-11)
    np.testing.assert_allclose([scale.mean, scale.var, scale.std], [closed.mean, closed.var, closed.std], rtol=1e-11)
    quad = np.array([0.0, 1.0, 1e4, 1e200])
    with jax.enable_x64(True):
        quad = jnp.asarray(quad)
        both = [jax.jit(lambda quad, s=s: s.log_expected_gaussian(3.0, quad))(quad) for s in (scale, closed)]
    np.testing.assert_allclose(*both, rtol=1e-11)
    assert scipy.stats.kstest(scale.sample(jax.random.key(3), (4000,)), closed.cdf).pvalue > 1e-3
    assert scipy.stats.kstest(closed.sample(jax.random.key(4), (4000,)), closed.cdf).pvalue > 1e-3


def test_moments_that_do_not_exist():
    prior = priors.HalfCauchy(1.0)
    nothing = mixing.scale_posterior(prior)
    assert nothing.mean == np.inf
    assert np.isnan(nothing.var)
    two = mixing.scale_posterior(prior, mixing.ScaledNoiseLikelihood(2, 1.0))
    assert np.isfinite(two.mean)
    assert two.var == np.inf
    three = mixing.scale_posterior(prior, mixing.ScaledNoiseLikelihood(3, 1.0))
    assert np.isfinite(three.var)


def test_a_moment_far_out_in_the_tail():
    # The index of the tail is 1.05: the mean is made of variances that the bulk never sees.
    scale = mixing.scale_posterior(priors.InverseGamma(0.55, 1.0), mixing.ScaledNoiseLikelihood(1, 1.0), "quadrature")
    np.testing.assert_allclose(scale.mean, 1.5 / 0.05, rtol=1e-8)


def test_point_mass_with_both_likelihoods():
    y, lam = np.array([0.3, -1.2, 2.0]), np.array([2.0, 1.0, 0.1])
    inside = mixing.ScaledNoiseLikelihood(3, np.sum(y**2 / lam), np.sum(np.log(lam)))
    scale = mixing.scale_posterior(priors.PointMass(1.7), inside)
    np.testing.assert_allclose(scale.log_evidence, scipy.stats.norm(0, np.sqrt(1.7 * lam)).logpdf(y).sum())
    outside = mixing.IndependentNoiseLikelihood(lam, 0.2, y**2)
    scale = mixing.scale_posterior(priors.PointMass(1.7), outside)
    np.testing.assert_allclose(scale.log_evidence, scipy.stats.norm(0, np.sqrt(1.7 * lam + 0.2)).logpdf(y).sum())
    assert scale.nodes()[0].shape == (1,)
    np.testing.assert_allclose(scale.mean, 1.7)


def test_independent_noise_equals_brute_force():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(12, 12))
    kernel, y = factor @ factor.T, rng.normal(size=(12, 2)) * 3
    noise = rng.uniform(0.1, 1.0, 12)
    lam, vectors = np.linalg.eigh(kernel / np.sqrt(noise[:, None] * noise))
    squares = (vectors.T @ (y / np.sqrt(noise)[:, None])) ** 2
    data = mixing.IndependentNoiseLikelihood(lam, 1.0, squares.sum(1), 2, 2 * np.log(noise).sum())
    prior, law = OWN_FAMILIES["Burr XII"]

    def direct(t):
        law_of_y = scipy.stats.multivariate_normal(cov=np.exp(t) * kernel + np.diag(noise))
        return law_of_y.logpdf(y.T).sum()

    with jax.enable_x64(True):
        found = data.log_prob_of_log(jnp.asarray([-2.0, 0.5]))
    np.testing.assert_allclose(found, [direct(-2.0), direct(0.5)], rtol=1e-11)

    def log_density(t):
        variance = np.exp(t)[:, None] * lam + 1.0
        log_normal = -np.log(2 * np.pi * variance) - 0.5 * squares.sum(1) / variance
        return law.logpdf(np.exp(t)) + t + log_normal.sum(1) - np.log(noise).sum()

    scale = mixing.scale_posterior(prior, data)
    expected = brute_force_log_integral(log_density, np.log(scale.quantile(0.5)), -300, 300, 20_001)
    np.testing.assert_allclose(scale.log_evidence, expected, atol=1e-8)


@pytest.mark.slow
def test_each_output_has_its_own_scale():
    quad = np.array([5.0, 1e-3, 40.0])
    prior = priors.BurrXII(2.0, 1.0)
    together = mixing.scale_posterior(prior, mixing.ScaledNoiseLikelihood(7, quad))
    apart = [mixing.scale_posterior(prior, mixing.ScaledNoiseLikelihood(7, q)) for q in quad]
    np.testing.assert_allclose(together.log_evidence, [s.log_evidence for s in apart], rtol=1e-10)
    np.testing.assert_allclose(together.cdf(together.quantile(0.3)), 0.3, rtol=1e-10)
    assert together.sample(jax.random.key(0), (5,)).shape == (5, 3)
    lam, squares = np.array([2.0, 1.0]), np.ones((2, 3))
    per_output = mixing.scale_posterior(prior, mixing.IndependentNoiseLikelihood(lam, 0.1, squares))
    alone = mixing.scale_posterior(prior, mixing.IndependentNoiseLikelihood(lam, 0.1, squares[:, 0]))
    np.testing.assert_allclose(per_output.log_evidence, np.full(3, alone.log_evidence), rtol=1e-12)


@pytest.mark.slow
def test_bounded_support_ends_the_grid():
    prior, _ = FAMILIES["wrapped uniform"]
    scale = mixing.scale_posterior(prior, mixing.ScaledNoiseLikelihood(10, 100.0))  # wants 10, may have 2.5
    assert scale.quantile(1.0) == pytest.approx(2.5)
    assert 2.0 < scale.quantile(0.5) < 2.5
    assert scale.cdf(3.0) == 1.0
    assert scale.nodes()[0].max() <= 2.5


@given(
    n=st.integers(1, 200),
    log_quad=st.floats(-20, 20),
    log_unit=st.floats(-15, 15),
)
def test_a_change_of_units_changes_nothing(n, log_quad, log_unit):
    unit, quad = np.exp(log_unit), np.exp(log_quad)
    first = mixing.scale_posterior(priors.BurrXII(2.0, 1.0), mixing.ScaledNoiseLikelihood(n, quad))
    second = mixing.scale_posterior(priors.BurrXII(2.0, 1.0, scale=unit), mixing.ScaledNoiseLikelihood(n, quad * unit))
    np.testing.assert_allclose(second.log_evidence + 0.5 * n * log_unit, first.log_evidence, atol=1e-8)


def test_zero_targets():
    data = mixing.ScaledNoiseLikelihood(10, 0.0)
    assert np.isfinite(mixing.scale_posterior(priors.LogNormal(), data).log_evidence)
    with pytest.raises(ValueError, match="does not exist"):
        mixing.scale_posterior(priors.HalfCauchy(), data)
    traced = jax.jit(lambda: mixing.scale_posterior(priors.HalfCauchy(), data).log_evidence)()
    assert traced == np.inf


def test_results_are_double_and_diagnosed():
    scale = mixing.scale_posterior(priors.BurrXII(2.0, 1.0), mixing.ScaledNoiseLikelihood(10, 5.0))
    assert isinstance(scale, mixing.QuadraturePosterior)
    assert scale.log_evidence.dtype == np.float64
    assert scale.diagnostics.method == "quadrature"
    assert scale.diagnostics.nodes == 64
    assert scale.diagnostics.error < 1e-7
    closed = mixing.scale_posterior(priors.InverseGamma(2.0, 1.0))
    assert closed.diagnostics.method == "closed"


@pytest.mark.slow
def test_nodes_are_doubled_until_they_agree():
    vague = mixing.scale_posterior(priors.BetaPrime(0.01, 0.01))
    assert vague.diagnostics.nodes > 64
    assert vague.diagnostics.error < 1e-7


def test_methods_that_do_not_fit():
    data = mixing.ScaledNoiseLikelihood(10, 5.0)
    with pytest.raises(ValueError, match="needs an InverseGamma"):
        mixing.scale_posterior(priors.HalfCauchy(), data, "closed")
    with pytest.raises(ValueError, match="has none"):
        mixing.scale_posterior(priors.PointMass(1.0), data, "quadrature")
    with pytest.raises(ValueError, match="random key"):
        mixing.scale_posterior(priors.HalfCauchy(), data, "importance")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_bad_data_are_named(bad):
    with pytest.raises(ValueError, match="quad must be"):
        mixing.ScaledNoiseLikelihood(3, bad)
    with pytest.raises(ValueError, match="noise_var must be"):
        mixing.IndependentNoiseLikelihood(np.ones(2), bad, np.ones(2))
    with pytest.raises(ValueError, match=r"shape \(n,\)"):
        mixing.IndependentNoiseLikelihood(np.ones(2), 0.1, np.ones(3))


def test_law_of_the_scale_under_a_prior_of_two_parts():
    """Against sums over a fine grid."""
    prior, quad = priors.Contaminated(0.2, a=20.0, far=30.0, tail=1.5), np.array([0.3, 14.0, 200.0])
    scale = mixing.scale_posterior(prior, mixing.ScaledNoiseLikelihood(1, quad))
    t = np.linspace(-8.0, 60.0, 200_001)[:, None]
    ordinary, rest = scipy.stats.invgamma(20.0, scale=20.0), scipy.stats.invgamma(1.5, scale=45.0)
    density = 0.8 * ordinary.pdf(np.exp(t)) + 0.2 * rest.pdf(np.exp(t))
    mass = density * np.exp(t + log_likelihood(t, 1, quad)) * (t[1] - t[0])
    np.testing.assert_allclose(scale.log_evidence, np.log(mass.sum(axis=0)), rtol=1e-9)
    mass /= mass.sum(axis=0)
    np.testing.assert_allclose(scale.mean_precision, np.sum(mass * np.exp(-t), axis=0), rtol=1e-9)
    np.testing.assert_allclose(scale.mean, np.sum(mass * np.exp(t), axis=0), rtol=1e-6)
    assert np.all(scale.var == np.inf)  # the tail index is 2
    np.testing.assert_allclose(scale.cdf(np.exp(t[70_000])), mass[:70_001].sum(axis=0), atol=1e-3)
    p = np.array([1e-6, 0.3, 0.9, 0.999])
    np.testing.assert_allclose(scale.cdf(scale.quantile(p)), np.broadcast_to(p[:, None], (4, 3)), rtol=1e-9)
    scales, log_weights = scale.nodes()
    np.testing.assert_allclose(np.exp(log_weights).sum(axis=0), 1.0, rtol=1e-12)
    np.testing.assert_allclose((np.exp(log_weights) / scales).sum(axis=0), scale.mean_precision, rtol=1e-9)
    new = np.array([0.5, 2.0, 90.0])
    expected = np.log(np.sum(mass * np.exp(-t - 0.5 * new * np.exp(-t)), axis=0))
    np.testing.assert_allclose(scale.log_expected_gaussian(2, new), expected, rtol=1e-8)
    draws = scale.sample(jax.random.key(0), (4000,))
    for column in range(3):
        assert scipy.stats.kstest(draws[:, column], lambda x, k=column: scale.cdf(x[:, None])[:, k]).pvalue > 1e-3
    by_quadrature = mixing.scale_posterior(prior, mixing.ScaledNoiseLikelihood(1, quad), "quadrature")
    np.testing.assert_allclose(by_quadrature.log_evidence, scale.log_evidence, rtol=1e-10)
