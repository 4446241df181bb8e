"""Hyperparameters integrated out, against sums over a grid of them."""

import numpy as np
import pytest
import scipy.special
import scipy.stats

import widetail as wt
from widetail.kernels import RBF
from widetail.learning import HYPERPRIORS, integrate_evidence

X = np.linspace(-1.5, 1.5, 9)[:, None]
Y = np.sin(2.0 * X[:, 0]) + 0.1 * np.cos(37.0 * X[:, 0])
DRAWS = 256
T_CONSTANT = scipy.special.gammaln(6.5) - scipy.special.gammaln(2.0) - 4.5 * np.log(4 * np.pi)
NEW = np.array([[0.2], [2.5]])


def on_a_grid(points=65):
    """Log evidence, and the mean and the distribution function of y at new inputs, by sums over length and noise."""
    axes, masses = [], []
    for field in ("length_scale", "noise"):
        median, spread = HYPERPRIORS[field]
        z = np.linspace(-4.0, 4.0, points)
        axes.append(np.exp(np.log(median) + spread * z))
        masses.append(scipy.stats.norm.logpdf(z) + np.log(z[1] - z[0]))
    logs, means, below = [], [], []
    for length, mass1 in zip(axes[0], masses[0], strict=True):
        k_xx, k_tx, k_tt = (np.exp(-0.5 * ((a - b.T) / length) ** 2) for a, b in ((X, X), (NEW, X), (NEW, NEW)))
        for noise, mass2 in zip(axes[1], masses[1], strict=True):
            # an inverse gamma (2, 2) of the scale: a multivariate t distribution with four degrees of freedom
            matrix = k_xx + noise * np.eye(9)
            quad = Y @ np.linalg.solve(matrix, Y)
            logs.append(T_CONSTANT - 0.5 * np.linalg.slogdet(matrix)[1] - 6.5 * np.log1p(quad / 4) + mass1 + mass2)
            scale = (4 + quad) / 13
            means.append(k_tx @ np.linalg.solve(matrix, Y))
            left = np.diagonal(k_tt - k_tx @ np.linalg.solve(matrix, k_tx.T)) + noise
            below.append(scipy.stats.t(13, means[-1], np.sqrt(scale * left)).cdf([0.5, 0.0]))
    weights = scipy.special.softmax(logs)
    return scipy.special.logsumexp(logs), weights @ np.array(means), weights @ np.array(below)


@pytest.fixture(scope="module")
def integrated():
    return integrate_evidence(wt.ScaleMixture(RBF(1.0), noise=wt.ScaledNoise(0.01)), X, Y, draws=DRAWS, keep=DRAWS)


@pytest.mark.slow
def test_like_a_sum_over_a_grid(integrated):
    log_evidence, mean, below = on_a_grid()
    dist = integrated.posterior(X, Y)(NEW)
    effective = integrated.effective["given"]
    error = np.sqrt(1 / effective - 1 / (1.25 * DRAWS))  # relative standard error of a mean of weights
    assert integrated.log_evidences["given"] == pytest.approx(log_evidence, abs=3 * error)
    np.testing.assert_allclose(dist.mean, mean, atol=0.05)
    np.testing.assert_allclose(dist.cdf(np.array([0.5, 0.0])), below, atol=0.03)
    assert effective > 60


@pytest.mark.slow
def test_wider_than_the_optimum_far_from_the_data(integrated):
    best = integrated.best.posterior(X, Y)(NEW)
    together = integrated.posterior(X, Y)(NEW)
    width = [upper - lower for lower, upper in (best.interval(0.95), together.interval(0.95))]
    assert width[1][1] > 1.1 * width[0][1]
    assert "effective draws" in str(integrated)


def test_candidates_are_weighted_by_their_evidence():
    noise = wt.ScaledNoise(0.01)
    candidates = {
        "smooth": wt.ScaleMixture(RBF(1.0), noise=noise),
        "line": wt.ScaleMixture(wt.kernels.Linear(), noise=noise),
    }
    found = integrate_evidence(candidates, X, Y, draws=16)
    shares = {name: sum(w for w, n in zip(found.weights, found.names, strict=True) if n == name) for name in candidates}
    gap = found.log_evidences["smooth"] - found.log_evidences["line"]
    assert gap > 0
    assert shares["smooth"] == pytest.approx(scipy.special.expit(gap), abs=0.02)
    assert np.sum(found.weights) == pytest.approx(1.0)


def test_a_prior_of_the_users_own_holds():
    process = wt.ScaleMixture(RBF(1.0), noise=wt.ScaledNoise(0.01))
    found = integrate_evidence(process, X, Y, draws=8, hyperpriors={"length_scale": (7.0, 1e-3)})
    assert all(p.kernel.length_scale == pytest.approx(7.0, rel=0.02) for p in found.processes)


def test_bad_arguments():
    process = wt.ScaleMixture(RBF(1.0))
    with pytest.raises(ValueError, match=r"hyperpriors: there are no fields \['lenght'\]"):
        integrate_evidence(process, X, Y, hyperpriors={"lenght": (1.0, 1.0)})
    with pytest.raises(ValueError, match="at least one process"):
        integrate_evidence({}, X, Y)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_very_few_rows(rows):
    process = wt.ScaleMixture(RBF(1.0), noise=wt.ScaledNoise(0.01))
    found = integrate_evidence(process, X[:rows], Y[:rows], draws=8)
    lower, upper = found.posterior(X[:rows], Y[:rows])(NEW).interval(0.9)
    assert np.all(np.isfinite(lower))
    assert np.all(lower < upper)
