"""Exact posteriors against scipy, brute-force integrals and each other."""

import dataclasses

import jax
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose
from scipy.special import logsumexp

import widetail as wt

PRIORS = [wt.InverseGamma(2.0, 3.0), wt.BurrXII(2.0, 1.5), wt.LogNormal(0.0, 1.0), wt.PointMass(0.7)]
NOISES = [wt.ScaledNoise(0.02), wt.IndependentNoise(0.02)]


def multivariate_t(y, loc, matrix, df):
    """log density, by a Cholesky factor: scipy's own pseudo-inverse loses eight digits here."""
    chol = np.linalg.cholesky(matrix)
    quad = np.sum(np.linalg.solve(chol, y - loc) ** 2)
    n = len(y)
    gamma = scipy.special.gammaln
    constant = gamma((df + n) / 2) - gamma(df / 2) - n / 2 * np.log(df * np.pi) - np.log(np.diag(chol)).sum()
    return constant - (df + n) / 2 * np.log1p(quad / df)


def test_inverse_gamma_is_a_student_t_process(problem):
    a, b, s2 = 2.0, 3.0, 0.02
    posterior = wt.ScaleMixture(problem.net, wt.InverseGamma(a, b), wt.ScaledNoise(s2)).posterior(problem.x, problem.y)
    matrix = problem.k_xx + s2 * np.eye(40)
    assert_allclose(posterior.log_evidence, multivariate_t(problem.y, 0.0, b / a * matrix, 2 * a), atol=1e-10)
    solved = np.linalg.solve(matrix, problem.k_tx.T)
    quad = problem.y @ np.linalg.solve(matrix, problem.y)
    factor = (b + quad / 2) / (a + 20)
    loc, cov = solved.T @ problem.y, problem.k_tt - problem.k_tx @ solved
    for dist, extra in ((posterior(problem.x_new), s2), (posterior.f(problem.x_new), 0.0)):
        scale = factor * (cov + extra * np.eye(6))
        assert_allclose(dist.mean, loc, atol=1e-12)
        assert_allclose(
            dist.joint_log_prob(problem.y_new), multivariate_t(problem.y_new, loc, scale, 2 * a + 40), atol=1e-8
        )
        marginal = scipy.stats.t(2 * a + 40, loc, np.sqrt(np.diag(scale)))
        assert_allclose(dist.log_prob(problem.y_new), marginal.logpdf(problem.y_new), atol=1e-9)
        assert_allclose(dist.quantile(0.01), marginal.ppf(0.01), rtol=1e-9)


