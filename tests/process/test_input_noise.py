"""Noise that depends on the input: its own optimum, bounds, limits, and a long chain as the truth."""

import warnings

import jax
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.stats

import widetail as wt
from tests.process.gibbs import noise_of_inputs, standard_error
from widetail import files, predictive
from widetail.process import FieldLaw

KERNEL = wt.kernels.RBF(0.7)
FIELD = wt.kernels.RBF(1.0)
NEW = np.linspace(-1.8, 1.8, 25)[:, None]


def log_variance(x):
    return -4.0 + 2.0 * np.sin(1.5 * x[:, 0])


def data(n=80, seed=0):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-2, 2, n))[:, None]
    return x, np.sin(2 * x[:, 0]) + np.exp(0.5 * log_variance(x)) * rng.normal(size=n)


def process(variance=0.03, rows=None, spread=1.0, prior=None):
    return wt.ScaleMixture(KERNEL, prior, wt.InputNoise(FIELD, variance, spread, rows))


def gram(kernel, x):
    return np.asarray(kernel.kernel(x, get="nngp").nngp, float)


def test_the_law_of_the_logarithm_is_the_best_normal_one():
    """Against a general optimiser of mean and Cholesky factor, which knows nothing of the form of the optimum."""
    rng = np.random.default_rng(0)
    n, misfit = 4, np.array([0.1, 3.0, 0.5, 9.0])
    matrix = gram(FIELD, np.linspace(-1, 1, n)[:, None]) + 0.1 * np.eye(n)
    halves = np.array([0.5, 0.5, 1.0, 0.5])
    law = FieldLaw.of(matrix, misfit, halves)
    lower = np.tril_indices(n)

    def loss(vector):
        mean, chol = vector[:n], np.zeros((n, n))
        chol[lower] = vector[n:]
        cov = chol @ chol.T
        fit = -halves @ mean - (halves * misfit) @ np.exp(-mean + 0.5 * np.diagonal(cov))
        kl = 0.5 * (
            np.trace(np.linalg.solve(matrix, cov))
            + mean @ np.linalg.solve(matrix, mean)
            - n
            + np.linalg.slogdet(matrix)[1]
            - np.linalg.slogdet(cov + 1e-300 * np.eye(n))[1]
        )
        return -(fit - kl)

    start = np.concatenate([0.1 * rng.normal(size=n), np.eye(n)[lower] * 0.5])
    best = scipy.optimize.minimize(loss, start, method="BFGS", options={"gtol": 1e-7})
    assert abs(-best.fun - law.objective) < 1e-6
    assert np.allclose(law.mean, best.x[:n], atol=1e-3)


def test_loud_and_quiet_inputs_are_told_apart():
    x, y = data()
    posterior = process().posterior(x, y)
    mean, std = posterior.log_noise(NEW)
    truth = log_variance(NEW) + np.log(np.asarray(posterior.scale.mean_precision))
    assert np.corrcoef(mean, truth)[0, 1] > 0.9
    assert np.mean(np.abs(mean - truth) < 2.5 * std) > 0.8
    constant = wt.ScaleMixture(KERNEL, noise=wt.ScaledNoise(0.03)).posterior(x, y)
    fresh = np.sin(2 * NEW[:, 0]) + np.exp(0.5 * log_variance(NEW)) * np.random.default_rng(5).normal(size=(40, 25))
    gain = posterior(NEW).log_prob(fresh) - constant(NEW).log_prob(fresh)
    assert np.mean(gain) > 0.1
    assert posterior.log_evidence > constant.log_evidence + 5


def test_given_the_noise_everything_is_exact():
    x, y = data()
    posterior = process().posterior(x, y)
    exact = wt.ScaleMixture(KERNEL, noise=wt.ScaledNoise(0.03)).posterior(x, y, noise_weights=posterior.noise_weights)
    assert np.allclose(posterior.f(NEW).mean, exact.f(NEW).mean, atol=1e-12)
    # at the optimum the misfits are those of the function that they lead to
    residual, variance = y - exact.location(x), np.diagonal(exact.covariance(x))
    misfit = (residual**2 * exact.scale.mean_precision + variance) / 0.03
    law = posterior.scales.field
    assert np.allclose(law.precision, 0.5 * misfit / law.weights, rtol=2e-2)


