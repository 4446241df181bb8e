"""Scores against SciPy's distributions and against integrals and sums written out."""

import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from scipy import integrate, special, stats

from widetail import metrics


class FromScipy:
    """A predictive with the interface of the library, on top of a frozen SciPy distribution."""

    def __init__(self, frozen):
        self.frozen = frozen
        self.mean, self.std = frozen.mean(), frozen.std()

    def log_prob(self, y):
        return jnp.asarray(self.frozen.logpdf(y))

    def pit(self, y):
        return self.frozen.cdf(y)

    def interval(self, level):
        return self.frozen.interval(level)

    def crps(self, y):
        """By its definition: the integral of the squared distance of distribution functions."""
        scores = []
        for i, target in enumerate(y):

            def cdf(t, i=i):
                return special.stdtr(3, (t - LOC[i]) / SCALE)

            below = integrate.quad(lambda t: cdf(t) ** 2, -np.inf, target)[0]
            above = integrate.quad(lambda t: (1 - cdf(t)) ** 2, target, np.inf)[0]
            scores.append(below + above)
        return np.array(scores)


LOC = np.linspace(-1, 2, 40)
SCALE = 0.7


@pytest.fixture
def predictive():
    return FromScipy(stats.t(df=3, loc=LOC, scale=SCALE))


@pytest.fixture
def y():
    return stats.t.rvs(3, LOC, SCALE, random_state=np.random.default_rng(0))


def test_nll(predictive, y):
    logs = [np.log(stats.t.pdf((v - m) / SCALE, 3) / SCALE) for v, m in zip(y, LOC, strict=True)]
    assert metrics.nll(predictive, y) == pytest.approx(-sum(logs) / 40, rel=1e-6)


def test_nll_moves_with_the_unit(predictive, y):
    in_cm = FromScipy(stats.t(df=3, loc=100 * LOC, scale=100 * SCALE))
    assert metrics.nll(in_cm, 100 * y) == pytest.approx(metrics.nll(predictive, y) + np.log(100), rel=1e-5)


def test_rmse_of_arrays_and_of_predictives(predictive, y):
    expected = (sum((v - m) ** 2 for v, m in zip(y, LOC, strict=True)) / 40) ** 0.5
    assert metrics.rmse(LOC, y) == pytest.approx(expected)
    assert metrics.rmse(predictive, jnp.asarray(y)) == pytest.approx(expected, rel=1e-6)


def test_rmse_without_a_mean_says_so(y):
    cauchy = FromScipy(stats.t(df=1, loc=LOC, scale=SCALE))
    cauchy.mean = np.full(40, np.nan)
    with pytest.raises(ValueError, match="prediction holds 40 NaN"):
        metrics.rmse(cauchy, y)


def test_crps_against_many_samples(predictive, y):
    samples = stats.t.rvs(3, LOC, SCALE, size=(5_000, 40), random_state=np.random.default_rng(1))
    exact = metrics.crps(predictive, y)
    assert metrics.crps_from_samples(samples, y) == pytest.approx(exact, rel=0.02)
    assert metrics.crps_from_samples(samples.astype(np.float32), jnp.asarray(y)) == pytest.approx(exact, rel=0.02)


def test_crps_from_samples_against_all_pairs(y):
    draws = np.random.default_rng(2).normal(size=(7, 40))
    pairs = [np.abs(draws[i] - draws[j]) for i in range(7) for j in range(7) if i != j]
    expected = np.abs(draws - y).mean() - np.mean(pairs) / 2
    assert metrics.crps_from_samples(draws, y) == pytest.approx(expected)


def test_crps_of_a_point_is_the_absolute_error(y):
    assert metrics.crps_from_samples(np.tile(LOC, (3, 1)), y) == pytest.approx(np.abs(LOC - y).mean())


def test_pit_is_uniform_for_the_truth():
    loc = np.zeros(2000)
    draws = stats.t.rvs(3, loc, SCALE, random_state=np.random.default_rng(3))
    values = metrics.pit(FromScipy(stats.t(df=3, loc=loc, scale=SCALE)), draws)
    assert values.shape == (2000,)
    assert stats.kstest(values, "uniform").pvalue > 0.01


def test_coverage_counts_points(predictive, y):
    lower, upper = predictive.interval(0.8)
    count = sum(low <= v <= high for low, v, high in zip(lower, y, upper, strict=True))
    assert metrics.coverage(predictive, y, 0.8) == count / 40
    assert metrics.coverage_of_interval(y, y, y) == 1.0


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_steps_are_covered_in_part(level):
    upto = np.arange(1, 7) / 6  # a die that shows every face once
    below = upto - 1 / 6
    assert metrics.coverage_of_steps(below, upto, level) == pytest.approx(level)
    # without steps it is the share of points in the interval
    probability = np.random.default_rng(0).uniform(size=50)
    inside = np.mean(np.abs(probability - 0.5) <= level / 2)
    assert metrics.coverage_of_steps(probability, probability, level) == inside
    with pytest.raises(ValueError, match="below and upto must be probabilities"):
        metrics.coverage_of_steps(upto, below, level)


def test_bad_input_is_named(predictive, y, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as users have it
    with pytest.raises(TypeError, match=r"must have a method log_prob\(y\), got ndarray"):
        metrics.nll(LOC, y)
    with pytest.raises(ValueError, match=r"y has shape \(1,\), but predictive.log_prob\(y\) has shape \(40,\)"):
        metrics.nll(predictive, y[:1])
    with pytest.raises(ValueError, match="y holds 1 NaN of 40"):
        metrics.nll(predictive, np.where(np.arange(40) == 3, np.nan, y))
    with pytest.raises(ValueError, match="y is empty"):
        metrics.rmse(LOC[:0], y[:0])
    with pytest.raises(ValueError, match=r"same shape, got \(39,\) and \(40,\)"):
        metrics.rmse(LOC[1:], y)
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1, got 90"):
        metrics.coverage(predictive, y, 90)
    with pytest.raises(TypeError, match="interval"):
        metrics.coverage(LOC, y, 0.9)
    with pytest.raises(ValueError, match="2 draws or more"):
        metrics.crps_from_samples(LOC[None], y)
