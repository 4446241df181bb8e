"""Simulation-based calibration: hyperparameters, scale and data are drawn from the priors, and what is integrated must
be right on average over them.
"""

import numpy as np
import pytest
import scipy.stats

import widetail as wt
from widetail.kernels import Anova
from widetail.learning import HYPERPRIORS, integrate_evidence

REPEATS = 160
ROWS = 8


def simulated(seed):
    """Rows with targets, a further row with its target, and the true log of the length; one feature."""
    rng = np.random.default_rng(seed)
    truth = {name: median * np.exp(spread * rng.normal()) for name, (median, spread) in HYPERPRIORS.items()}
    x = rng.uniform(-1.7, 1.7, (ROWS + 1, 1))
    a = truth["part_var"]
    matrix = (1 + a * np.exp(-0.5 * ((x - x.T) / truth["length_scale"]) ** 2)) / (1 + a)
    beta = 1 / rng.gamma(2.0, 1 / 2.0)  # inverse gamma (2, 2)
    root = np.linalg.cholesky(beta * (matrix + (truth["noise"] + 1e-12) * np.eye(ROWS + 1)))
    return x, root @ rng.normal(size=ROWS + 1), np.log(truth["length_scale"])


@pytest.fixture(scope="module")
def ranks():
    """Where the new target and the true length fall: under the mixture, and under the optimum alone."""
    found = {"mixture": [], "optimum": [], "length": []}
    start = wt.ScaleMixture(Anova(np.array([3.0]), np.array([0.15])), noise=wt.ScaledNoise(2e-3))
    for seed in range(REPEATS):
        x, y, length = simulated(seed)
        integrated = integrate_evidence(start, x[:ROWS], y[:ROWS], draws=64, seed=seed)
        found["mixture"].append(integrated.posterior(x[:ROWS], y[:ROWS])(x[ROWS:]).cdf(y[ROWS:])[0])
        found["optimum"].append(integrated.best.posterior(x[:ROWS], y[:ROWS])(x[ROWS:]).cdf(y[ROWS:])[0])
        drawn = np.log([process.kernel.length_scale[0] for process in integrated.processes])
        found["length"].append(integrated.weights @ (drawn < length))
    return {name: np.array(values) for name, values in found.items()}


def inside(ranks, coverage):
    return np.mean(np.abs(2 * ranks - 1) <= coverage)


@pytest.mark.slow
def test_new_targets_fall_anywhere_in_their_distribution(ranks):
    assert scipy.stats.kstest(ranks["mixture"], "uniform").pvalue > 0.01
    for coverage in (0.5, 0.9):
        error = np.sqrt(coverage * (1 - coverage) / REPEATS)
        assert abs(inside(ranks["mixture"], coverage) - coverage) < 3 * error


@pytest.mark.slow
def test_hyperparameters_fall_anywhere_in_theirs(ranks):
    """Weights of 64 draws jump by more than a hundredth: compared in tenths."""
    counts = np.histogram(ranks["length"], 5, (0, 1))[0]
    assert scipy.stats.chisquare(counts).pvalue > 0.01


@pytest.mark.slow
def test_the_optimum_alone_is_too_sure(ranks):
    assert inside(ranks["optimum"], 0.9) < inside(ranks["mixture"], 0.9) - 0.02