def test_no_spread_is_constant_noise():
    x, y = data()
    constant = wt.ScaleMixture(KERNEL, noise=wt.ScaledNoise(0.03)).posterior(x, y)
    posterior = process(spread=1e-12).posterior(x, y)
    assert abs(posterior.log_evidence - constant.log_evidence) < 1e-8
    assert np.allclose(posterior.f(NEW).mean, constant.f(NEW).mean, atol=1e-8)
    assert np.allclose(posterior(NEW).quantile([0.05, 0.9]), constant(NEW).quantile([0.05, 0.9]), atol=1e-6)
    # and with rows besides, that of rows alone
    rows = wt.InverseGamma(2.0, 2.0)
    both = process(spread=1e-12, rows=rows).posterior(x, y)
    alone = wt.ScaleMixture(KERNEL, noise=wt.RowNoise(rows, 0.03)).posterior(x, y)
    assert abs(both.log_evidence - alone.log_evidence) < 1e-3


def test_bound_is_below_the_evidence_of_two_rows():
    x, y = np.array([[0.0], [0.8]]), np.array([0.3, -1.1])
    posterior = process(variance=0.3).posterior(x, y)
    law = scipy.stats.multivariate_normal(np.zeros(2), gram(FIELD, x))
    grid = np.linspace(-7, 7, 81)
    logs = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    matrices = gram(KERNEL, x) + 0.3 * np.exp(logs)[..., None] * np.eye(2)
    # a Student t with 4 degrees of freedom in two dimensions: (1 + q / 4)^-3 / (2 pi sqrt(det))
    quad = np.linalg.solve(matrices, np.broadcast_to(y[:, None], (81, 81, 2, 1)))[..., 0] @ y
    table = (1 + quad / 4) ** -3 / (2 * np.pi * np.sqrt(np.linalg.det(matrices))) * law.pdf(logs)
    exact = np.log(scipy.integrate.trapezoid(scipy.integrate.trapezoid(table, grid), grid))
    assert posterior.log_evidence < exact < posterior.log_evidence + 0.4


def test_predictive_of_targets_is_a_mixture_over_the_noise():
    x, y = data()
    posterior = process(prior=wt.PointMass(1.0)).posterior(x, y)
    dist = posterior(NEW[:1])
    mean, std = posterior.log_noise(NEW[:1])
    z = np.linspace(-8, 8, 2001)
    mass = scipy.stats.norm.pdf(z) / scipy.stats.norm.pdf(z).sum()
    spread = np.sqrt(posterior.f(NEW[:1]).var[0] + np.exp(mean[0] + std[0] * z))
    for value in (-0.8, 0.1, 0.9):
        expected = np.sum(mass * scipy.stats.norm.cdf(value / spread))
        assert np.isclose(dist.cdf(dist.median + value)[0], expected, atol=1e-5)


def test_left_out_laws_are_those_of_refits():
    """The noise of other rows is inferred with the row in place: refits differ by a little."""
    x, y = data(40)
    posterior = process().posterior(x, y)
    scores = posterior.left_out_dist().log_prob(y)
    for row in (3, 20, 33):
        rest = np.arange(40) != row
        refit = process().posterior(x[rest], y[rest])
        assert np.isclose(scores[row], refit(x[row : row + 1]).log_prob(y[row : row + 1])[0], atol=0.25)
    left = posterior.left_out()
    assert np.allclose(left.location, posterior.left_out_dist().median)


def test_rows_and_inputs_together():
    x, y = data()
    bad = np.array([10, 60])
    y[bad] += np.array([3.0, -4.0])
    both = process(rows=wt.InverseGamma(2.0, 2.0)).posterior(x, y)
    assert set(bad) <= set(both.outliers().tolist())
    clean = process().posterior(*data())
    assert np.sqrt(np.mean((both.f(NEW).median - clean.f(NEW).median) ** 2)) < 0.1
    assert both(NEW).quantile(0.9).shape == (25,)
    assert both(NEW).sample(jax.random.key(0), (3,)).shape == (3, 25)
    with pytest.raises(ValueError, match="depends on the input alone"):
        clean.outliers()


