"""A scale for every row: bounds, limits, outliers, and a long Gibbs chain as the truth."""

import jax
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import widetail as wt
from tests.process.gibbs import standard_error, student_rows
from widetail import files, predictive

KERNEL = wt.kernels.RBF(0.7)
NEW = np.linspace(-2.2, 2.2, 25)[:, None]


def data(n=24, shift=2.0, noise=0.1, seed=0, bad=3):
    """A sine with noise of this standard deviation, some rows of it shifted; which ones."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-2, 2, n))[:, None]
    y = np.sin(2 * x[:, 0]) + noise * rng.normal(size=n)
    shifted = rng.choice(n, bad, replace=False)
    y[shifted] += shift * rng.choice([-1.0, 1.0], bad)
    return x, y, np.sort(shifted)


def process(prior=None, variance=0.01):
    return wt.ScaleMixture(KERNEL, noise=wt.RowNoise(prior, variance))


def matrices(x):
    return (np.asarray(KERNEL.kernel(*pair, get="nngp").nngp, float) for pair in ((x,), (NEW, x)))


def test_outliers_are_found_and_do_not_pull():
    x, y, shifted = data()
    posterior = process().posterior(x, y)
    assert np.sort(posterior.outliers()).tolist() == shifted.tolist()
    truth = np.sin(2 * NEW[:, 0])
    constant = wt.ScaleMixture(KERNEL, noise=wt.ScaledNoise(0.01)).posterior(x, y)
    errors = [np.sqrt(np.mean((one.f(NEW).mean - truth)[3:-3] ** 2)) for one in (posterior, constant)]
    assert errors[0] < 0.2 * errors[1]


def test_given_the_weights_everything_is_exact():
    x, y, _ = data()
    posterior = process().posterior(x, y)
    exact = wt.ScaleMixture(KERNEL, noise=wt.ScaledNoise(0.01)).posterior(x, y, noise_weights=posterior.noise_weights)
    assert np.allclose(posterior.given.f(NEW).mean, exact.f(NEW).mean, atol=1e-12)
    # at the optimum each weight is one over the mean precision of its own law
    law = posterior.scales.law
    shape, rate = 2.0 + 0.5, 2.0 + 0.5 * law.misfit
    assert np.allclose(law.weights, rate / shape, rtol=1e-10)
    residual = y - exact.location(x)
    variance = np.diagonal(exact.covariance(x))
    misfit = (residual**2 * exact.scale.mean_precision + variance) / 0.01
    assert np.allclose(law.misfit, misfit, rtol=1e-4)


@pytest.mark.slow
def test_the_limit_of_many_degrees_of_freedom_is_constant_noise():
    x, y, _ = data()
    constant = wt.ScaleMixture(KERNEL, noise=wt.ScaledNoise(0.01)).posterior(x, y)
    for prior in (wt.InverseGamma(1e13, 1e13), wt.PointMass(1.0)):
        posterior = process(prior).posterior(x, y)
        assert abs(posterior.log_evidence - constant.log_evidence) < 1e-8
        assert np.allclose(posterior.f(NEW).mean, constant.f(NEW).mean, atol=1e-8)
        assert np.allclose(posterior.f(NEW).std, constant.f(NEW).std, atol=1e-8)
        assert np.allclose(posterior(NEW).quantile([0.05, 0.9]), constant(NEW).quantile([0.05, 0.9]), atol=1e-7)
        assert posterior.outliers().size == 0


def test_bound_is_below_the_evidence_of_two_rows():
    x, y = np.array([[0.0], [0.8]]), np.array([0.3, -1.1])
    posterior = process(variance=0.3).posterior(x, y)
    k = np.asarray(KERNEL.kernel(x, get="nngp").nngp, float)
    grid = np.linspace(-4, 12, 121)
    own = scipy.stats.invgamma(2.0, scale=2.0).pdf(np.exp(grid)) * np.exp(grid)
    scales = np.exp(np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1))
    matrices = k + 0.3 * scales[..., None] * np.eye(2)
    # a Student t with 4 degrees of freedom in two dimensions: (1 + q / 4)^-3 / (2 pi sqrt(det))
    quad = np.linalg.solve(matrices, np.broadcast_to(y[:, None], (121, 121, 2, 1)))[..., 0] @ y
    table = (1 + quad / 4) ** -3 / (2 * np.pi * np.sqrt(np.linalg.det(matrices))) * np.outer(own, own)
    exact = np.log(scipy.integrate.trapezoid(scipy.integrate.trapezoid(table, grid), grid))
    assert posterior.log_evidence < exact < posterior.log_evidence + 0.25


def test_counts_repeat_rows():
    x, y, _ = data()
    counts = np.arange(len(y)) % 3 + 1
    once = process().posterior(x, y, counts=counts)
    repeated = process().posterior(np.repeat(x, counts, axis=0), np.repeat(y, counts))
    assert abs(once.log_evidence - repeated.log_evidence) < 1e-5
    for a, b in ((once.f(NEW), repeated.f(NEW)), (once(NEW), repeated(NEW))):
        assert np.allclose(a.median, b.median, atol=1e-4)
        assert np.allclose(a.std, b.std, atol=1e-4)


def test_predictive_of_targets_is_the_mixture_of_both_scales():
    x, y, _ = data()
    posterior = process().posterior(x, y)
    dist, parts = posterior(NEW[:2]), posterior.parts(NEW[:2])
    beta, own = (
        scipy.stats.invgamma(posterior.scale.law.a, scale=posterior.scale.law.b),
        scipy.stats.invgamma(2.0, scale=2.0),
    )
    log_beta, log_w = np.linspace(*np.log(beta.ppf([1e-13, 1 - 1e-13])), 120), np.linspace(-4, 30, 400)
    mass = (beta.pdf(np.exp(log_beta)) * np.exp(log_beta))[:, None] * (own.pdf(np.exp(log_w)) * np.exp(log_w))
    mass = mass / mass.sum()
    for point, value in ((0, -1.0), (1, 0.9)):
        spread = np.sqrt(np.exp(log_beta)[:, None] * (parts.dispersion()[point] + 0.01 * np.exp(log_w)))
        at = np.full(2, parts.location[point] + value)
        assert np.isclose(dist.cdf(at)[point], np.sum(mass * scipy.stats.norm.cdf(value / spread)), rtol=1e-6)
        assert np.isclose(
            dist.log_prob(at)[point], np.log(np.sum(mass * scipy.stats.norm.pdf(value / spread) / spread)), atol=1e-6
        )
    assert np.allclose(dist.cdf(dist.quantile(0.9)), 0.9)
    draws = dist.sample(jax.random.key(0), (4000,))
    assert np.all(np.abs(np.mean(draws < dist.quantile(0.2), axis=0) - 0.2) < 4 * np.sqrt(0.16 / 4000))


def test_crps_of_own_scales():
    """Against the definition, and against a mixture of normals, whose pairs are summed."""
    scale = wt.mixing.scale_posterior(wt.PointMass(1.0))
    dist = predictive.OwnScales(scale, np.zeros(1), np.ones(1), np.array([[0.2], [8.0]]), np.log([0.7, 0.3]))
    pairs = predictive.NormalMixture(np.log([0.7, 0.3]), np.zeros((2, 1)), np.array([[1.2], [9.0]]))
    for y in (0.0, -0.4, 7.0):
        assert np.isclose(dist.crps(np.array([y]))[0], pairs.crps(np.array([y]))[0], rtol=1e-8)
    heavy = wt.ScaleMixture(KERNEL, noise=wt.RowNoise(wt.InverseGamma(0.4, 0.4), 0.01)).posterior(*data()[:2])(NEW[:1])
    assert np.isnan(heavy.mean[0])
    assert np.isfinite(heavy.median[0])
    assert np.isfinite(heavy.crps(np.zeros(1))[0])


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.05, 0.2])
def test_ordinary_rows_and_a_few_others_against_a_long_gibbs_chain(share):
    """As below: four standard errors of the chain are allowed on top."""
    prior, noise = wt.Contaminated(share, a=20.0, far=100.0, tail=1.5), 0.04
    x, y, _ = data(40, shift=3.0, noise=0.2, seed=5, bad=6)
    k_xx, k_tx = matrices(x)
    laws = [(1 - share, 20.0, 20.0), (share, 1.5, 150.0)]
    w, location, beta = student_rows(k_xx, k_tx, y, readout=(2.0, 2.0), rows=laws, noise=noise, sweeps=20_000, seed=1)
    posterior = process(prior, noise).posterior(x, y)
    expected, error = np.mean(1 / w, axis=0), standard_error(1 / w)
    assert error.max() < 0.02
    assert np.all(np.abs(posterior.row_scale().mean_precision - expected) < 0.1 + 4 * error)
    assert np.sqrt(np.mean((posterior.row_scale().mean_precision - expected) ** 2)) < 0.03
    within = [
        b * (1 - np.einsum("mn,nm->m", k_tx, np.linalg.solve(k_xx + noise * np.diag(one), k_tx.T)))
        for b, one in zip(beta[::20], w[::20], strict=True)
    ]
    std = np.sqrt(np.mean(within, axis=0) + location.var(axis=0))
    dist = posterior.f(NEW)
    assert np.sqrt(np.mean(((dist.mean - location.mean(axis=0)) / std) ** 2)) < 0.05
    assert np.all(np.abs(dist.std / std - 1) < 0.1)


def test_targets_of_the_wrong_sign_around_a_function_with_hardly_any_noise():
    """With so little noise a function meets any targets; which are wrong shows as the noise cools down."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 3))
    y = x @ np.array([1.0, -0.6, 0.3]) + 0.2 * np.sin(x[:, 0]) + 1e-4 * rng.normal(size=60)
    wrong = np.sort(rng.choice(np.flatnonzero(np.abs(y) > 0.2), 12, replace=False))
    y[wrong] *= -1
    noise = wt.RowNoise(wt.Contaminated(0.2, 500.0, 1e6), 1e-8)
    posterior = wt.ScaleMixture(wt.kernels.RBF(4.0), noise=noise).posterior(x, y)
    assert posterior.scales.start == "cooled"
    assert np.sort(posterior.outliers(3.0)).tolist() == wrong.tolist()


