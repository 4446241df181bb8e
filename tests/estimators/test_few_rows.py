"""The regressor with few rows: hyperparameters integrated out, candidates averaged, hard cases."""

import copy

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

import widetail as wt
from widetail import predictive
from widetail.datasets import FUNCTIONS
from widetail.learning import WeightedPosterior


@pytest.fixture(scope="module")
def sums():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (130, 4))
    y = 30 + 5 * (np.sin(3 * x[:, 0]) + x[:, 1] ** 2) + 0.2 * rng.normal(size=130)
    return wt.ScaleMixtureRegressor(max_iterations=30).fit(x[:40], y[:40]), x[40:], y[40:]


def test_forty_rows_are_enough_for_a_sum(sums):
    model, x, y = sums
    assert model.architecture_.startswith("sum over")
    assert model.score(x, y) > 0.95
    lower, upper = model.predict_interval(x, 0.9)
    assert 0.8 < np.mean((lower < y) & (y < upper)) <= 1
    assert sum(model.integrated_.shares.values()) == pytest.approx(1.0)
    assert set(model.integrated_.effective) == set(model.integrated_.shares)
    assert model.evidence_fit_ is None


def test_predicts_with_all_processes_together(sums):
    model, x, _ = sums
    parts = [
        posterior.f((x - model.x_scaling_.shift) / model.x_scaling_.factor) for posterior in model._mixture.posteriors
    ]
    mean = sum(w * np.asarray(part.mean) for w, part in zip(model.integrated_.weights, parts, strict=True))
    assert_allclose(model.predict(x), model.y_scaling_.shift[0] + model.y_scaling_.factor[0] * mean)


def test_saved_and_loaded(sums, tmp_path):
    model, x, y = sums
    model.save(tmp_path / "model.widetail")
    loaded = wt.load(tmp_path / "model.widetail")
    assert_allclose(loaded.predict(x), model.predict(x), rtol=1e-12)
    assert loaded.log_score(x, y) == pytest.approx(model.log_score(x, y))
    assert loaded.integrated_.shares == pytest.approx(model.integrated_.shares)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.ones((1, 2)), np.array([3.0])),
        (np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1.0, 2.0])),
        (np.arange(6.0).reshape(3, 2), np.array([1.0, -1.0, 5.0])),
        (np.arange(12.0).reshape(6, 2), np.full(6, 4.0)),
        (np.repeat(np.arange(4.0)[:, None], 3, axis=0) * np.ones(2), np.arange(12.0) % 5),
    ],
    ids=["one row", "two rows", "three rows", "constant y", "equal rows"],
)
def test_hard_cases_have_finite_intervals(x, y):
    model = wt.ScaleMixtureRegressor(max_iterations=5).fit(x, y)
    lower, upper = model.predict_interval(x + 0.1, 0.9)
    assert np.all(np.isfinite(lower))
    assert np.all(lower < upper)
    assert np.all(np.isfinite(model.predict(x)))


def test_one_row_is_as_unsure_in_every_unit():
    x = np.zeros((1, 2))
    ends = [
        wt.ScaleMixtureRegressor(net=wt.kernels.RBF(), learn=False).fit(x, [y]).predict_interval(x + 1.0)
        for y in (5.0, 5000.0)
    ]
    np.testing.assert_allclose(ends[1], 1000 * np.array(ends[0]))


@pytest.mark.slow
def test_more_features_than_rows_and_several_outputs():
    x = np.random.default_rng(0).normal(size=(8, 20))
    y = np.stack([x[:, 0], -x[:, 1]], axis=1)
    model = wt.ScaleMixtureRegressor(max_iterations=5).fit(x, y)
    lower, upper = model.predict_interval(x, 0.9)
    assert lower.shape == (8, 2)
    assert np.all(np.isfinite(lower))
    assert np.all(lower < upper)


def test_never_integrates_with_zero_rows():
    x = np.linspace(-1.0, 1.0, 12)[:, None]
    with pytest.raises(ValueError, match="integrate_rows must be an integer"):
        wt.ScaleMixtureRegressor(integrate_rows=-1).fit(x, x[:, 0])
    given = wt.ScaleMixtureRegressor(net=wt.kernels.RBF() + wt.kernels.RBF(), max_iterations=5).fit(x, x[:, 0])
    assert given.integrated_ is None
    assert np.all(np.isfinite(given.predict(x)))


def test_a_map_must_be_worth_it_where_pairs_are_learned_too():
    """Dixon-Price is a sum over pairs as it is; a logarithm looks better as long as sums are learned roughly."""
    x, y, _, _ = FUNCTIONS["dixon_price"].draw(220, 4, noise=0.005, seed=100)
    model = wt.ScaleMixtureRegressor(net=wt.kernels.RBF(2.0), max_iterations=1, calibrate=False).fit(x, y)
    assert model.target_.describe() == "real"