def test_counts_outputs_and_updates():
    x, y = data(30)
    counts = np.arange(30) % 3 + 1
    once = process().posterior(x, y, counts=counts)
    repeated = process().posterior(np.repeat(x, counts, axis=0), np.repeat(y, counts))
    assert abs(once.log_evidence - repeated.log_evidence) < 1e-2
    assert np.allclose(once(NEW).std, repeated(NEW).std, rtol=1e-2)
    two = process().posterior(x, np.stack([y, -y], axis=1))
    assert two(NEW).quantile(0.9).shape == (25, 2)
    after = process().posterior(x[:20], y[:20]).update(x[20:], y[20:])
    assert abs(after.log_evidence - process().posterior(x, y).log_evidence) < 1e-6


def test_extreme_targets_end_clearly():
    x, y = data(20)
    for variance, targets in ((1e-12, y), (0.03, 1e6 * np.sign(y)), (0.03, 0.0 * y)):
        with np.errstate(divide="raise", invalid="raise"), warnings.catch_warnings():
            # with next to no noise the bound is still rising after the last step, and a warning says so
            warnings.filterwarnings("ignore", r"the noise of the inputs still changes.*\(1e-12\)")
            posterior = process(variance, wt.InverseGamma(2.0, 2.0)).posterior(x, targets)
        assert np.isfinite(posterior.log_evidence)
        assert np.all(np.isfinite(posterior.noise_weights))
        assert np.all(np.isfinite(posterior(NEW).quantile(0.9)))
    pair = process().posterior(x[:2], y[:2])
    assert np.all(np.isfinite(pair(NEW).quantile(0.9)))


def test_bad_input_saving_and_repr():
    with pytest.raises(ValueError, match="InputNoise: net must be a network"):
        wt.InputNoise(3.0)
    with pytest.raises(ValueError, match="InputNoise: variance must be a positive number"):
        wt.InputNoise(FIELD, variance=0.0)
    with pytest.raises(ValueError, match="InputNoise: rows must be one prior"):
        wt.InputNoise(FIELD, rows=2.0)
    x, y = data(20)
    with pytest.raises(ValueError, match=r"noise_weights=posterior\.noise_weights"):
        jax.grad(lambda s: process(s).log_evidence(x, y))(0.1)
    for rows in (None, wt.LogNormal(0.0, 1.0)):
        model = wt.InputNoise(wt.nn.mlp(1, "relu"), 0.3, 2.0, rows)
        assert repr(files.from_config(files.to_config(model), expected=wt.InputNoise)) == repr(model)
    assert isinstance(process().posterior(x, y)(NEW), predictive.OwnScales)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "n"), [(0, 40), (1, 60)])
def test_against_a_long_chain(seed, n):
    """The chain's own standard errors are below a tenth of what is compared; four of them are allowed on top."""
    x, y = data(n, seed)
    draws, location = noise_of_inputs(
        gram(KERNEL, x), gram(FIELD, x), y, readout=(2.0, 2.0), noise=0.03, sweeps=2000, seed=1
    )
    posterior = process().posterior(x, y)
    law, width, error = posterior.scales.field, draws.std(axis=0), standard_error(draws)
    assert np.max(error / width) < 0.1
    # level and readout variance can be told apart by neither; their sum is what targets see
    log_beta = np.log(
        scipy.stats.invgamma(posterior.scale.law.a, scale=posterior.scale.law.b).rvs(4000, random_state=0)
    )
    mean, std = law.mean + log_beta.mean(), np.sqrt(law.variance + log_beta.var())
    assert np.all(np.abs(mean - draws.mean(axis=0)) < 0.1 * width + 4 * error)
    assert np.sqrt(np.mean(((mean - draws.mean(axis=0)) / width) ** 2)) < 0.1
    assert np.all(np.abs(std / width - 1) < 0.25)
    f = posterior.f(x)
    assert np.sqrt(np.mean(((f.mean - location.mean(axis=0)) / f.std) ** 2)) < 0.1