@pytest.mark.slow
def test_other_laws_and_two_outputs():
    x, y, shifted = data()
    two = np.stack([y, -y], axis=1)
    posterior = process(wt.LogNormal(0.0, 1.5)).posterior(x, y)
    assert set(posterior.outliers()) >= set(shifted)
    for sharing in ("shared", "per_output"):
        both = wt.ScaleMixture(KERNEL, noise=wt.RowNoise(), scale_sharing=sharing).posterior(x, two)
        assert np.sort(both.outliers()).tolist() == shifted.tolist()
        dist = both(NEW)
        assert dist.quantile(0.9).shape == (25, 2)
        assert np.allclose(dist.median[:, 0], -dist.median[:, 1])
        assert dist.sample(jax.random.key(1), (3,)).shape == (3, 25, 2)
        assert both.left_out().scale.shape == two.shape


def test_update_equals_conditioning_at_once():
    x, y, _ = data()
    after = process().posterior(x[:20], y[:20]).update(x[20:], y[20:])
    assert abs(after.log_evidence - process().posterior(x, y).log_evidence) < 1e-8


def test_noise_that_vanishes_and_rows_that_are_all_outliers():
    x, y, _ = data()
    for variance, targets in ((1e-12, y), (0.01, 1e6 * np.where(np.arange(len(y)) % 2, 1.0, -1.0)), (0.01, 0.0 * y)):
        with np.errstate(all="raise", under="ignore"):
            posterior = process(variance=variance).posterior(x, targets)
        assert np.isfinite(posterior.log_evidence)
        assert np.all(np.isfinite(posterior.noise_weights))
        assert np.all(np.isfinite(posterior(NEW).quantile(0.9)))