@pytest.mark.parametrize("noise", [NOISES[0], pytest.param(NOISES[1], marks=pytest.mark.slow)], ids=repr)
@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_posterior_against_brute_force_over_the_scale(problem, prior, noise):
    """4001 values of the scale, each with its own dense Gaussian conditioning."""
    posterior = wt.ScaleMixture(problem.net, prior, noise).posterior(problem.x, problem.y)
    if isinstance(prior, wt.PointMass):
        log_scales, log_weights = np.array([np.log(0.7)]), np.array([0.0])
    else:
        log_scales = np.linspace(-14.0, 14.0, 4001)
        log_weights = np.asarray(prior.log_prob(np.exp(log_scales))) + log_scales + np.log(28 / 4000)
    beta = np.exp(log_scales)[:, None, None]
    s2 = beta * 0.02 if isinstance(noise, wt.ScaledNoise) else np.full_like(beta, 0.02)
    cov = beta * problem.k_xx + s2 * np.eye(40)
    log_det = np.linalg.slogdet(cov)[1]
    solved = np.linalg.solve(cov, np.column_stack([problem.y, problem.k_tx.T]))  # one system for every scale
    joint = log_weights - 0.5 * (solved[:, :, 0] @ problem.y + log_det) - 20 * np.log(2 * np.pi)
    evidence = logsumexp(joint)
    assert_allclose(posterior.log_evidence, evidence, atol=1e-8)
    var = beta[:, 0] * (np.diag(problem.k_tt) - beta[:, 0] * np.einsum("in,jni->ji", problem.k_tx, solved[:, :, 1:]))
    mean, std = beta[:, 0] * (solved[:, :, 0] @ problem.k_tx.T), np.sqrt(var + s2[:, 0])
    density = logsumexp((joint - evidence)[:, None] + scipy.stats.norm.logpdf(problem.y_new, mean, std), axis=0)
    assert_allclose(posterior(problem.x_new).log_prob(problem.y_new), density, atol=1e-8)


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("sharing", ["shared", "per_output"])
def test_update_equals_conditioning_at_once(problem, noise, sharing):
    process = wt.ScaleMixture(problem.net, wt.InverseGamma(2.0, 2.0), noise, scale_sharing=sharing)
    weights, counts = np.linspace(0.5, 2.0, 40), np.arange(1.0, 41.0) % 3 + 1
    whole = process.posterior(problem.x, problem.two, noise_weights=weights, counts=counts)
    parts = process.posterior(problem.x[:25], problem.two[:25], noise_weights=weights[:25], counts=counts[:25])
    parts = parts.update(problem.x[25:], problem.two[25:], noise_weights=weights[25:], counts=counts[25:])
    assert_allclose(parts.log_evidence, whole.log_evidence, rtol=1e-10)
    y_new = np.stack([problem.y_new, problem.y_new], 1)
    assert_allclose(parts(problem.x_new).log_prob(y_new), whole(problem.x_new).log_prob(y_new), atol=1e-8)


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_counts_equal_repeated_rows(problem, noise):
    process = wt.ScaleMixture(problem.net, wt.InverseGamma(2.0, 2.0), noise)
    counts = np.arange(40) % 3 + 1
    repeated = np.repeat(np.arange(40), counts)
    counted = process.posterior(problem.x, problem.y, counts=counts)
    plain = process.posterior(problem.x[repeated], problem.y[repeated])
    assert_allclose(counted.log_evidence, plain.log_evidence, atol=1e-8)
    new = problem.x_new, problem.y_new
    assert_allclose(counted(new[0]).log_prob(new[1]), plain(new[0]).log_prob(new[1]), atol=1e-8)


def test_marginalise_then_condition_equals_condition_then_marginalise(problem):
    posterior = wt.ScaleMixture(problem.net, wt.BurrXII(2.0, 2.0)).posterior(problem.x, problem.y)
    whole, part = posterior(problem.x_new)[:3], posterior(problem.x_new[:3])
    assert_allclose(whole.joint_log_prob(problem.y_new[:3]), part.joint_log_prob(problem.y_new[:3]), atol=1e-8)


def test_chain_rule_of_the_evidence(problem):
    """p(y1, y2) = p(y1) p(y2 | y1), the second factor being a joint predictive density."""
    process = wt.ScaleMixture(problem.net, wt.InverseGamma(1.5, 2.0))
    first = process.posterior(problem.x[:30], problem.y[:30])
    whole = process.posterior(problem.x, problem.y)
    predicted = first(problem.x[30:]).joint_log_prob(problem.y[30:])
    assert_allclose(first.log_evidence + predicted, whole.log_evidence, atol=1e-8)


def test_many_degrees_of_freedom_recover_the_gaussian_process(problem):
    plain = wt.ScaleMixture(problem.net, wt.PointMass(1.0)).posterior(problem.x, problem.y)
    heavy = wt.ScaleMixture(problem.net, wt.InverseGamma(1e9, 1e9)).posterior(problem.x, problem.y)
    assert_allclose(heavy.log_evidence, plain.log_evidence, atol=1e-4)
    assert_allclose(heavy(problem.x_new).std, plain(problem.x_new).std, rtol=1e-6)


def test_one_scale_for_all_outputs_or_one_each(problem):
    each = wt.ScaleMixture(problem.net, wt.InverseGamma(2.0, 2.0), scale_sharing="per_output")
    both = each.posterior(problem.x, problem.two)
    single = [each.posterior(problem.x, problem.two[:, d]) for d in range(2)]
    assert_allclose(both.log_evidence, sum(p.log_evidence for p in single), atol=1e-9)
    dist = both(problem.x_new)
    for d in range(2):
        assert_allclose(np.asarray(dist.std)[:, d], single[d](problem.x_new).std, rtol=1e-9)


def test_importance_sampling_approaches_quadrature(problem):
    process = wt.ScaleMixture(problem.net, wt.InverseGamma(2.0, 2.0))
    exact = process.posterior(problem.x, problem.y)
    with pytest.warns(wt.mixing.ImportanceWarning):
        sampled = process.posterior(problem.x, problem.y, "importance", key=jax.random.key(0), draws=200)
    assert abs(sampled.log_evidence - exact.log_evidence) < 1.0
    assert sampled.diagnostics.scale.method == "importance"


