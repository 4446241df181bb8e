"""The guarantees, by simulation on data that the model is wrong about."""

import numpy as np
import pytest

import widetail as wt

N, COVERAGE = 24, 0.8


def wrong_data(rng, n):
    """Jumps, skewed noise that grows with x, a feature that matters not: nothing that a smooth process expects."""
    x = rng.uniform(-2.0, 2.0, size=(n, 2))
    noise = (rng.exponential(size=n) - 1.0) * np.exp(x[:, 0])
    return x, np.sign(x[:, 0]) * 3.0 + noise


def smooth(first, second):
    return np.exp(-0.5 * np.sum((first[:, None] - second[None]) ** 2, axis=-1) / 4.0)


# Tuned to other data: next to no noise, so that its own 80 % intervals hold a third.
PROCESS = wt.ScaleMixture(smooth, wt.PointMass(1.0), wt.ScaledNoise(0.01))


def share_inside(method, repetitions, seed=0):
    """Mean over data sets and its standard error; every data set has new rows of its own."""
    rng = np.random.default_rng(seed)
    shares = []
    for _ in range(repetitions):
        x, y = wrong_data(rng, N + 8)
        lower, upper = method(x[:N], y[:N], x[N:])
        shares.append(np.mean((lower <= y[N:]) & (y[N:] <= upper)))
    return np.mean(shares), np.std(shares) / np.sqrt(repetitions)


def predictive(x, y, x_new):
    return PROCESS.posterior(x, y)(x_new).interval(COVERAGE)


def full(x, y, x_new):
    return wt.conformal.full(PROCESS.posterior(x, y), x_new, COVERAGE)


def jackknife_plus(x, y, x_new):
    return wt.conformal.jackknife_plus(PROCESS.posterior(x, y), x_new, COVERAGE)


def cv_plus(x, y, x_new):
    fits = wt.conformal.CrossFits.fit(lambda rows: PROCESS.posterior(x[rows], y[rows]), x, y, folds=4)
    return fits.interval(x_new, COVERAGE)


def check(method, repetitions):
    """Full conformal holds what it says and, of continuous scores, no more than 1 / (n + 1) above it."""
    mean, error = share_inside(method, repetitions)
    assert mean > COVERAGE - 4 * error
    if method is full:
        assert mean < COVERAGE + 1 / (N + 1) + 4 * error


@pytest.mark.parametrize("method", [full, jackknife_plus])
def test_a_wrong_process_keeps_its_promise(method):
    check(method, 60)


def test_its_own_intervals_do_not():
    mean, error = share_inside(predictive, 30)
    assert mean < COVERAGE - 8 * error


@pytest.mark.slow
@pytest.mark.parametrize("method", [full, jackknife_plus, cv_plus])
def test_a_wrong_process_keeps_its_promise_over_and_over(method):
    check(method, 3000)


@pytest.mark.slow
def test_every_group_has_its_coverage():
    """Rows on the right scatter far more: without groups they have too little, with groups each has what it asks."""
    rng = np.random.default_rng(1)
    inside = {True: [], False: []}
    for _ in range(1500):
        x, y = wrong_data(rng, 48 + 8)
        groups = x[:48, 0] > 0.7, x[48:, 0] > 0.7
        posterior = PROCESS.posterior(x[:48], y[:48])
        for grouped in inside:
            lower, upper = wt.conformal.full(posterior, x[48:], COVERAGE, groups=groups if grouped else None)
            inside[grouped].append(((lower <= y[48:]) & (y[48:] <= upper))[groups[1]])
    share = {grouped: np.mean(np.concatenate(parts)) for grouped, parts in inside.items()}
    assert share[True] > COVERAGE - 4 * np.sqrt(0.2 * 0.8 / 3500)
    assert share[False] < share[True] - 0.03


@pytest.mark.slow
def test_relearning_in_every_fold_keeps_the_promise_of_cv_plus():
    """Length scale and noise learned from 40 rows of misspecified data, in every fold."""
    rng = np.random.default_rng(2)
    process = wt.ScaleMixture(wt.kernels.RBF(np.ones(2)), noise=wt.ScaledNoise(0.1))
    shares = []
    for _ in range(20):
        x, y = wrong_data(rng, 40 + 40)

        def fit(rows, x=x, y=y):
            return wt.fit_evidence(process, x[rows], y[rows]).process.posterior(x[rows], y[rows])

        lower, upper = wt.conformal.CrossFits.fit(fit, x[:40], y[:40], folds=5).interval(x[40:], COVERAGE)
        shares.append(np.mean((lower <= y[40:]) & (y[40:] <= upper)))
    assert np.mean(shares) > COVERAGE - 4 * np.std(shares) / np.sqrt(20)
