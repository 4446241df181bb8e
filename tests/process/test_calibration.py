"""Simulation-based calibration: draw from the model, fit, and the truth has a uniform rank."""

import jax
import numpy as np
import pytest
import scipy.stats

import widetail as wt

CASES = {
    "closed": (wt.InverseGamma(3.0, 2.0), wt.ScaledNoise(0.1), "closed"),
    "quadrature": (wt.LogNormal(0.0, 0.8), wt.ScaledNoise(0.1), "quadrature"),
    "independent": (wt.InverseGamma(3.0, 2.0), wt.IndependentNoise(0.1), "auto"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_ranks_are_uniform(case):
    """300 draws of scale, function and noise; chi-square over 10 bins for the scale and for a new target, at 0.1 %."""
    prior, noise, method = CASES[case]
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, size=(12, 1))
    chol = np.linalg.cholesky(wt.kernels.RBF().kernel(x, get="nngp").nngp + 1e-10 * np.eye(12))
    scales = np.asarray(prior.sample(jax.random.key(0), (300,)))
    process = wt.ScaleMixture(wt.kernels.RBF(), prior, noise)
    scale_ranks, target_ranks = [], []
    for beta in scales:
        std = np.sqrt(0.1 * (beta if isinstance(noise, wt.ScaledNoise) else 1.0))
        y = np.sqrt(beta) * chol @ rng.normal(size=12) + std * rng.normal(size=12)
        posterior = process.posterior(x[:11], y[:11], method)
        scale_ranks.append(float(posterior.scale.cdf(beta)))
        target_ranks.append(float(posterior(x[11:]).cdf(y[11:])[0]))
    for ranks in (scale_ranks, target_ranks):
        counts = np.histogram(ranks, bins=10, range=(0, 1))[0]
        assert scipy.stats.chisquare(counts).pvalue > 1e-3
