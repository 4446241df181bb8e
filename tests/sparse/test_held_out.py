"""Laws that are held at a scale, and what held-out rows choose."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

import widetail as wt
from widetail import sparse
from widetail.sparse import CachedRows, choose_residual_share, choose_scale, law_for
from widetail.sparse._rows import log_scores

from .problems import PRIORS, cached, inputs, scattered, start


def fit_of_scale(t):
    """A concave function of the logarithm with its maximum far from where laws are held."""
    return -40.0 * (t + 1.0) ** 2 - 10.0 * np.exp(t)


@pytest.mark.parametrize("name", list(PRIORS))
def test_a_held_law_stays_where_it_is(name):
    law = law_for(PRIORS[name]).held_at(2.5)
    assert_allclose(law.mean_precision, 0.4, rtol=1e-6)
    for _ in range(6):
        law = law.improved(fit_of_scale, 7.0)
    assert_allclose(law.mean_precision, 0.4, rtol=1e-5)
    again = law_for(PRIORS[name]).restored(law.facts())
    assert_allclose(again.improved(fit_of_scale, 7.0).mean_precision, 0.4, rtol=1e-5)


@pytest.mark.parametrize("name", ["inverse gamma", "log-normal"])
def test_a_held_law_is_the_best_of_those_with_its_centre(name):
    law = law_for(PRIORS[name]).held_at(2.5)
    for _ in range(12):
        law = law.improved(fit_of_scale, 7.0)
    best = law.objective(fit_of_scale, 7.0)
    if name == "inverse gamma":
        others = [
            sparse.InverseGammaScale(law.a * f, law.b * f, law.prior_a, law.prior_b) for f in (0.7, 0.95, 1.05, 1.4)
        ]
    else:
        rng = np.random.default_rng(0)
        kept = law.weights > 0
        directions = rng.normal(size=(4, kept.sum()))
        # changes that keep the sum of the weights and the expectation of one over the scale
        constraints = np.stack([np.ones(kept.sum()), np.exp(-law.log_scales[kept])])
        directions -= directions @ np.linalg.pinv(constraints) @ constraints
        others = []
        for direction in directions:
            weights = law.weights.copy()
            weights[kept] += 0.1 * direction * np.min(weights[kept] / np.abs(direction))
            others.append(sparse.GridScale(law.log_scales, law.log_prior, weights))
    for other in others:
        assert_allclose(other.mean_precision, law.mean_precision, rtol=1e-6)
        assert other.objective(fit_of_scale, 7.0) < best + 1e-9


def test_a_grid_says_where_it_ends():
    with pytest.raises(ValueError, match="within the grid"):
        law_for(PRIORS["log-normal"]).held_at(1e12)


def test_log_scores_against_an_integral():
    """Bernoulli by scipy's quadrature over f at a known scale; the law of a Gaussian by its closed form."""
    x = inputs(6)
    y = np.array([[0.0], [1.0]] * 3)
    q = scattered(start(PRIORS["point"], 1, 4))
    rows = cached(x, y, x[:4])
    mean, variance = rows.features @ q.mean[0], sparse.variances(rows, q)[:, 0] * q.law.value
    found = log_scores(rows, q, sparse.Bernoulli())
    for number in range(6):
        sd = np.sqrt(max(variance[number], 1e-12))
        p, _ = quad(lambda z, m=mean[number], s=sd: expit(m + s * z) * norm.pdf(z), -10, 10)
        assert_allclose(found[number], np.log(p if y[number, 0] else 1 - p), rtol=1e-6)
    gaussian = log_scores(rows, q, sparse.Gaussian(0.1, scaled=False))
    assert_allclose(gaussian, norm.logpdf(y[:, 0], mean, np.sqrt(variance + 0.1)), rtol=1e-6)


