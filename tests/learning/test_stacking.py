"""Averages by left-out rows, against optimisation and against refitting."""

import numpy as np
import pytest
import scipy.optimize
from numpy.testing import assert_allclose

import widetail as wt
from widetail.kernels import RBF
from widetail.learning import WeightedPosterior, integrate_evidence, stacking_weights

RNG = np.random.default_rng(0)


def test_weights_are_the_best_of_the_simplex():
    log_density, counts = RNG.normal(size=(3, 25)), RNG.integers(1, 4, 25)

    def loss(logits):
        weights = np.exp(logits) / np.sum(np.exp(logits))
        return -counts @ np.log(weights @ np.exp(log_density))

    best = scipy.optimize.minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    expected = np.exp(best.x) / np.sum(np.exp(best.x))
    assert_allclose(stacking_weights(log_density, counts), expected, atol=1e-5)


def test_a_model_that_is_always_better_has_all_the_weight():
    assert_allclose(stacking_weights([[0.0, -1.0], [-50.0, -2.0]]), [1.0, 0.0], atol=1e-6)


def test_rows_that_no_model_allows_for_are_refused():
    with pytest.raises(ValueError, match="a model that allows for each row"):
        stacking_weights([[0.0, -np.inf], [0.0, -np.inf]])
    with pytest.raises(ValueError, match="shape"):
        stacking_weights([0.0, 1.0])


def test_left_out_densities_are_those_of_refitting():
    """Two fixed processes with a point mass of the scale, weighted by their evidence without each row: exact."""
    x = np.linspace(-1.5, 1.5, 12)[:, None]
    y = np.sin(2 * x[:, 0]) + 0.3 * RNG.normal(size=12)
    noise = wt.ScaledNoise(0.1)
    processes = [wt.ScaleMixture(RBF(length), wt.PointMass(1.0), noise) for length in (0.5, 2.0)]

    def together(rows):
        posteriors = [process.posterior(x[rows], y[rows]) for process in processes]
        weights = np.exp([posterior.log_evidence for posterior in posteriors])
        return WeightedPosterior(posteriors, weights / weights.sum())

    rest = [np.delete(np.arange(12), i) for i in range(12)]
    expected = [float(together(rows)(x[[i]]).log_prob(y[[i]])[0]) for i, rows in enumerate(rest)]
    assert_allclose(together(np.arange(12)).left_out_log_prob(), expected, rtol=1e-8)


def test_candidates_by_stacking(as_users_call):
    x = np.linspace(-1.5, 1.5, 30)[:, None]
    y = np.sin(3.0 * x[:, 0]) + 0.05 * RNG.normal(size=30)
    noise = wt.ScaledNoise(0.01)
    candidates = {
        "smooth": wt.ScaleMixture(RBF(1.0), noise=noise),
        "line": wt.ScaleMixture(wt.kernels.Linear(), noise=noise),
    }
    found = integrate_evidence(candidates, x, y, draws=16, average="stacking")
    assert found.shares["smooth"] > 0.95
    assert np.sum(found.weights) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="average must be 'evidence' or 'stacking'"):
        integrate_evidence(candidates, x, y, average="loo")  # type: ignore[arg-type]
