"""Priors with several modes, jumps and infinite ends: evidence against scipy's integrals, piece by piece."""

import warnings

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.special
import scipy.stats as st

import widetail as wt
from widetail import mixing


class Mixture:
    """A mixture of frozen scipy distributions, with the methods of one."""

    def __init__(self, parts, weights):
        self.parts, self.weights = parts, weights

    def _sum(self, method, x):
        return sum(w * getattr(part, method)(x) for w, part in zip(self.weights, self.parts, strict=True))

    def support(self):
        lower, upper = zip(*(part.support() for part in self.parts), strict=True)
        return max(min(lower), 0.0), max(upper)

    def logpdf(self, x):
        logs = [np.log(w) + part.logpdf(x) for w, part in zip(self.weights, self.parts, strict=True)]
        return np.logaddexp.reduce(logs)

    def cdf(self, x):
        return self._sum("cdf", x)

    def sf(self, x):
        return self._sum("sf", x)

    def ppf(self, p):
        return np.vectorize(lambda p: scipy.optimize.brentq(lambda x: self.cdf(x) - p, 1e-9, 1e9))(p)

    def mean(self):
        return sum(w * part.mean() for w, part in zip(self.weights, self.parts, strict=True))


def random_part(rng):
    place = np.exp(rng.uniform(-4.0, 6.0))
    width = 10 ** rng.uniform(-3.0, 0.0)
    kind = rng.integers(3)
    if kind == 0:
        return st.lognorm(width, scale=place)
    if kind == 1:
        return st.gamma(1 / width**2, scale=place * width**2)
    return st.uniform(place, place * width)


def log_evidence(prior, count, quad):
    """By scipy, in the logarithm of the variance, component by component between their quantiles."""
    terms = []
    abscissas, weights = np.polynomial.legendre.leggauss(100)
    for share, part in zip(prior.weights, prior.parts, strict=True):
        edges = part.ppf([0.0, 1e-14, 1e-6, 0.05, 0.5, 0.95, 1 - 1e-6, 1 - 1e-14, 1.0])
        # far below its bulk a component can still be where the data are
        ends = np.log(np.clip(edges[[1, -2]], 1e-12, 1e8))
        width = np.diff(ends)[0]
        far = np.concatenate([ends[0] - width * np.arange(0.5, 6.0, 0.5), ends[1] + width * np.arange(0.5, 6.0, 0.5)])
        peak = np.log(quad / count)
        places = np.concatenate([np.log(np.maximum(edges, 1e-300)), far, peak + np.linspace(-3.0, 3.0, 13)])
        places = np.unique(np.clip(places, *np.log(np.clip(part.support(), 1e-12, 1e8))))
        half = 0.5 * np.diff(places)[:, None]
        t = places[:-1, None] + half * (1 + abscissas)
        with np.errstate(divide="ignore"):
            terms.append(np.log(share * half * weights) + part.logpdf(np.exp(t)) + t + log_likelihood(t, count, quad))
    return scipy.special.logsumexp(np.concatenate(terms))


def log_likelihood(t, count, quad):
    return -0.5 * (count * (t + np.log(2 * np.pi)) + quad * np.exp(-t))


def check_random_prior(seed):
    rng = np.random.default_rng(seed)
    parts = [random_part(rng) for _ in range(rng.integers(2, 5))]
    dist = Mixture(parts, rng.dirichlet(np.ones(len(parts)) * 2))
    prior = wt.ScalePrior.wrap(dist)
    assert prior.mass_error < 1e-6, (seed, prior.log_cuts)
    count, quad = float(rng.integers(1, 12)), np.exp(rng.uniform(-4.0, 7.0))
    posterior = mixing.scale_posterior(prior, mixing.ScaledNoiseLikelihood(count, quad))
    expected = log_evidence(dist, count, quad)
    assert abs(posterior.log_evidence - expected) < 1e-6 + float(posterior.diagnostics.error), seed
    assert float(posterior.diagnostics.error) < 1e-5, seed


# The last three: a narrow mode that the data are far from, one on the slope of a wide one, and data of e^-1120.
@pytest.mark.parametrize("seed", [*range(3), 105, 235, 290])
def test_random_mixtures(seed):
    check_random_prior(seed)


@pytest.mark.slow
def test_many_random_mixtures():
    for seed in range(100, 300):
        check_random_prior(seed)