@pytest.fixture(scope="module")
def sparse_classes():
    """Few inducing inputs for what there is to see: much of the variance is left open."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (600, 2))
    labels = (np.sin(3 * x[:, :1]) * np.sin(3 * x[:, 1:]) > 0).astype(float)
    features, residual = sparse.Whitening.of(wt.kernels.RBF(0.5), x[:20]).features(x)
    rows = CachedRows.of(features, residual, labels)
    return rows.first(400), rows.after(400)


def test_what_held_out_rows_choose(sparse_classes):
    rows, held_out = sparse_classes
    q = start(wt.PointMass(1.0), 1, 20, learn=True)
    choice = choose_scale(rows, held_out, sparse.Bernoulli(), q, max_iterations=8)
    scores = {scale: score for _, scale, score in choice.tried}
    assert choice.score == max(scores.values())
    assert choice.scale is not None
    assert_allclose(1 / choice.start.law.mean_precision, choice.scale)
    nearest = min(scores, key=lambda scale: abs(np.log(scale / choice.scale)))
    assert scores[nearest] == choice.score
    share = choose_residual_share(rows, held_out, sparse.Bernoulli(), q, max_iterations=8)
    (_, _, kept), (_, _, without) = share.tried
    assert share.residual_share == 0.0
    assert without > kept
    assert share.scale is None


def test_without_a_clear_difference_the_open_variance_is_kept():
    x = inputs(60)
    rows = cached(x, (x > 0).astype(float), x)  # nothing is left open
    choice = choose_residual_share(
        rows.first(30), rows.after(30), sparse.Bernoulli(), start(PRIORS["point"], 1, 60), max_iterations=3
    )
    assert choice.residual_share == 1.0


@pytest.mark.slow
def test_estimators_choose(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (1500, 2))
    y = np.sin(3 * x[:, 0]) * np.sin(3 * x[:, 1]) > 0
    options = {"net": wt.kernels.RBF(0.5), "inducing": 25, "learn": False}

    def training(**given):
        return sparse.TrainingOptions(max_iterations=10, **given)

    for prior in (wt.PointMass(1.0), wt.InverseGamma(2.0, 2.0)):
        model = wt.SparseMixtureClassifier(prior=prior, options=training(), **options).fit(x[:1200], y[:1200])
        assert model.choice_.residual_share == model.model_.residual_share == 0.0
        plain = wt.SparseMixtureClassifier(prior=prior, options=training(residual_share=1.0), **options)
        plain.fit(x[:1200], y[:1200])
        held = wt.SparseMixtureClassifier(
            prior=prior, options=training(residual_share=1.0, scale="held_out"), **options
        )
        held.fit(x[:1200], y[:1200])
        scores = [fitted.log_score(x[1200:], y[1200:]) for fitted in (plain, held, model)]
        assert scores[0] < scores[2]
        assert scores[0] <= scores[1] + 0.01
        model.save(tmp_path / "model")
        assert np.array_equal(wt.load(tmp_path / "model").predict_proba(x), model.predict_proba(x))
        held.save(tmp_path / "held")
        more = wt.load(tmp_path / "held").partial_fit(x[1200:], y[1200:])
        assert_allclose(more.model_.q.law.mean_precision, held.model_.q.law.mean_precision, rtol=1e-4)


@pytest.mark.parametrize(
    "prior", [wt.InverseGamma(2.0, 2.0), wt.PointMass(1.0), wt.HalfCauchy(1.0)], ids=lambda one: type(one).__name__
)
def test_the_scale_is_held_at_a_number(prior):
    x = np.linspace(-1.0, 1.0, 24)[:, None]
    options = sparse.TrainingOptions(scale=9.0, residual_share=1.0)
    model = sparse.fit(wt.kernels.RBF(), prior, sparse.Bernoulli(), x, (x > 0) * 1.0, inducing=8, options=options)
    assert_allclose(1 / model.q.law.mean_precision, 9.0, rtol=1e-6)


@pytest.mark.parametrize("scale", [-1.0, 0.0, float("inf"), "large"])
def test_scales_that_are_none(scale):
    with pytest.raises(ValueError, match="scale must be"):
        sparse.TrainingOptions(scale=scale)
