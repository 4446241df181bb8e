"""Transformed and rounded predictive distributions against scipy's laws and plain sums."""

import jax
import mpmath
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal

from widetail.files import from_config, to_config
from widetail.predictive import BentWarp, BoundedWarp, Normal, PositiveWarp, Rounded, StudentT, Transformed

LOC, VAR = np.array([-0.5, 0.3, 2.0]), np.array([0.2, 1.0, 0.5])
Y = np.array([0.05, 0.4, 0.9])
WARPS = [PositiveWarp(0.5), PositiveWarp(50.0), BoundedWarp(), BoundedWarp(-1.0, 3.0), BentWarp(0.3, 0.5, -0.8)]


@pytest.mark.parametrize("warp", WARPS)
def test_maps_are_inverses_and_slopes_derivatives(warp):
    assert_allclose(warp.inverse(warp.forward(Y)), Y, rtol=1e-12)
    step = 1e-6
    slope = (warp.forward(Y + step) - warp.forward(Y - step)) / (2 * step)
    assert_allclose(np.exp(warp.log_slope(Y)), slope, rtol=1e-6)
    assert from_config(to_config(warp)) == warp


@pytest.mark.parametrize("warp", WARPS)
def test_transformed_against_integrals(warp):
    dist = Transformed(Normal(LOC, VAR), warp)
    for i in range(3):
        law = scipy.stats.norm(LOC[i], np.sqrt(VAR[i]))
        y = warp.inverse(np.linspace(law.ppf(1e-12), law.ppf(1 - 1e-12), 20001))
        density = np.exp(dist[i].log_prob(y[:, None])[:, 0])
        mean = scipy.integrate.trapezoid(y * density, y)
        assert_allclose(scipy.integrate.trapezoid(density, y), 1.0, rtol=1e-5)
        assert_allclose(dist.mean[i], mean, rtol=1e-5, atol=1e-6)
        assert_allclose(dist.var[i], scipy.integrate.trapezoid((y - mean) ** 2 * density, y), rtol=1e-4)
        assert_allclose(dist.cdf(Y)[i], law.cdf(warp.forward(Y[i])), rtol=1e-10)
        assert_allclose(dist.quantile(0.2)[i], warp.inverse(law.ppf(0.2)), rtol=1e-10)
        square = (law.cdf(warp.forward(y)) - (y >= Y[i])) ** 2
        outside = max(y[0] - Y[i], 0.0)  # where nothing is predicted, and all of it is missed
        assert_allclose(dist.crps(Y)[i], scipy.integrate.trapezoid(square, y) + outside, rtol=2e-3)


def test_a_bend_far_out():
    warp, far = BentWarp(1.0, 2.0, 0.7), np.array([-1e9, 1e9])
    assert_allclose(np.exp(warp.log_slope(far)), 0.5 * np.exp([0.7, -0.7]), rtol=1e-8)
    assert_allclose(warp.inverse(warp.forward(far)), far, rtol=1e-12)


def test_what_cannot_be_and_draws():
    dist = Transformed(StudentT(5.0, LOC, VAR, np.diag(VAR)), PositiveWarp(1.0))
    assert_array_equal(dist.log_prob(np.array([-1.0, 0.0, 1.0]))[:2], [-np.inf, -np.inf])
    assert_array_equal(dist.cdf(np.array([-1.0, 0.0, 1.0]))[:2], [0.0, 0.0])
    assert np.all(dist.quantile(1e-6) > 0)
    draws = dist.sample(jax.random.key(0), 4000)
    assert_allclose(np.mean(draws <= dist.quantile(0.3), axis=0), 0.3, atol=4 * np.sqrt(0.21 / 4000))
    assert_array_equal(Transformed(Normal(LOC, VAR), BoundedWarp()).cdf(np.array([2.0, 1.0, -1.0])), [1.0, 1.0, 0.0])
    heavy = Transformed(StudentT(1.0, LOC, VAR), PositiveWarp(1.0))  # without a mean, as before
    assert np.all(np.isnan(heavy.mean))
    assert np.all(np.isinf(heavy.crps(Y)))
    assert np.all(np.isfinite(Transformed(StudentT(1.0, LOC, VAR), BoundedWarp()).mean))


def test_joint_densities_are_products_of_slopes():
    warp, base = PositiveWarp(2.0), Normal(LOC, VAR, np.diag(VAR))
    found = Transformed(base, warp).joint_log_prob(Y)
    assert_allclose(found, np.sum(Transformed(base, warp).log_prob(Y)), rtol=1e-10)


@pytest.mark.parametrize(("step", "lowest"), [(1.0, None), (0.5, None), (1.0, 0.0)])
def test_rounded_against_sums(step, lowest):
    base = scipy.stats.norm(LOC, np.sqrt(VAR))
    dist = Rounded(Normal(LOC, VAR, np.diag(VAR)), step, lowest)
    values = np.arange(-12 if lowest is None else lowest, 15, step)
    upper, lower = (base.cdf(values[:, None] + side * step / 2) for side in (1, -1))
    if lowest is not None:
        lower[0] = 0.0
    p = upper - lower
    found = np.stack([dist.log_prob(np.full(3, value)) for value in values])
    assert_allclose(np.exp(found), p, atol=1e-9)
    assert_allclose(dist.mean, values @ p, rtol=1e-4, atol=1e-5)
    assert_allclose(dist.var, values**2 @ p - (values @ p) ** 2, rtol=1e-3)
    total = np.cumsum(p, axis=0)
    assert_allclose(dist.cdf(np.full(3, 1.2)), total[np.searchsorted(values, 1.2, side="right") - 1], rtol=1e-9)
    for level in (0.05, 0.5, 0.9):
        assert_array_equal(dist.quantile(level), values[np.argmax(total >= level, axis=0)])
    y = np.array([1.0, 0.0, 3.0])
    crps = step * np.sum((total - (values[:, None] >= y)) ** 2, axis=0)
    assert_allclose(dist.crps(y), crps, atol=1e-4)
    assert np.all(np.isneginf(dist.log_prob(np.full(3, 1.2))))
    draws = dist.sample(jax.random.key(1), 4000)
    assert_allclose(np.mean(draws == 1.0, axis=0), p[np.searchsorted(values, 1.0)], atol=0.035)


@pytest.mark.parametrize("sd", [0.02, 0.2, 1.0, 30.0, 1e4])
def test_rounded_values_far_out(sd):
    """Against forty digits: on both sides, and where steps are much wider or narrower than the distribution."""
    dist = Rounded(Normal(np.array([0.3]), np.array([sd**2])))
    with mpmath.workdps(40):
        scale = mpmath.sqrt(mpmath.mpf(2) * mpmath.mpf(sd**2))
        for k in (-100, -9, -1, 0, 1, 3, 9, 40, 3000):
            # from the tail that they are in: the other one needs thousands of digits
            near, far = (
                (abs(k) + side / mpmath.mpf(2) - np.sign(k or 1) * mpmath.mpf(0.3)) / scale for side in (-1, 1)
            )
            exact = mpmath.log((mpmath.erfc(near) - mpmath.erfc(far)) / 2)
            assert_allclose(dist.log_prob(np.array([float(k)]))[0], float(exact), rtol=1e-9, atol=1e-20, err_msg=str(k))
