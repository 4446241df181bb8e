"""Mixtures of predictive distributions against mixtures of normals, which have formulas of their own, and integrals."""

import jax
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from widetail import mixing
from widetail.predictive import Normal, NormalMixture, NormalScaleMixture, StudentT, Weighted
from widetail.priors import HalfCauchy

LOC = np.array([[-1.0, 0.0, 3.0], [1.0, 0.5, -2.0]])
DISPERSION = np.array([[0.5, 2.0, 1.0], [1.5, 0.1, 1.0]])
WEIGHTS = np.array([0.3, 0.7])
Y = np.array([0.2, -40.0, 0.9])


@pytest.fixture(scope="module")
def dist():
    return Weighted([Normal(m, v) for m, v in zip(LOC, DISPERSION, strict=True)], 2 * WEIGHTS)


@pytest.fixture(scope="module")
def same():
    return NormalMixture(np.log(WEIGHTS), LOC, DISPERSION)


def test_the_same_as_a_mixture_of_normals(dist, same):
    for name in ("mean", "var", "std", "median"):
        np.testing.assert_allclose(getattr(dist, name), getattr(same, name), rtol=1e-10, atol=1e-10)
    for name in ("log_prob", "cdf"):
        np.testing.assert_allclose(getattr(dist, name)(Y), getattr(same, name)(Y), rtol=1e-12)
    np.testing.assert_allclose(dist.crps(Y), same.crps(Y), rtol=1e-7)
    np.testing.assert_allclose(dist.crps(np.stack([Y, Y + 1])), same.crps(np.stack([Y, Y + 1])), rtol=1e-7)
    p = np.array([1e-9, 0.025, 0.5, 0.9, 1 - 1e-6])
    np.testing.assert_allclose(dist.quantile(p), same.quantile(p), rtol=1e-7)
    np.testing.assert_array_equal(dist.quantile(np.array([0.0, 1.0]))[:, 0], [-np.inf, np.inf])
    np.testing.assert_allclose(dist[1:].interval(0.9)[1], same[1:].interval(0.9)[1], rtol=1e-10)


def test_parts_with_heavy_tails():
    parts = [StudentT(3.0, np.zeros(1), np.ones(1)), StudentT(5.0, np.ones(1), 4 * np.ones(1))]
    dist = Weighted(parts, WEIGHTS)
    frozen = [scipy.stats.t(3.0), scipy.stats.t(5.0, 1.0, 2.0)]

    def cdf(x):
        return sum(w * part.cdf(x) for w, part in zip(WEIGHTS, frozen, strict=True))

    below = scipy.integrate.quad(lambda x: cdf(x) ** 2, -np.inf, 0.7, epsabs=1e-12)[0]
    above = scipy.integrate.quad(lambda x: (1 - cdf(x)) ** 2, 0.7, np.inf, epsabs=1e-12)[0]
    assert dist.crps(np.array([0.7]))[0] == pytest.approx(below + above, rel=1e-6)
    assert cdf(dist.quantile(np.array(1e-3))[0]) == pytest.approx(1e-3, rel=1e-9)


def test_draws_are_of_one_part_each(dist):
    parts = [Normal(np.full(2, m), 1e-6 * np.ones(2), 1e-6 * np.eye(2)) for m in (-1.0, 1.0)]
    draws = np.asarray(Weighted(parts, WEIGHTS).sample(jax.random.key(0), (4000,)))
    np.testing.assert_array_equal(np.sign(draws[:, 0]), np.sign(draws[:, 1]))
    share, error = np.mean(draws[:, 0] > 0), np.sqrt(0.21 / 4000)
    assert abs(share - 0.7) < 4 * error
    y = np.array([0.9, 1.1])
    expected = np.log(0.7) + scipy.stats.norm(1.0, 1e-3).logpdf(y).sum()
    assert Weighted(parts, WEIGHTS).joint_log_prob(y) == pytest.approx(expected)