def test_bad_input():
    x, y, _ = data()
    with pytest.raises(ValueError, match="RowNoise: variance must be a positive number"):
        wt.RowNoise(variance=0.0)
    with pytest.raises(ValueError, match=r"RowNoise: prior must be one prior of widetail.*got 3\.0"):
        wt.RowNoise(3.0)
    with pytest.raises(ValueError, match="prior must be one prior"):
        wt.RowNoise(wt.InverseGamma(np.ones(2), np.ones(2)))
    with pytest.raises(ValueError, match="threshold must be a number above 1"):
        process().posterior(x, y).outliers(0.5)
    with pytest.raises(ValueError, match=r"noise_weights=posterior\.noise_weights"):
        jax.grad(lambda s: wt.ScaleMixture(KERNEL, noise=wt.RowNoise(variance=s)).log_evidence(x, y))(0.1)
    with pytest.raises(ValueError, match="joint density is an integral"):
        process().posterior(x, y)(NEW).joint_log_prob(np.zeros(25))


def test_saved_and_shown():
    model = wt.RowNoise(wt.LogNormal(0.0, 2.0), 0.3)
    again = files.from_config(files.to_config(model), expected=wt.RowNoise)
    assert repr(again) == repr(model)


def test_no_outliers_in_gaussian_data():
    """At most three rows in a thousand at four degrees of freedom, with the noise variance known."""
    found = 0
    for seed in range(10):
        x, y, _ = data(n=100, bad=0, seed=seed)
        found += len(process().posterior(x, y).outliers())
    assert found <= 3


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "n", "df", "noise"), [(0, 20, 4.0, 0.01), (2, 40, 2.0, 0.05), (3, 40, 4.0, 0.2)])
def test_against_a_long_gibbs_chain(seed, n, df, noise):
    """The chain's own standard errors are below a hundredth of what is compared; four of them are allowed on top."""
    x, y, _ = data(n, shift=3.0, noise=np.sqrt(noise), seed=seed, bad=n // 8)
    k_xx, k_tx = matrices(x)
    w, location, beta = student_rows(
        k_xx, k_tx, y, readout=(2.0, 2.0), rows=[(1.0, df / 2, df / 2)], noise=noise, sweeps=20_000, seed=1
    )
    posterior = process(wt.InverseGamma(df / 2, df / 2), noise).posterior(x, y)
    error = standard_error(1 / w)
    assert np.all(np.abs(posterior.row_scale().mean_precision - np.mean(1 / w, axis=0)) < 0.1 + 4 * error)
    assert np.sqrt(np.mean((posterior.row_scale().mean_precision - np.mean(1 / w, axis=0)) ** 2)) < 0.04
    within = [
        b * (1 - np.einsum("mn,nm->m", k_tx, np.linalg.solve(k_xx + noise * np.diag(one), k_tx.T)))
        for b, one in zip(beta[::20], w[::20], strict=True)
    ]
    std = np.sqrt(np.mean(within, axis=0) + location.var(axis=0))
    dist = posterior.f(NEW)
    assert np.sqrt(np.mean(((dist.mean - location.mean(axis=0)) / std) ** 2)) < 0.03
    assert np.all(np.abs(dist.std / std - 1) < 0.1)
    assert np.mean(np.abs(dist.std / std - 1)) < 0.06
