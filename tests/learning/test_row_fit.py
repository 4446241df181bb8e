"""Learning with a scale for every row."""

import numpy as np
import pytest
import scipy.stats

import widetail as wt
from widetail.learning import learn_row_law


def data(outliers, n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-2, 2, n))[:, None]
    y = np.sin(3 * x[:, 0]) + 0.1 * rng.normal(size=n)
    bad = rng.choice(n, outliers, replace=False)
    y[bad] += 4 * rng.normal(size=outliers)
    return x, y


@pytest.mark.slow
def test_outliers_do_not_spoil_what_is_learned():
    start = wt.ScaleMixture(wt.kernels.RBF(1.0), noise=wt.RowNoise())
    clean, dirty = (wt.fit_evidence(start, *data(outliers), max_iterations=30) for outliers in (0, 10))
    lengths = [float(fit.process.kernel.length_scale) for fit in (clean, dirty)]
    assert abs(np.log(lengths[0] / lengths[1])) < 0.3
    degrees = [2 * float(fit.process.noise.prior.a) for fit in (clean, dirty)]
    assert degrees[1] < 4 < 20 < degrees[0]
    new = np.linspace(-1.8, 1.8, 20)[:, None]
    errors = [
        np.sqrt(np.mean((fit.process.posterior(*data(outliers)).f(new).mean - np.sin(3 * new[:, 0])) ** 2))
        for fit, outliers in ((clean, 0), (dirty, 10))
    ]
    assert errors[1] < 1.5 * errors[0] < 0.12
    assert "noise.prior.a" in str(dirty)
    assert dirty.log_evidence >= dirty.process.posterior(*data(10)).log_evidence - 0.5


def test_degrees_of_freedom_of_known_residuals():
    """Without a function to learn it is the likelihood of Student's t: the optimum is scipy's."""
    residuals = scipy.stats.t(4, scale=2.0).rvs(400, random_state=0)
    law, factor = learn_row_law(wt.InverseGamma(2.0, 2.0), residuals**2, np.ones(400), 1)
    df, _, scale = scipy.stats.t.fit(residuals, floc=0)
    assert np.isclose(2 * law.a, df, rtol=0.01)
    assert np.isclose(np.sqrt(factor), scale, rtol=0.01)
    point, one = learn_row_law(wt.PointMass(1.0), residuals**2, np.ones(400), 1)
    assert point.v == 1.0
    assert one == 1.0
