"""The bound: below the evidence, tight where it can be, its terms against simulation."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
from numpy.testing import assert_allclose

import widetail as wt
from widetail import sparse
from widetail.sparse import Ascent, Memory, train, variances

from .problems import KERNEL, PRIORS, cached, inputs, scattered, sine, start


@pytest.fixture(params=PRIORS, scope="module")
def prior(request):
    return PRIORS[request.param]


def fitted(rows, prior, likelihood):
    q = start(prior, 1, rows.features.shape[1])
    return train(rows, likelihood, q, learn_likelihood=False, tolerance=1e-9)


def test_tight_when_every_row_is_an_inducing_input(prior):
    x = inputs()
    y = sine(x)
    fit = fitted(cached(x, y, x), prior, sparse.Gaussian(0.1))
    exact = wt.ScaleMixture(KERNEL, prior, wt.ScaledNoise(0.1)).posterior(x, y)
    # the jitter of the inducing matrix is 1e-9, and a grid of logarithms stands for the prior of the last two
    assert_allclose(fit.bound * len(x), exact.log_evidence, atol=1e-5)
    scale = exact.scale
    assert_allclose(fit.q.law.mean_precision, scale.mean_precision, rtol=1e-4)
    assert_allclose(fit.q.law.quantile(np.array([0.5])), scale.quantile(0.5), rtol=0.07)


def test_below_the_evidence_with_fewer_inducing_inputs(prior):
    x = inputs()
    y = sine(x)
    exact = wt.ScaleMixture(KERNEL, prior, wt.ScaledNoise(0.1)).posterior(x, y).log_evidence
    assert fitted(cached(x, y, x[:8]), prior, sparse.Gaussian(0.1)).bound * len(x) < exact - 1.0


@pytest.mark.parametrize("name", ["point", *(pytest.param(name, marks=pytest.mark.slow) for name in list(PRIORS)[1:])])
def test_below_the_evidence_at_any_posterior_and_with_noise_outside_of_the_scale(name):
    prior, x = PRIORS[name], inputs()
    y = sine(x)
    rows = cached(x, y, x)
    for likelihood, noise in (
        (sparse.Gaussian(0.1), wt.ScaledNoise(0.1)),
        (sparse.Gaussian(0.1, scaled=False), wt.IndependentNoise(0.1)),
    ):
        exact = wt.ScaleMixture(KERNEL, prior, noise).posterior(x, y).log_evidence
        for seed in range(3):
            q = scattered(start(prior, 1, len(x)), seed)
            assert Ascent(rows, Memory.none(1, len(x))).bound(q, likelihood) < exact
    # one covariance for all scales cannot be exact for noise outside of the scale, but is close
    best = train(rows, likelihood, start(prior, 1, len(x)), learn_likelihood=False, tolerance=1e-4).bound * len(x)
    assert exact - 0.5 < best < exact + 1e-5


def test_divergence_against_simulation(prior):
    q = scattered(start(prior, 2, 5))
    rng = np.random.default_rng(0)
    draws = 200_000
    scale = q.law.quantile(rng.uniform(size=draws))
    law, reference = q.law, start(prior, 2, 5).law
    log_ratio = np.zeros(draws)
    if isinstance(law, sparse.InverseGammaScale):
        log_ratio += scipy.stats.invgamma(law.a, scale=law.b).logpdf(scale)
        log_ratio -= scipy.stats.invgamma(reference.a, scale=reference.b).logpdf(scale)
    elif isinstance(law, sparse.GridScale):
        node = np.searchsorted(law.log_scales, np.log(scale) - 1e-9)
        log_ratio += np.log(law.weights[node]) - law.log_prior[node]
    for mean, covariance in zip(q.mean, q.covariance, strict=True):
        z = rng.normal(size=(draws, 5)) @ np.linalg.cholesky(covariance).T
        u = mean + np.sqrt(scale)[:, None] * z
        inverse = np.linalg.inv(covariance)
        log_ratio -= 0.5 * (np.einsum("ni,ij,nj->n", z, inverse, z) + np.linalg.slogdet(covariance)[1])
        log_ratio += 0.5 * np.sum(u**2, axis=1) / scale
    error = log_ratio.std() / np.sqrt(draws)
    assert abs(log_ratio.mean() - q.divergence) < 4 * error


def test_counts_are_repeated_rows():
    x = inputs(20)
    y = sine(x)
    counts = np.arange(20) % 3 + 1.0
    again = np.repeat(np.arange(20), counts.astype(int))
    q = scattered(start(PRIORS["inverse gamma"], 1, 8))
    none = Memory.none(1, 8)
    weighted = Ascent(cached(x, y, x[:8], counts=counts), none).bound(q, sparse.Gaussian(0.1))
    repeated = Ascent(cached(x[again], y[again], x[:8]), none).bound(q, sparse.Gaussian(0.1))
    assert_allclose(weighted, repeated, rtol=1e-9)


@pytest.mark.parametrize("law", [wt.InverseGamma(2.0, 2.0), wt.InverseGamma(20.0, 20.0), wt.LogNormal(0.0, 1.0)])
def test_the_bound_of_classes_against_simulation(law):
    """Expected log probability of 40 rows; that of few draws per row had errors of half a percent."""
    x = inputs(40)
    y = np.random.default_rng(3).integers(0, 3, 40)
    rows, q = cached(x, y, x[:8]), scattered(start(law, 3, 8))
    found = [Ascent(rows, Memory.none(3, 8), seed).bound(q, sparse.Categorical(3)) + q.divergence for seed in range(4)]
    rng, mean, variance = np.random.default_rng(0), rows.features @ q.mean.T, variances(rows, q)
    values = np.empty(40_000)
    for part in np.array_split(np.arange(len(values)), 8):
        scale = q.law.quantile(rng.uniform(size=len(part)))[:, None, None]
        f = mean + np.sqrt(scale * variance) * rng.normal(size=(len(part), *mean.shape))
        values[part] = np.sum(f[:, np.arange(40), y] - scipy.special.logsumexp(f, axis=-1), axis=1)
    error = values.std() / np.sqrt(len(values))
    assert error < 2e-3 * abs(values.mean())
    assert abs(np.mean(found) - values.mean()) < 3 * error
    assert np.std(found) < 1e-3 * abs(values.mean())


@pytest.mark.parametrize("prior", [wt.InverseGamma(2.0, 2.0), wt.InverseGamma(20.0, 20.0), wt.LogNormal(0.0, 1.0)])
def test_strata_of_the_scale_against_a_fine_integral(prior):
    """The expected log probability of one of two classes, whose difference of latent values is one-dimensional."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)

    def expected(scale):
        return -np.logaddexp(0.0, 0.7 + np.sqrt(np.asarray(scale))[..., None] * nodes) @ (weights / weights.sum())

    t = np.linspace(-15.0, 25.0, 8001)
    density = np.exp(np.asarray(prior.log_prob(np.exp(t))) + t)
    exact = density @ expected(np.exp(t)) / density.sum()
    scales, shares = start(prior, 1, 2).law.strata(16)
    # middles of the strata are 0.7 % off for InverseGamma(2, 2)
    assert_allclose(shares @ expected(scales), exact, rtol=1e-3)