def test_function_draws_fit_together_and_have_the_posterior_law(problem):
    posterior = wt.ScaleMixture(problem.net, wt.PointMass(1.0), wt.ScaledNoise(0.05)).posterior(problem.x, problem.y)
    function = posterior.draw(jax.random.key(1))
    first = function(problem.x_new[:4])
    assert_allclose(function(problem.x_new[:4]), first, atol=1e-4)
    draws = []
    for seed in range(50):
        function = posterior.draw(jax.random.key(seed))
        draws.append(np.concatenate([function(problem.x_new[:2]), function(problem.x_new[2:4])]))
    draws = np.stack(draws)
    dist = posterior.f(problem.x_new[:4])
    standard_error = np.asarray(dist.std) / np.sqrt(50)
    assert np.all(np.abs(draws.mean(0) - dist.mean) < 4.5 * standard_error)
    solved = np.linalg.solve(problem.k_xx + 0.05 * np.eye(40), problem.k_tx[:4].T)
    covariance = problem.k_tt[:4, :4] - problem.k_tx[:4] @ solved
    spread = np.sqrt((covariance**2 + np.outer(np.diag(covariance), np.diag(covariance))) / 50)
    assert np.all(np.abs(np.cov(draws.T) - covariance) < 4.5 * spread)


def test_a_kernel_of_another_library(problem):
    from sklearn.gaussian_process.kernels import RBF

    ours = wt.ScaleMixture(wt.kernels.RBF(length_scale=1.3)).posterior(problem.x, problem.y)
    for function in (RBF(1.3), lambda a, b: np.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(-1) / 1.3**2)):
        theirs = wt.ScaleMixture(function).posterior(problem.x, problem.y)
        assert_allclose(theirs.log_evidence, ours.log_evidence, rtol=1e-10)
        assert_allclose(theirs(problem.x_new).std, ours(problem.x_new).std, rtol=1e-8)


def test_one_factorisation_serves_everything(problem, monkeypatch):
    from widetail.numerics import CholeskyFactor

    calls = []
    original = CholeskyFactor.of.__func__
    monkeypatch.setattr(CholeskyFactor, "of", classmethod(lambda cls, *given: calls.append(1) or original(cls, *given)))
    posterior = wt.ScaleMixture(problem.net).posterior(problem.x, problem.y)
    for _ in range(2):
        dist = posterior(problem.x_new)
        dist.joint_log_prob(problem.y_new)
        dist.sample(jax.random.key(0), (2,))
    assert len(calls) == 1


def test_float32_inputs_are_factored_in_float64(problem):
    single = wt.ScaleMixture(problem.net).posterior(problem.x.astype(np.float32), problem.y)
    double = wt.ScaleMixture(problem.net).posterior(problem.x, problem.y)
    assert single(problem.x_new).mean.dtype == np.float64
    assert_allclose(single(problem.x_new).mean, double(problem.x_new).mean, atol=1e-3)


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_another_prior_without_a_new_factor(problem, prior):
    noise = wt.ScaledNoise(0.02)
    first = wt.ScaleMixture(problem.net, wt.Gamma(3.0, 1.0), noise).posterior(problem.x, problem.y)
    again = wt.ScaleMixture(problem.net, prior, noise).posterior(problem.x, problem.y)
    other = first.with_prior(prior)
    assert other.factor is first.factor
    assert_allclose(other.log_evidence, again.log_evidence, rtol=1e-12)
    assert_allclose(other(problem.x_new).log_prob(problem.y_new), again(problem.x_new).log_prob(problem.y_new))
    assert_allclose(other.left_out().scale, again.left_out().scale, rtol=1e-9)


class NoSolves:
    """A factor that cannot be asked for anything."""

    def solve_lower(self, *_, **__):
        raise AssertionError("a solve of n^2 m operations")


