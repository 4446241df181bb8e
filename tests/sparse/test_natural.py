"""Natural gradients: to the optimum, and derivatives against finite differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail import sparse
from widetail.sparse import Ascent, Memory, train, variances
from widetail.sparse._draws import nodes_of

from .problems import KERNEL, PRIORS, cached, inputs, scattered, sine, start


@pytest.mark.parametrize("name", ["point", "inverse gamma", "log-normal"])
def test_the_optimum_of_a_gaussian_likelihood(name):
    x = inputs()
    y = sine(x)
    rows = cached(x, y, x[:8])
    ascent = Ascent(rows, Memory.none(1, 8))
    likelihood = sparse.Gaussian(0.1)
    q = scattered(start(PRIORS[name], 1, 8))
    variance = variances(rows, q)
    stepped = ascent.mean_optimum(q, likelihood, variance, iterations=200)
    stepped = ascent.covariance_step(stepped, likelihood, ascent.totals(q, likelihood, variance).curvature, 1.0)
    a = rows.features
    precision = np.eye(8) + a.T @ a / 0.1
    assert_allclose(stepped.precision[0], precision, rtol=1e-9, atol=1e-9)
    assert_allclose(stepped.mean[0], np.linalg.solve(precision, a.T @ y[:, 0] / 0.1), rtol=1e-3, atol=1e-4)


def problem(kind):
    """Rows of three outputs where they are coupled, of one otherwise, and a posterior away from the optimum."""
    x = inputs(40)
    rng = np.random.default_rng(3)
    likelihood, y = {
        "categorical": (sparse.Categorical(3), rng.integers(0, 3, 40)),
        "bernoulli": (sparse.Bernoulli(), rng.integers(0, 2, (40, 1)).astype(float)),
        "poisson": (sparse.Poisson("softplus"), rng.poisson(2.0, (40, 1)).astype(float)),
        "student t": (sparse.StudentT(4.0, 0.1), sine(x)),
        "gaussian outside": (sparse.Gaussian(0.1, scaled=False), sine(x)),
    }[kind]
    outputs = 3 if kind == "categorical" else 1
    return cached(x, y, x[:8]), likelihood, scattered(start(PRIORS["inverse gamma"], outputs, 8))


def slow(kind):
    """Each kind compiles functions of its own."""
    return pytest.param(kind, marks=pytest.mark.slow)


@pytest.mark.parametrize("kind", ["categorical", "student t", *map(slow, ("bernoulli", "poisson", "gaussian outside"))])
def test_derivatives_against_finite_differences(kind, monkeypatch):
    rows, likelihood, q = problem(kind)
    if kind == "categorical":
        # few draws of f would estimate the second derivative of a softmax in another way than the difference does
        many = nodes_of(q.law, likelihood, 3, 0, np.float64, 4096)
        monkeypatch.setattr(Ascent, "nodes", lambda *_: many)
    outputs = len(q.mean)
    ascent = Ascent(rows, Memory.none(outputs, 8))
    found = ascent.totals(q, likelihood, variances(rows, q))
    rng = np.random.default_rng(0)

    def expected(q):
        return ascent.bound(q, likelihood) + q.divergence

    assert_allclose(found.value, expected(q), rtol=1e-9)
    direction = rng.normal(size=q.mean.shape)
    step = 1e-5
    difference = expected(q.with_mean(q.mean + step * direction)) - expected(q.with_mean(q.mean - step * direction))
    assert_allclose(np.sum(found.slope * direction), difference / (2 * step), rtol=1e-5)
    # d/dS of the expectation is minus half of the curvature
    change = rng.normal(size=q.precision.shape)
    change = 1e-4 * (change + np.swapaxes(change, 1, 2))
    up, down = (q.with_precision(np.linalg.inv(q.covariance + sign * change)) for sign in (1, -1))
    tolerance = 0.02 if kind == "categorical" else 1e-4
    difference = 0.5 * (expected(up) - expected(down))
    assert_allclose(-0.5 * np.sum(found.curvature * change), difference, rtol=tolerance)


@pytest.mark.parametrize("kind", ["categorical", *map(slow, ("student t", "bernoulli", "poisson", "gaussian outside"))])
def test_training_raises_the_bound_and_ends_where_it_is_flat(kind, monkeypatch):
    monkeypatch.setattr(
        "widetail.sparse.training._train.extrapolation", lambda _: 0.0
    )  # after it the bound may fall once
    rows, likelihood, q = problem(kind)
    q = start(PRIORS["inverse gamma"], len(q.mean), 8)
    fit = train(rows, likelihood, q, learn_likelihood=False, tolerance=1e-8, max_iterations=60)
    assert fit.converged
    assert np.all(np.diff(fit.bounds) > -1e-4)
    ascent = Ascent(rows, Memory.none(len(q.mean), 8))
    rng = np.random.default_rng(0)
    best = ascent.bound(fit.q, likelihood)
    allowed = 0.05 if kind == "categorical" else 1e-4
    for _ in range(5):
        moved = fit.q.with_mean(fit.q.mean + 0.2 * rng.normal(size=q.mean.shape))
        assert ascent.bound(moved, likelihood) < best
        factor = 1 + 0.1 * rng.normal()
        assert ascent.bound(fit.q.with_precision(fit.q.precision * factor), likelihood) < best + allowed


@pytest.mark.slow
def test_sums_of_rows_find_scale_and_noise():
    x = inputs(400)
    y = sine(x)
    rows = cached(x, y, np.linspace(-2, 2, 8)[:, None])
    q = start(wt.PointMass(1.0), 1, 8, learn=True)
    fit = train(rows, sparse.Gaussian(0.1, scaled=False), q, tolerance=1e-9)
    assert set(fit.stage_rows) == {400}, "sums of all rows from the first iteration on"
    # empirical Bayes of scale and noise: no value nearby has a larger bound
    none = Memory.none(1, 8)
    for scale, noise in ((1.2, 1.0), (0.8, 1.0), (1.0, 1.1), (1.0, 0.9)):
        law = sparse.PointScale(fit.q.law.value * scale, learn=False)
        likelihood = sparse.Gaussian(fit.likelihood.noise * noise, scaled=False)
        other = train(rows, likelihood, fit.q.with_law(law), learn_likelihood=False, tolerance=1e-9)
        assert Ascent(rows, none).bound(other.q, likelihood) < fit.bound * 400 + 1e-3


def test_exact_predictions_when_every_row_is_an_inducing_input():
    x = inputs()
    y = sine(x)
    prior = PRIORS["inverse gamma"]
    fit = train(cached(x, y, x), sparse.Gaussian(0.1), start(prior, 1, 40), learn_likelihood=False, tolerance=1e-10)
    x_new = np.linspace(-2.5, 2.5, 9)[:, None]
    new = cached(x_new, np.zeros((9, 1)), x)
    exact = wt.ScaleMixture(KERNEL, prior, wt.ScaledNoise(0.1)).posterior(x, y).f(x_new)
    assert_allclose((new.features @ fit.q.mean.T), exact.mean, rtol=1e-4, atol=1e-5)
    mean_scale = fit.q.law.b / (fit.q.law.a - 1)
    assert_allclose(mean_scale * variances(new, fit.q)[:, 0], exact.var[:, 0], rtol=1e-3, atol=1e-6)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.slow
def test_a_law_with_a_very_heavy_tail_is_learned():
    """It reaches over many orders of magnitude, and the interpolant of the fit must not be left."""
    a, x = 0.5, inputs(40)
    rows = cached(x, (x[:, 0] > 0).astype(int), x[:8])
    ascent, likelihood = Ascent(rows, Memory.none(2, 8)), sparse.Categorical(2)
    q = start(wt.InverseGamma(a, a), 2, 8)
    fit = ascent.fit_of_scale(q, likelihood, variances(rows, q))
    low, high = q.law.log_range
    assert np.all(np.isfinite(start(wt.InverseGamma(0.001, 0.001), 2, 8).law.log_range))
    assert_allclose(fit(np.array([low - 50, high + 50])), fit(np.array([low - 1.05, high + 1.05])))
    found = train(rows, likelihood, q)
    assert found.converged
    assert found.q.law.a >= a, "observations do not make a tail heavier"
    plain = train(rows, likelihood, start(wt.PointMass(1.0), 2, 8, learn=True))
    assert plain.bounds[-1] - 0.2 < found.bounds[-1] <= plain.bounds[-1]


def test_many_rows_end_where_all_of_them_together_gain_nothing():
    """What a class without rows gets moves while rows gain too little each to show it."""
    x = inputs(60)
    rows = cached(x, (x[:, 0] > 0).astype(int), np.linspace(-2.0, 2.0, 8)[:, None], counts=np.full(60, 1000.0))
    in_all = []
    for tolerance in (1e-5, None):
        fit = train(rows, sparse.Categorical(4), start(wt.PointMass(1.0), 4, 8), tolerance=tolerance, from_few=False)
        assert fit.converged
        in_all.append(abs(fit.bounds[-1] - fit.bounds[-2]) * 60_000)
    assert in_all[1] < 0.02 < in_all[0]