def test_left_out_is_what_refitting_without_the_row_says():
    """Weights and locations of two fixed processes, conditioned anew without each row."""
    rng = np.random.default_rng(3)
    x = np.linspace(-1.5, 1.5, 30)[:, None]
    y = np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=30)
    processes = [wt.ScaleMixture(wt.kernels.RBF(length), noise=wt.ScaledNoise(0.1)) for length in (0.5, 2.0)]

    def together(rows):
        posteriors = [process.posterior(x[rows], y[rows]) for process in processes]
        weights = np.exp([posterior.log_evidence for posterior in posteriors])
        return WeightedPosterior(posteriors, weights / weights.sum())

    whole = together(np.arange(30)).left_out()
    medians = [float(together(np.delete(np.arange(30), i))(x[[i]]).median[0]) for i in range(30)]
    # the readout scale of each process is that of all rows: of thirty, next to that of twenty-nine
    assert_allclose(whole.location, medians, atol=0.03)


def test_quantiles_of_mixtures_invert_their_distribution_function():
    rng = np.random.default_rng(1)
    locations, widths = rng.normal(size=(5, 30)) * 10, np.exp(rng.normal(size=(5, 30)) * 2)
    degrees, weights = np.array([0.7, 2.0, 5.0, 30.0, 500.0]), np.array([0.5, 0.2, 0.1, 0.1999, 1e-4])
    dist = predictive.Weighted(
        [predictive.StudentT(*law) for law in zip(degrees, locations, widths**2, strict=True)], weights
    )
    for level in (1e-9, 0.025, 0.5, 0.9, 1 - 1e-6):
        point = dist.quantile(level)
        below = weights @ scipy.stats.t.cdf(point, degrees[:, None], locations, widths)
        assert_allclose(below, level, rtol=1e-7)


def test_effects_of_features_are_the_parts_of_the_sum(sums):
    """y = 5 sin(3 x0) + 5 x1^2: what each adds, less its mean; the last two features add next to nothing."""
    model, x, _ = sums
    fitted = np.asarray(model.posterior.x) * model.x_scaling_.factor + model.x_scaling_.shift
    for feature, function in ((0, lambda v: 5 * np.sin(3 * v)), (1, lambda v: 5 * v**2), (3, np.zeros_like)):
        expected = function(x[:, feature]) - np.mean(function(fitted[:, feature]))
        dist = model.predict_effect(x, feature)
        assert_allclose(dist.median, expected, atol=1.2)
        lower, upper = dist.interval(0.99)
        assert np.mean((lower <= expected) & (expected <= upper)) > 0.9
    with pytest.raises(ValueError, match="numbers from 0 to 3"):
        model.predict_effect(x, "age")


def test_a_network_has_no_effects_of_features():
    x = np.linspace(-1.0, 1.0, 12)[:, None]
    model = wt.ScaleMixtureRegressor(net=wt.kernels.RBF(), learn=False).fit(x, x[:, 0])
    with pytest.raises(ValueError, match=r"no part of what was fitted \(given\)"):
        model.predict_effect(x, 0)


@pytest.fixture(scope="module")
def classes():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(540, 3))
    y = np.where(x[:, 0] ** 2 + 0.3 * rng.normal(size=540) > 1, "out", "in")
    return wt.ScaleMixtureClassifier(max_iterations=15).fit(x[:40], y[:40]), x[40:], y[40:]


def test_a_classifier_averages_too(classes, tmp_path):
    model, x, y = classes
    assert len(model.integrated_.processes) > 1
    assert model.score(x, y) > 0.85
    found = model.predict_proba(x)
    assert_allclose(found.sum(axis=1), 1.0)
    assert -model.log_score(x, y) < 0.5
    model.save(tmp_path / "model.widetail")
    assert_allclose(wt.load(tmp_path / "model.widetail").predict_proba(x), found)


@pytest.mark.slow
def test_a_classifier_averages_probabilities_of_the_largest(classes):
    model, x, _ = classes
    model = copy.copy(model)
    model.probabilities = "largest"
    parts = []
    for process in model.integrated_.processes:
        one = copy.copy(model)
        one.integrated_, one.weighted_posterior_ = None, None
        one.posterior_ = process.posterior(model.posterior.x, model.posterior.y)
        parts.append(one.predict_proba(x[:5]))
    assert_allclose(model.predict_proba(x[:5]), np.tensordot(model.integrated_.weights, parts, 1))


def test_a_classifier_that_never_averages():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 2))
    model = wt.ScaleMixtureClassifier(max_iterations=3, integrate_rows=0).fit(x, x[:, 0] > 0)
    assert model.integrated_ is None
    with pytest.raises(ValueError, match="integrate_rows must be an integer"):
        wt.ScaleMixtureClassifier(integrate_rows=-1).fit(x, x[:, 0] > 0)
