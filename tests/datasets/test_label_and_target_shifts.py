import numpy as np
import pytest
from scipy import stats

from widetail.datasets import shifts

LABELS = np.tile(np.arange(1, 11), 500)


def test_classes_left_out():
    rows = shifts.rows_without(LABELS, {3, 10})
    assert set(LABELS[rows]) == {1, 2, 4, 5, 6, 7, 8, 9}
    assert rows.size == 4000
    np.testing.assert_array_equal(rows, np.sort(rows))
    assert shifts.rows_without(LABELS, ()).size == LABELS.size
    with pytest.raises(ValueError, match=r"\[0, 11\] do not"):
        shifts.rows_without(LABELS, [0, 11, 3])


def test_exponential_imbalance():
    rows = shifts.rows_with_imbalance(LABELS, 0.01, seed=0)
    counts = np.bincount(LABELS[rows])[1:]
    np.testing.assert_array_equal(counts, np.rint(500 * 0.01 ** (np.arange(10) / 9)))
    assert np.unique(rows).size == rows.size
    np.testing.assert_array_equal(rows, shifts.rows_with_imbalance(LABELS, 0.01, seed=0))
    np.testing.assert_array_equal(shifts.rows_with_imbalance(LABELS, 1.0, seed=0), np.arange(LABELS.size))
    assert np.bincount(LABELS[shifts.rows_with_imbalance(LABELS, 1e-9, seed=0)])[10] == 1
    with pytest.raises(ValueError, match=r"ratio must lie in \(0, 1\], got 2"):
        shifts.rows_with_imbalance(LABELS, 2.0, seed=0)


def test_label_noise_is_uniform_over_the_other_classes():
    noisy = shifts.with_label_noise(LABELS, 0.4, seed=0)
    wrong = noisy != LABELS
    assert wrong.mean() == pytest.approx(0.4, abs=5 * np.sqrt(0.24 / LABELS.size))
    steps = np.bincount((noisy - LABELS)[wrong] % 10, minlength=10)
    assert steps[0] == 0
    assert stats.chisquare(steps[1:]).pvalue > 1e-3
    np.testing.assert_array_equal(shifts.with_label_noise(LABELS, 0.0, seed=0), LABELS)
    assert (shifts.with_label_noise(LABELS, 1.0, seed=0) != LABELS).all()
    with pytest.raises(ValueError, match="rate must lie in"):
        shifts.with_label_noise(LABELS, -0.1, seed=0)
    with pytest.raises(ValueError, match="at least 2 classes"):
        shifts.with_label_noise(np.zeros(4, int), 0.5, seed=0)


def test_outliers():
    y = np.random.default_rng(0).normal(3.0, 2.0, 1000)
    spoilt, moved = shifts.with_outliers(y, 0.05, size=7.0, seed=1)
    assert moved.sum() == 50
    np.testing.assert_array_equal(spoilt[~moved], y[~moved])
    np.testing.assert_allclose(np.abs(spoilt - y)[moved], 7 * y.std())
    assert 10 < (spoilt > y).sum() < 40
    with pytest.raises(ValueError, match="fraction must lie in"):
        shifts.with_outliers(y, 1.5, seed=0)
    with pytest.raises(ValueError, match="size must be positive, got 0"):
        shifts.with_outliers(y, 0.1, size=0.0, seed=0)


def test_heavy_tailed_noise_is_student_t():
    y = np.random.default_rng(0).normal(3.0, 2.0, 5000)
    noise = (shifts.with_heavy_tailed_noise(y, 1.5, scale=0.2, seed=1) - y) / (0.2 * y.std())
    assert stats.kstest(noise, stats.t(1.5).cdf).pvalue > 1e-3
    with pytest.raises(ValueError, match="df must be positive"):
        shifts.with_heavy_tailed_noise(y, 0.0, seed=0)
