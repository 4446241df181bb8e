"""Scores against scikit-learn and against loops."""

import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

from widetail import metrics


def forecasts(seed=0, n=400, classes=7):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(classes, 0.4), n)
    labels = np.array([rng.choice(classes, p=row) for row in p])
    return p, labels


def test_against_scikit_learn():
    p, labels = forecasts()
    assert metrics.nll_from_probabilities(p, labels) == pytest.approx(sk.log_loss(labels, p))
    assert metrics.accuracy(p, labels) == sk.accuracy_score(labels, p.argmax(axis=1))
    assert metrics.brier(p, labels) == pytest.approx(sk.brier_score_loss(labels, p, scale_by_half=False))


def test_two_classes_count_both_columns():
    p, labels = forecasts(classes=2)
    one_column = sk.brier_score_loss(labels, p[:, 1], scale_by_half=True)
    assert metrics.brier(p, labels) == pytest.approx(2 * one_column)


def test_float32_from_jax():
    p, labels = forecasts()
    value = metrics.nll_from_probabilities(jnp.asarray(p, jnp.float32), jnp.asarray(labels))
    assert value == pytest.approx(sk.log_loss(labels, p), rel=1e-5)


def test_a_true_class_of_probability_zero_costs_everything():
    assert metrics.nll_from_probabilities(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([1, 0])) == np.inf


@given(seed=st.integers(0, 1000), bins=st.integers(1, 30), n=st.integers(1, 60))
def test_ece_against_loops(seed, bins, n):
    p, labels = forecasts(seed, n=n, classes=3)
    expected = 0.0
    for k in range(bins):
        inside = [i for i in range(n) if k / bins < p[i].max() <= (k + 1) / bins]
        if inside:
            confidence = np.mean([p[i].max() for i in inside])
            right = np.mean([p[i].argmax() == labels[i] for i in inside])
            expected += len(inside) / n * abs(confidence - right)
    assert metrics.ece(p, labels, bins=bins) == pytest.approx(expected)


def test_reliability_bins():
    p = np.array([[1.0, 0.0], [0.95, 0.05], [0.5, 0.5], [0.3, 0.7]])
    result = metrics.reliability(p, np.array([0, 1, 1, 1]), bins=10)
    np.testing.assert_array_equal(result.counts, [0, 0, 0, 0, 1, 0, 1, 0, 0, 2])
    np.testing.assert_allclose(result.confidence[[4, 6, 9]], [0.5, 0.7, 0.975])
    np.testing.assert_allclose(result.accuracy[[4, 6, 9]], [0, 1, 0.5])
    assert np.isnan(result.accuracy[0])


def test_calibrated_forecasts_have_little_ece():
    p, labels = forecasts(n=20_000)
    assert metrics.ece(p, labels) < 0.02


def test_auroc_against_scikit_learn_with_ties():
    rng = np.random.default_rng(0)
    inside, outside = rng.integers(0, 10, 300), rng.integers(3, 14, 200)
    truth = np.repeat([0, 1], [300, 200])
    expected = sk.roc_auc_score(truth, np.concatenate([inside, outside]))
    assert metrics.auroc(inside, outside) == pytest.approx(expected)
    assert metrics.auroc(outside, inside) == pytest.approx(1 - expected)
    assert metrics.auroc(np.zeros(3), np.ones(4)) == 1.0


def test_entropy_against_scipy():
    p, _ = forecasts()
    p[0] = np.eye(7)[2]
    np.testing.assert_allclose(metrics.predictive_entropy(p), stats.entropy(p, axis=1), atol=1e-12)


def test_bad_input_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as users have it
    p, labels = forecasts(n=20)
    with pytest.raises(ValueError, match="for two classes pass both columns"):
        metrics.accuracy(p[:, 0], labels)
    with pytest.raises(ValueError, match="Pass logits through a softmax"):
        metrics.brier(p * 3, labels)
    with pytest.raises(ValueError, match="labels must be 20 integers"):
        metrics.accuracy(p, labels[:4])
    with pytest.raises(ValueError, match=r"0 to 6, got 1 to \d; subtract the smallest label"):
        metrics.accuracy(p, np.full(20, 7) - (np.arange(20) == 0) * 6)
    with pytest.raises(ValueError, match="bins must be at least 1"):
        metrics.ece(p, labels, bins=0)
    with pytest.raises(ValueError, match="one score per point"):
        metrics.auroc(p, labels)
