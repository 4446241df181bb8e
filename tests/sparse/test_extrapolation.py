"""Leaps of the scale: training ends sooner, and at the same place."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from widetail import sparse
from widetail.sparse import Ascent, Memory, train, variances
from widetail.sparse._draws import nodes_of
from widetail.sparse._rows import values
from widetail.sparse.training import LONGEST, extrapolate, extrapolation

from .problems import PRIORS, cached, inputs, scattered, sine, start


def test_a_geometric_sequence_is_summed():
    for ratio in (0.5, 0.9):
        sequence = [3.0 - 0.1 * ratio**k for k in range(3)]
        assert_allclose(sequence[-1] + extrapolation(sequence), 3.0)
    assert extrapolation([0.0, 1.0]) == 0.0
    assert extrapolation([0.0, 1.0, 3.0]) == 0.0  # it runs away
    assert extrapolation([0.0, 1.0, 0.5]) == 0.0  # it swings
    assert extrapolation([0.0, 1.0, 1.99]) == LONGEST


@pytest.mark.parametrize("name", PRIORS)
def test_extrapolation_leaves_what_is_known_of_y(name):
    """The covariances follow by as much as the rows determine them, and noise inside of the scale stays what it is."""
    x = inputs(200)
    rows, likelihood = cached(x, sine(x), x[:6]), sparse.Gaussian(0.01)
    q = scattered(start(PRIORS[name], 1, 6, learn=True))
    q = q.with_precision(np.eye(6)[None] + rows.features.T @ rows.features / 0.01)
    moved, own = extrapolate(q, likelihood, 0.5, learn_likelihood=True)
    factor = q.law.mean_precision / moved.law.mean_precision
    assert_allclose(factor, np.exp(0.5), rtol=0.01)
    assert_allclose(own.noise * factor, 0.01)
    before, after = (variances(rows, one) - rows.residual[:, None] for one in (q, moved))
    assert_allclose(after * factor, before, rtol=0.05)
    # noise that may not change: the covariances do not depend on the scale
    alone, same = extrapolate(q, likelihood, 0.5, learn_likelihood=False)
    assert same is likelihood
    assert alone.precision is q.precision
    kept, same = extrapolate(q.with_law(q.law.held_at(1.0)), likelihood, 0.5, learn_likelihood=True)
    assert same is likelihood
    assert kept.precision is q.precision


def test_a_scale_that_cannot_move():
    q, likelihood = scattered(start(PRIORS["log-normal"], 1, 4)), sparse.StudentT()
    low = q.with_precision(0.5 * np.eye(4)[None])
    assert extrapolate(low, likelihood, 1.5, learn_likelihood=True)[0] is low  # not positive definite
    grid = q.law.log_scales
    at_edge = q.with_law(q.law.with_weights(np.where(grid > grid[-3], 1.0, 0.0)))
    assert extrapolate(at_edge, likelihood, 1.5, learn_likelihood=True)[0] is at_edge
    near_edge = q.with_law(q.law.with_weights(np.where(grid == grid[-5], 1.0, 0.0)))
    moved, _ = extrapolate(near_edge, likelihood, 1.5, learn_likelihood=True)
    factor = np.exp(grid[-1] - grid[-5])
    assert_allclose(moved.precision - np.eye(4), factor * (q.precision - np.eye(4)), rtol=1e-6)


@pytest.mark.parametrize(
    "name", [name if name == "inverse gamma" else pytest.param(name, marks=pytest.mark.slow) for name in PRIORS]
)
def test_training_ends_where_it_ends_without_extrapolation(name, monkeypatch):
    x = inputs(400)
    y = np.clip(np.round(sine(x)[:, 0] + 1.0), 0, 2).astype(np.int64)
    rows, likelihood = cached(x, y, np.linspace(-2, 2, 10)[:, None]), sparse.Categorical(3)
    options = {"tolerance": 1e-6, "max_iterations": 200, "from_few": False}
    q = start(PRIORS[name], 3, 10, learn=True)
    quick = train(rows, likelihood, q, **options)
    monkeypatch.setattr(sparse.training._train, "extrapolation", lambda _: 0.0)
    slow = train(rows, likelihood, q, **options)
    assert quick.converged
    assert slow.converged
    assert_allclose(quick.bound, slow.bound, atol=1e-5)
    assert_allclose(1 / quick.q.law.mean_precision, 1 / slow.q.law.mean_precision, rtol=0.05)
    assert len(quick.bounds) < len(slow.bounds)


def test_means_do_not_learn_the_errors_of_few_draws():
    """As many parameters as a tenth of the rows, and the expectation by 16 draws a row is that by 1024."""
    x = inputs(600)
    y = np.clip(np.round(sine(x)[:, 0] + 1.0), 0, 2).astype(np.int64)
    rows, likelihood = cached(x, y, np.linspace(-2, 2, 20)[:, None]), sparse.Categorical(3)
    fit = train(rows, likelihood, start(PRIORS["point"], 3, 20, learn=True), from_few=False)
    variance = variances(rows, fit.q)
    few, many = (
        values(rows, fit.q.mean, variance, likelihood, nodes_of(fit.q.law, likelihood, 3, 0, np.float64, draws))
        for draws in (16, 1024)
    )
    assert abs(few - many) < 1.5
    # the derivative in the scale, by draws and by the curvature, to which it is equal in expectation
    ascent = Ascent(rows, Memory.none(3, 20))
    by_curvature = -0.5 * np.sum(ascent.totals(fit.q, likelihood, variance).curvature * fit.q.covariance)
    at, log_scale = ascent.fit_of_scale(fit.q, likelihood, variance), -np.log(fit.q.law.mean_precision)
    by_draws = np.diff(at(log_scale + np.array([-1e-3, 1e-3])))[0] / 2e-3
    assert_allclose(by_draws, by_curvature, rtol=0.1)
