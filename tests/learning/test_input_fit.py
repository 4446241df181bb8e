"""Learning the network of the noise: its gradient against differences, and what it finds."""

import numpy as np
import pytest

import widetail as wt
from tests.process.test_input_noise import data, log_variance
from widetail.learning import learn_noise_field
from widetail.process import FieldLaw


def objective(length, spread, x, misfit):
    matrix = spread * np.asarray(wt.kernels.RBF(length).kernel(x, get="nngp").nngp, float)
    return FieldLaw.of(matrix, misfit, np.full(len(x), 0.5)).objective


def test_the_learned_numbers_are_an_optimum():
    """No neighbour on a grid is better: gradients that were wrong would have stopped elsewhere."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-2, 2, 120))[:, None]
    misfit = np.exp(2.0 * np.sin(2.0 * x[:, 0])) * rng.chisquare(1, 120)
    start = wt.InputNoise(wt.kernels.RBF(2.0), 0.1, 0.5)
    matrix = 0.5 * np.asarray(start.net.kernel(x, get="nngp").nngp, float)
    law = FieldLaw.of(matrix, misfit, np.full(120, 0.5))
    model, learned, found = learn_noise_field(start, x, law, np.ones(120), 1, iterations=60)
    length, spread = float(model.net.length_scale), float(model.spread)
    assert [name for name, _, _ in learned] == ["noise.net.length_scale", "noise.spread"]
    assert found.objective > law.objective + 1
    best = objective(length, spread, x, misfit)
    for a, b in ((1.1, 1.0), (0.9, 1.0), (1.0, 1.2), (1.0, 0.8)):
        assert objective(a * length, b * spread, x, misfit) < best + 1e-4


@pytest.mark.parametrize("rows", [None, pytest.param(wt.InverseGamma(2.0, 2.0), marks=pytest.mark.slow)])
def test_everything_is_learned_together(rows):
    x, y = data(150, seed=3)
    constant = wt.fit_evidence(wt.ScaleMixture(wt.kernels.RBF(1.0), noise=wt.ScaledNoise(0.1)), x, y)
    noise = wt.InputNoise(wt.kernels.RBF(1.5), 0.1, rows=rows)
    fit = wt.fit_evidence(wt.ScaleMixture(wt.kernels.RBF(1.0), noise=noise), x, y)
    assert fit.log_evidence > constant.log_evidence + 15
    assert {"noise.variance", "noise.spread"} <= {name for name, _, _ in fit.learned}
    posterior = fit.process.posterior(x, y)
    assert np.isclose(posterior.log_evidence, fit.log_evidence, atol=0.05)
    mean, _ = posterior.log_noise(x)
    assert np.corrcoef(mean, log_variance(x))[0, 1] > 0.9