def test_a_part_of_no_weight_says_nothing():
    parts = [Normal(np.zeros(2), np.ones(2)), StudentT(0.5, np.full(2, 1e9), np.ones(2))]
    dist = Weighted(parts, [1.0, 0.0])
    np.testing.assert_allclose(dist.var, 1.0)
    np.testing.assert_allclose(dist.quantile(np.array(0.975)), scipy.stats.norm.ppf(0.975), rtol=1e-9)


def test_bad_weights(dist):
    parts = list(dist.parts)
    with pytest.raises(ValueError, match="one weight each"):
        Weighted(parts, [1.0])
    with pytest.raises(ValueError, match="not all zero"):
        Weighted(parts, [0.0, 0.0])
    with pytest.raises(ValueError, match="same points"):
        Weighted([parts[0], parts[1][:1]], WEIGHTS)


def test_quantiles_of_any_laws_of_the_scale():
    """Nodes of a law, Student-t and normal parts together: where the distribution function has the level."""
    law = mixing.scale_posterior(HalfCauchy(1.0))
    parts = [
        StudentT(3.0, LOC[0], DISPERSION[0], scale=0.5),
        Normal(LOC[1], DISPERSION[1], scale=2.0),
        NormalScaleMixture(law, LOC[0] + 3, DISPERSION[1]),
    ]
    dist = Weighted(parts, [0.2, 0.5, 0.3])
    assert dist._student_law() is not None  # not the slow way, which integrates anew for every value
    for level in (1e-6, 0.025, 0.5, 0.9, 1 - 1e-4):
        np.testing.assert_allclose(dist.cdf(dist.quantile(level)), level, rtol=1e-8)


def test_quantiles_near_one_have_the_digits_of_what_is_above():
    """Parts of very different widths: their own quantiles are a wide bracket."""
    dist = Weighted([StudentT(3.0, np.zeros(1), np.ones(1)), StudentT(3.0, np.ones(1), 1e4 * np.ones(1))], WEIGHTS)
    above = 2.0 ** -np.array([10.0, 40.0, 50.0, 53.0])
    q = dist.quantile(1 - above)[:, 0]
    found = WEIGHTS[0] * scipy.stats.t(3.0).sf(q) + WEIGHTS[1] * scipy.stats.t(3.0).sf((q - 1) / 100)
    np.testing.assert_allclose(found, above, rtol=1e-10)


def of_one_output(m, v):
    return Normal(np.full(1, m), np.full(1, v))


def of_two_outputs(m, v):
    return Normal(np.full((1, 2), m), np.full(1, v))


def mixed(m, v):
    return NormalMixture(np.log([0.5, 0.5]), np.full((2, 1), m), np.full((2, 1), v))


@pytest.mark.parametrize("part", [of_one_output, of_two_outputs, mixed, lambda m, v: mixed(0.0, v).rescale(m, 1.0)])
@pytest.mark.parametrize("ends", [((-1.0, 0.5), (1.0, 1.5)), ((0.0, 1e-6), (3.0, 1e6)), ((0.0, 1.0), (50.0, 1.0))])
def test_tails_of_any_parts_have_all_their_digits(part, ends):
    dist = Weighted([part(*end) for end in ends], WEIGHTS)
    laws = [scipy.stats.norm(m, v**0.5) for m, v in ends]
    above, below = 2.0 ** -np.array([10.0, 40.0, 50.0, 53.0]), np.array([1e-300, 1e-100, 1e-16, 1e-3])
    high, low = (dist.quantile(p).reshape(4, -1)[:, 0] for p in (1 - above, below))
    np.testing.assert_allclose(sum(w * law.sf(high) for w, law in zip(WEIGHTS, laws, strict=True)), above, rtol=1e-10)
    np.testing.assert_allclose(sum(w * law.cdf(low) for w, law in zip(WEIGHTS, laws, strict=True)), below, rtol=1e-10)