# the quick tests draw such mixtures at random
@pytest.mark.slow
def test_two_modes_far_apart():
    """Moments by hand; each mode holds half of the mass."""
    dist = Mixture([st.norm(1.0, 0.02), st.norm(30.0, 0.5)], [0.5, 0.5])
    scale = mixing.scale_posterior(wt.ScalePrior.wrap(dist))
    np.testing.assert_allclose(scale.mean, 15.5, rtol=1e-12)
    np.testing.assert_allclose(scale.var, 14.5**2 + 0.5 * (0.02**2 + 0.5**2), rtol=1e-12)
    np.testing.assert_allclose(scale.quantile([0.25, 0.75]), [1.0, 30.0], rtol=1e-9)
    np.testing.assert_allclose(scale.cdf(np.array([5.0, 30.0])), [0.5, 0.75], rtol=1e-9)
    scales, log_weights = scale.nodes()
    np.testing.assert_allclose(np.exp(log_weights)[np.asarray(scales) < 5].sum(), 0.5, rtol=1e-9)


@pytest.mark.parametrize(
    ("dist", "power"), [(st.beta(2.0, 0.5), 2), (st.arcsine(), 2), (st.gamma(0.5, loc=1.0), 2), (st.beta(3.0, 0.1), 10)]
)
def test_densities_that_are_infinite_at_an_end(dist, power):
    """u = end -+ s^power makes the integrand finite; the posterior exists."""
    lower, upper = dist.support()
    count, quad = 3.0, 2.0
    posterior = mixing.scale_posterior(wt.ScalePrior.wrap(dist), mixing.ScaledNoiseLikelihood(count, quad))

    def density(distance, s, from_upper):
        if from_upper:
            # scipy's density near one, written in the distance from it
            a, b = (0.5, 0.5) if dist.dist.name == "arcsine" else dist.args
            log_pdf = (a - 1) * np.log1p(-distance) + (b - 1) * np.log(distance) - scipy.special.betaln(a, b)
            u = 1 - distance
        else:
            u = lower + distance
            log_pdf = dist.logpdf(u) if lower == 0 else st.gamma.logpdf(distance, 0.5)
        jacobian = np.log(power) + (power - 1) * np.log(s)
        return np.exp(log_pdf + log_likelihood(np.log(u), count, quad) + jacobian)

    if np.isfinite(upper):
        middle = 0.5
        ends = [(True, middle ** (1 / power)), (False, middle ** (1 / power))]
    else:
        ends = [(False, 60 ** (1 / power))]
    total = sum(
        scipy.integrate.quad(
            lambda s, up=up: density(s**power, s, up) if s > 0 else density(1e-300, 1e-300 ** (1 / power), up),
            0.0,
            stop,
            epsabs=0.0,
            epsrel=1e-11,
        )[0]
        for up, stop in ends
    )
    np.testing.assert_allclose(posterior.log_evidence, np.log(total), atol=2e-7)
    assert np.isfinite(posterior.quantile(0.5))


@pytest.mark.parametrize("a", [0.6, 0.9])
def test_a_part_whose_density_is_infinite_inside_of_the_support(a):
    """u = end + s^(1/a) makes the integrand of that part finite; the other part is smooth."""
    lower, width, count, quad = 0.87, 0.09, 4.0, 0.5
    dist = Mixture([st.beta(a, 2.2, loc=lower, scale=width), st.lognorm(0.3, scale=2.0)], [0.4, 0.6])
    prior = wt.ScalePrior.wrap(dist)
    assert prior.mass_error < 1e-6
    posterior = mixing.scale_posterior(prior, mixing.ScaledNoiseLikelihood(count, quad))

    def near_the_end(s):
        share = s ** (1 / a)
        u = lower + width * share
        return (
            np.exp(1.2 * np.log1p(-share) - scipy.special.betaln(a, 2.2) + log_likelihood(np.log(u), count, quad)) / a
        )

    def smooth(t):
        return np.exp(dist.parts[1].logpdf(np.exp(t)) + t + log_likelihood(t, count, quad))

    parts = (scipy.integrate.quad(f, *ends, epsrel=1e-11)[0] for f, ends in ((near_the_end, (0, 1)), (smooth, (-2, 4))))
    expected = sum(share * part for share, part in zip(dist.weights, parts, strict=True))
    allowed = 1e-6 + float(posterior.diagnostics.error)
    assert abs(posterior.log_evidence - np.log(expected)) < allowed


def test_what_is_not_normalised_is_said():
    class Half(Mixture):
        def logpdf(self, x):
            return super().logpdf(x) - np.log(2)

    with pytest.warns(UserWarning, match=r"finds 0\.5 instead of 1 as its mass"):
        prior = wt.ScalePrior.wrap(Half([st.lognorm(1.0)], [1.0]))
    assert prior.mass_error == pytest.approx(0.5)
    posterior = mixing.scale_posterior(prior, mixing.ScaledNoiseLikelihood(3.0, 2.0))
    assert float(posterior.diagnostics.error) >= 0.5


def test_priors_with_one_mode_are_not_cut():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for dist in (st.invgamma(2.0, scale=2.0), st.halfcauchy(), st.lomax(0.3), st.uniform(1.0, 2.0), st.gamma(0.1)):
            assert wt.ScalePrior.wrap(dist).log_cuts.points == ()
