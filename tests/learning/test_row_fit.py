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


def test_share_of_rows_that_are_not_ordinary():
    """Residuals of which a fifth is ten times as wide: the share and the widths, to three standard errors or so."""
    rng = np.random.default_rng(0)
    residuals = 2.0 * rng.normal(size=2000) * np.where(np.arange(2000) < 400, 10.0, 1.0)
    law, factor = learn_row_law(wt.Contaminated(), residuals**2, np.ones(2000), 1)
    assert abs(law.share - 0.2) < 0.04
    assert abs(np.sqrt(factor) - 2.0) < 0.15
    assert law.far > 30
    assert law.a > 20
    law, factor = learn_row_law(wt.Contaminated(), rng.normal(size=2000) ** 2, np.ones(2000), 1)
    assert law.share < 0.01
    assert abs(factor - 1) < 0.1


def test_scales_of_rows_have_to_be_worth_it():
    """One noise variance where nothing is wrong; outliers around no function at all move the noise, and are found."""
    x, y = data(0)
    start = wt.ScaleMixture(wt.kernels.RBF(0.5), noise=wt.RowNoise(wt.Contaminated(), 0.05))
    fit = wt.fit_evidence(start, x, y, max_iterations=10)
    law = fit.process.noise.prior
    assert (law.share, law.a) == (1e-3, 500.0)
    constant = wt.fit_evidence(
        wt.ScaleMixture(wt.kernels.RBF(0.5), noise=wt.ScaledNoise(0.05)), x, y, max_iterations=10
    )
    assert np.isclose(fit.process.noise.variance, constant.process.noise.variance)
    assert np.isclose(fit.process.kernel.length_scale, constant.process.kernel.length_scale)
    nothing = np.random.default_rng(0).normal(size=60)
    nothing[[5, 30, 44]] = 20.0, -30.0, 25.0
    posterior = wt.fit_evidence(start, x, nothing, max_iterations=10).process.posterior(x, nothing)
    assert set(posterior.outliers(5.0)) == {5, 30, 44}


def shifted(n=60, seed=0):
    """A function of two inputs; a fifth of the targets is far too high."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.5, 1.5, size=(n, 2))
    y = np.sin(2 * x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=n)
    wrong = rng.choice(n, n // 5, replace=False)
    y[wrong] += 5.0
    return x, y, np.sort(wrong)


@pytest.mark.slow
def test_a_fifth_of_the_rows_is_wrong():
    x, y, wrong = shifted()
    start = wt.ScaleMixture(wt.kernels.RBF(1.0), noise=wt.RowNoise(wt.Contaminated(), 0.05))
    fit = wt.fit_evidence(start, x, y, max_iterations=30)
    posterior = fit.process.posterior(x, y)
    assert np.sort(posterior.outliers()).tolist() == wrong.tolist()
    known = wt.fit_evidence(
        wt.ScaleMixture(wt.kernels.RBF(1.0), noise=wt.ScaledNoise(0.05)),
        np.delete(x, wrong, axis=0),
        np.delete(y, wrong),
        max_iterations=30,
    ).process.posterior(np.delete(x, wrong, axis=0), np.delete(y, wrong))
    new = np.random.default_rng(1).uniform(-1.4, 1.4, size=(200, 2))
    truth = np.sin(2 * new[:, 0]) + new[:, 1]
    errors = [np.sqrt(np.mean((one.f(new).median - truth) ** 2)) for one in (posterior, known)]
    assert errors[0] < 1.1 * errors[1]


@pytest.mark.slow
def test_many_rows_are_searched_on_a_few_first():
    x, y, wrong = shifted(700, seed=1)
    start = wt.ScaleMixture(wt.kernels.RBF(1.0), noise=wt.RowNoise(wt.Contaminated(), 0.05))
    fit = wt.fit_evidence(start, x, y, max_iterations=30)
    found = fit.process.posterior(x, y).outliers()
    assert len(np.setxor1d(found, wrong)) <= 2
    assert fit.rows == 700


@pytest.mark.slow
def test_no_outliers_in_gaussian_data_whose_noise_is_learned():
    """At most one row in a hundred."""
    found = 0
    for seed in range(10):
        x, y, _ = shifted(100, seed)
        rng = np.random.default_rng(seed)
        y = np.sin(2 * x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=100)
        start = wt.ScaleMixture(wt.kernels.RBF(1.0), noise=wt.RowNoise(wt.Contaminated(), 0.05))
        found += len(wt.fit_evidence(start, x, y, max_iterations=20).process.posterior(x, y).outliers())
    assert found <= 10


@pytest.mark.parametrize(
    "targets",
    [
        np.array([1.0, -1.0]),
        pytest.param(1e6 * (-1.0) ** np.arange(12), marks=pytest.mark.slow),
        pytest.param(np.zeros(12), marks=pytest.mark.slow),
    ],
)
def test_hopeless_rows_end_clearly(targets):
    """Two rows; all rows outliers; nothing to explain."""
    x = np.linspace(-1.0, 1.0, len(targets))[:, None]
    start = wt.ScaleMixture(wt.kernels.RBF(1.0), noise=wt.RowNoise(wt.Contaminated(), 0.05))
    fit = wt.fit_evidence(start, x, targets, max_iterations=5)
    posterior = fit.process.posterior(x, targets)
    assert np.isfinite(fit.log_evidence)
    assert np.all(np.isfinite(posterior.noise_weights))
    assert np.all(np.isfinite(posterior(x).quantile(0.9)))


@pytest.mark.slow
def test_whole_numbers_do_not_make_a_majority_of_outliers():
    """Three values, of which no function of the inputs knows; one value has four rows of ten."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100, 3)), rng.choice([5.0, 6.0, 7.0], 100, p=[0.45, 0.4, 0.15])
    start = wt.ScaleMixture(wt.kernels.RBF(1.0), noise=wt.RowNoise(wt.Contaminated(), 0.05))
    fit = wt.fit_evidence(start, x, (y - 6) / np.std(y), max_iterations=30)
    assert len(fit.process.posterior(x, (y - 6) / np.std(y)).outliers()) <= 40
