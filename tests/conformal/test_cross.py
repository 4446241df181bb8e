"""CV+ against intervals that are put together by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail.predictive import Normal

rng = np.random.default_rng(5)
X = rng.normal(size=(13, 1))
Y = 2.0 * X[:, 0] + rng.normal(size=13)
X_NEW = np.array([[0.3], [-2.0]])


def line(rows):
    """Least squares, with a spread that grows with x."""
    slope, shift = np.polyfit(X[rows, 0], Y[rows], 1)
    return lambda x: Normal(slope * x[:, 0] + shift, (1.0 + x[:, 0] ** 2) ** 2)


def test_by_hand():
    fits = wt.conformal.CrossFits.fit(line, X, Y, folds=4, seed=1)
    assert sorted(map(len, fits.held_out)) == [3, 3, 3, 4]
    assert_allclose(np.sort(np.concatenate(fits.held_out)), np.arange(13))
    lower, upper = fits.interval(X_NEW, 0.8)
    ends = []
    for fold in fits.held_out:
        rest = [row for row in range(13) if row not in fold]
        slope, shift = np.polyfit(X[rest, 0], Y[rest], 1)
        for row in fold:
            score = abs(Y[row] - slope * X[row, 0] - shift) / (1 + X[row, 0] ** 2)
            middle, width = slope * X_NEW[:, 0] + shift, score * (1 + X_NEW[:, 0] ** 2)
            ends.append((middle - width, middle + width))
    below, above = np.sort(np.array(ends), axis=0).transpose(1, 0, 2)
    assert_allclose(lower, below[1])  # floor(0.2 * 14) = 2 of the ends are left out
    assert_allclose(upper, above[-2])


def test_as_many_folds_as_rows_is_jackknife_plus():
    """With a process that is given, relearning without a row is leaving it out."""
    process = wt.ScaleMixture(lambda a, b: a @ b.T, wt.PointMass(1.0), wt.ScaledNoise(0.5))
    fits = wt.conformal.CrossFits.fit(lambda rows: process.posterior(X[rows], Y[rows]), X, Y, folds=50)
    expected = wt.conformal.jackknife_plus(process.posterior(X, Y), X_NEW, 0.8)
    assert_allclose(fits.interval(X_NEW, 0.8), expected, atol=1e-9)


def test_groups_and_outputs():
    both = np.stack([Y, 10.0 - Y], axis=1)

    def two(rows):
        process = wt.ScaleMixture(lambda a, b: a @ b.T, wt.PointMass(1.0), wt.ScaledNoise(0.5))
        return process.posterior(X[rows], both[rows])

    labels = np.arange(13) % 2
    fits = wt.conformal.CrossFits.fit(two, X, both, folds=4)
    lower, upper = fits.interval(X_NEW, 0.7, groups=(labels, np.array([0, 1])))
    assert lower.shape == upper.shape == (2, 2)
    assert np.all(lower < upper)
    with pytest.warns(UserWarning, match="2 has 0"):
        lower, upper = fits.interval(X_NEW, 0.7, groups=(labels, np.array([0, 2])))
    assert np.isinf(lower).tolist() == [[False, False], [True, True]]


def test_worst_case_is_the_published_bound():
    fits = wt.conformal.CrossFits.fit(line, X[:12], Y[:12], folds=4)
    first, second = 2 * (1 - 1 / 4) / (12 / 4 + 1), (1 - 4 / 12) / (4 + 1)
    assert fits.worst_case(0.9) == pytest.approx(1 - 0.2 - min(first, second))
    assert fits.worst_case(0.9) >= 1 - 0.2 - np.sqrt(2 / 12)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="folds must be an integer of at least 2; got 1"):
        wt.conformal.CrossFits.fit(line, X, Y, folds=1)
    with pytest.raises(ValueError, match="two rows at least"):
        wt.conformal.CrossFits.fit(line, X[:1], Y[:1])