@pytest.mark.parametrize("prior", [PRIORS[0], PRIORS[2], PRIORS[3]], ids=repr)
def test_locations_alone_need_no_solve(problem, prior):
    posterior = wt.ScaleMixture(problem.net, prior, NOISES[0]).posterior(problem.x, problem.y)
    broken = dataclasses.replace(posterior, factor=NoSolves())
    for dist, alone in (
        (posterior(problem.x_new), broken(problem.x_new)),
        (posterior.f(problem.x_new), broken.f(problem.x_new)),
    ):
        assert_allclose(alone.mean, dist.mean, rtol=1e-12)
        assert_allclose(alone.rescale(2.0, 3.0).median, 2 + 3 * dist.quantile(0.5), rtol=1e-12)
        assert_allclose(alone[1:3].median, dist.median[1:3], rtol=1e-12)
    with pytest.raises(AssertionError, match="a solve"):
        broken(problem.x_new).var  # noqa: B018


@pytest.mark.parametrize("sharing", ["shared", "per_output"])
def test_location_with_independent_noise_is_the_mean(problem, sharing):
    process = wt.ScaleMixture(problem.net, wt.InverseGamma(3.0, 2.0), NOISES[1], scale_sharing=sharing)
    weights, counts = np.linspace(0.5, 2.0, 40), np.arange(40) % 3 + 1
    posterior = process.posterior(problem.x, problem.two, noise_weights=weights, counts=counts)
    assert_allclose(posterior.location(problem.x_new), posterior.f(problem.x_new).mean, rtol=1e-10)
    one = process.posterior(problem.x, problem.y)
    assert_allclose(one.location(problem.x_new), one.f(problem.x_new).mean, rtol=1e-10)


def test_progress_and_costs_are_told(problem, monkeypatch):
    seen = []
    wt.ScaleMixture(problem.net).posterior(problem.x, problem.y, progress=lambda *at: seen.append(at))
    assert seen[-1] == (40, 40)
    assert len(seen) >= 2  # the kernel before it
    monkeypatch.setattr("widetail.process._independent._MANY_ROWS", 39)
    with pytest.warns(UserWarning, match="all eigenvectors of a 40 x 40 matrix: about 0 minutes"):
        wt.ScaleMixture(problem.net, noise=NOISES[1]).posterior(problem.x, problem.y)
    with pytest.raises(ValueError, match="progress is shown for"):
        wt.ScaleMixture(problem.net, noise=wt.RowNoise()).posterior(problem.x, problem.y, progress=True)


def test_variances_are_first_asked_for_inside_of_jit(problem):
    posterior = wt.ScaleMixture(problem.net, PRIORS[0], NOISES[0]).posterior(problem.x, problem.y)
    compiled = jax.jit(lambda dist, y: dist.log_prob(y))(posterior(problem.x_new), problem.y_new)
    assert_allclose(compiled, posterior(problem.x_new).log_prob(problem.y_new), rtol=1e-4)


def test_far_tails_with_independent_noise():
    """One row under a prior with hardly a tail index: the probability below the 1e-12 quantile, by brute force."""
    a, s2 = 0.05, 0.1
    process = wt.ScaleMixture(wt.kernels.RBF(), wt.InverseGamma(a, a), wt.IndependentNoise(s2))
    dist = process.posterior(np.array([[0.0]]), np.array([1.0]))(np.array([[1.0]]))
    t = np.linspace(-10.0, 500.0, 200_001)
    beta, k = np.exp(t), np.exp(-0.5)
    log_density = -a * t - a / beta - 0.5 / (beta + s2) - 0.5 * np.log(beta + s2)
    density = np.exp(log_density - log_density.max())
    spread = np.sqrt(beta - k**2 * beta * (beta / (beta + s2)) + s2)
    for p in (1e-12, 1e-6, 0.1):
        z = (dist.quantile(p)[0] - beta * k / (beta + s2)) / spread
        assert_allclose(density @ scipy.special.ndtr(z) / density.sum(), p, rtol=1e-5)


def test_scales_so_large_that_their_products_overflow():
    """Noise is nothing beside them, so that the mean goes through the targets."""
    x, y = np.array([[0.0], [1.0], [3.0]]), np.array([1.0, -1.0, 0.5])
    process = wt.ScaleMixture(wt.kernels.RBF(), wt.PointMass(1e308), wt.IndependentNoise(1e-3))
    posterior = process.posterior(x, y)
    assert_allclose(posterior.location(x), y, rtol=1e-12)
    assert_allclose(posterior(x).mean, y, rtol=1e-12)
