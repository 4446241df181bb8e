"""Closed forms against models that are conditioned anew without a row, and against a grid of candidate values."""

import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail.learning import WeightedPosterior

NOISES = {"scaled": wt.ScaledNoise(0.05), "independent": wt.IndependentNoise(0.05)}
rng = np.random.default_rng(3)
X = rng.normal(size=(14, 2))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_t(3, size=14)
X_NEW = np.array([[0.1, -0.4], [1.5, 1.0], [6.0, -5.0]])


def kernel(length):
    """Squared exponentials without JAX: nothing to compile for every number of rows."""

    def values(first, second):
        distances = np.sum((first[:, None] - second[None]) ** 2, axis=-1)
        return np.exp(-0.5 * distances / length**2)

    return values


def posterior(noise="scaled", x=X, y=Y, length=1.0, prior=None, **rows):
    prior = wt.InverseGamma(2.0, 2.0) if prior is None else prior
    return wt.ScaleMixture(kernel(length), prior, NOISES[noise]).posterior(x, y, **rows)


@functools.cache
def fixed_scale(model):
    """The readout variance that stays when rows are left out."""
    is_inside = isinstance(model, wt.process.ScaledPosterior)
    return 1 / float(model.scale.mean_precision) if is_inside else float(model.scale.quantile(0.5))


def dense(noise, model, x, x_new, counts=None):
    """Weights of a linear predictor (m, n) and variances (m,), by inverting the covariance of the targets."""
    variance, beta = 0.05, fixed_scale(model)
    k, cross, own = kernel(1.0)(x, x), kernel(1.0)(x_new, x), np.ones(len(x_new))
    factors = np.ones(len(x)) if counts is None else 1 / np.asarray(counts)
    extra = beta * variance if noise == "scaled" else variance
    solved = np.linalg.solve(beta * k + np.diag(extra * factors), beta * cross.T)
    return solved.T, beta * own - np.einsum("mn,nm->m", beta * cross, solved) + extra


@pytest.mark.parametrize("noise", NOISES)
def test_influence_is_that_of_models_without_the_row(noise):
    model = posterior(noise)
    influence = model.influence(X_NEW)
    predictor, variance = dense(noise, model, X, X_NEW)
    assert_allclose(influence.location[:, 0], predictor @ Y, atol=1e-10)
    assert_allclose(influence.variance[:, 0], variance, atol=1e-10)
    without, spread = leave_out(influence)
    for i in range(len(Y)):
        rest = np.delete(np.arange(len(Y)), i)
        predictor, variance = dense(noise, model, X[rest], X_NEW)
        assert_allclose(without[i], predictor @ Y[rest], atol=1e-9)
        assert_allclose(spread[i], variance, atol=1e-9)


@pytest.mark.parametrize("noise", NOISES)
def test_one_of_several_observations_of_a_row_is_left_out(noise):
    counts = np.ones(14)
    counts[[2, 5]] = 3, 2
    model = posterior(noise, counts=counts)
    without, spread = leave_out(model.influence(X_NEW))
    for i in (2, 5, 7):
        fewer = counts.copy()
        fewer[i] -= 1
        rest = fewer > 0
        predictor, variance = dense(noise, model, X[rest], X_NEW, fewer[rest])
        assert_allclose(without[i], predictor @ Y[rest], atol=1e-9)
        assert_allclose(spread[i], variance, atol=1e-9)


def leave_out(influence):
    share = influence.reach[..., 0] / influence.precision
    return influence.location[:, 0] - share * influence.weights, influence.variance[:, 0] + share * influence.reach[
        ..., 0
    ]


@pytest.mark.parametrize("noise", NOISES)
def test_jackknife_plus_by_hand(noise):
    """One model per left-out row; of 14 rows, 80 % intervals leave the three outermost ends on either side out."""
    model = posterior(noise)
    lower, upper = wt.conformal.jackknife_plus(model, X_NEW, 0.8)
    ends = []
    for i in range(14):
        rest = np.delete(np.arange(14), i)
        predictor, variance = dense(noise, model, X[rest], np.concatenate([X[i : i + 1], X_NEW]))
        location, deviation = predictor @ Y[rest], np.sqrt(variance)
        width = abs(Y[i] - location[0]) / deviation[0] * deviation[1:]
        ends.append((location[1:] - width, location[1:] + width))
    below, above = np.sort(np.array(ends), axis=0).transpose(1, 0, 2)
    assert_allclose(lower, below[2], atol=1e-9)
    assert_allclose(upper, above[-3], atol=1e-9)


def oddness(noise, model, x_new, value):
    """Of every row, the new one last: distance from the prediction by all the others, in its standard deviations."""
    x, y = np.concatenate([X, x_new]), np.append(Y, value)
    scores = []
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        predictor, variance = dense(noise, model, x[rest], x[i : i + 1])
        scores.append(abs(y[i] - predictor[0] @ y[rest]) / np.sqrt(variance[0]))
    return np.array(scores)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("point", [0, 2])
def test_full_conformal_is_the_set_of_values_that_do_not_stand_out(noise, point):
    model = posterior(noise)
    new = X_NEW[point : point + 1]
    (lower,), (upper,) = wt.conformal.full(model, new, 0.8)
    values = np.linspace(lower - 1.0, upper + 1.0, 60)
    p_values = [np.mean(scores >= scores[-1] - 1e-12) for scores in (oddness(noise, model, new, v) for v in values)]
    assert np.array_equal(np.array(p_values) > 0.2 + 1e-12, (lower < values) & (values < upper))


@pytest.mark.parametrize("method", [wt.conformal.full, wt.conformal.jackknife_plus])
def test_a_mixture_of_equal_parts_is_one_of_them(method):
    one = posterior()
    assert_allclose(method(WeightedPosterior([one, one], np.array([0.3, 0.7])), X_NEW), method(one, X_NEW))


def test_full_conformal_of_a_mixture_lets_in_what_does_not_stand_out():
    """The interval is the hull of the set: every value in the set is inside, and its ends are in it or next to it."""
    parts, shares = [posterior(), posterior(length=0.3)], np.array([0.4, 0.6])
    (lower,), (upper,) = wt.conformal.full(WeightedPosterior(parts, shares), X_NEW[:1], 0.8)

    def p_value(value):
        scores, variances = [], []
        for part, length in zip(parts, (1.0, 0.3), strict=True):
            x = np.concatenate([X, X_NEW[:1]])
            beta = fixed_scale(part)
            inverse = np.linalg.inv(beta * (kernel(length)(x, x) + 0.05 * np.eye(15)))
            scores.append(inverse @ np.append(Y, value) / np.diag(inverse))
            variances.append(1 / np.diag(inverse))
        odd = np.abs(shares @ scores) / np.sqrt(shares @ variances)
        return np.mean(odd >= odd[-1] - 1e-12)

    values = np.linspace(lower - 3.0, upper + 3.0, 400)
    inside = np.array([p_value(value) for value in values]) > 0.2 + 1e-12
    assert np.all((lower <= values[inside]) & (values[inside] <= upper))
    assert abs(values[inside][0] - lower) < 0.05
    assert abs(values[inside][-1] - upper) < 0.05


@pytest.mark.parametrize("method", [wt.conformal.full, wt.conformal.jackknife_plus])
def test_outputs_are_taken_one_at_a_time(method):
    both = np.stack([Y, -3.0 * Y[::-1] + 1.0], axis=1)
    lower, upper = method(posterior(y=both), X_NEW, 0.8)
    for output in range(2):
        one = method(posterior(y=both[:, output]), X_NEW, 0.8)
        assert_allclose((lower[:, output], upper[:, output]), one, atol=1e-9)


@pytest.mark.parametrize("method", [wt.conformal.full, wt.conformal.jackknife_plus])
def test_repeated_rows_count_as_often_as_they_were_seen(method):
    counts = np.ones(14)
    counts[[2, 5]] = 3, 2
    again = np.repeat(np.arange(14), counts.astype(int))
    known = wt.PointMass(1.0)
    counted, repeated = posterior(counts=counts, prior=known), posterior(x=X[again], y=Y[again], prior=known)
    assert_allclose(method(counted, X_NEW, 0.7), method(repeated, X_NEW, 0.7), atol=1e-9)


@pytest.mark.parametrize("method", [wt.conformal.full, wt.conformal.jackknife_plus])
class TestGroups:
    def test_only_rows_of_the_group_speak(self, method):
        old = np.array(["a", "b"])[np.arange(14) % 2]
        lower, upper = method(posterior(), X_NEW, 0.7, groups=(old, np.array(["a", "b", "a"])))
        everyone = method(posterior(), X_NEW, 0.7)
        assert np.all(np.isfinite(lower) & np.isfinite(upper))
        assert not np.allclose(lower, everyone[0])
        one = method(posterior(), X_NEW, 0.7, groups=(old == "a", np.ones(3, bool)))
        assert_allclose(lower[[0, 2]], one[0][[0, 2]])
        assert_allclose(upper[[0, 2]], one[1][[0, 2]])

    def test_a_group_with_one_row_has_infinite_intervals_and_is_named(self, method):
        old = np.array(["many"] * 13 + ["lonely"])
        with pytest.warns(UserWarning, match=r"needs 9 observed rows.*'lonely' has 1"):
            lower, upper = method(posterior(), X_NEW, 0.9, groups=(old, np.array(["many", "lonely", "unseen"])))
        assert np.isinf(lower).tolist() == np.isinf(upper).tolist() == [False, True, True]

    @pytest.mark.parametrize(
        ("groups", "message"),
        [
            (np.zeros(3), "a pair"),
            ((np.zeros(3), np.zeros(3)), "14 labels of observed rows and 3 of new"),
            ((np.zeros(14), np.array(["a", "b", "a"])), "of one type"),
            ((np.zeros(14), np.array([0.0, np.nan, 1.0])), "1 of the new rows have no label"),
        ],
    )
    def test_bad_groups_are_named(self, method, groups, message, as_users_have_it):
        with pytest.raises(ValueError, match=message):
            method(posterior(), X_NEW, groups=groups)


@pytest.mark.parametrize("method", [wt.conformal.full, wt.conformal.jackknife_plus])
@pytest.mark.parametrize("coverage", [0.0, 1.0, 90, "0.9", [0.5, 0.9], float("nan")])
def test_coverage_must_be_a_probability(method, coverage, as_users_have_it):
    with pytest.raises(ValueError, match=r"coverage must be one number strictly between 0 and 1, such as 0\.9"):
        method(posterior(), X_NEW, coverage)


@pytest.mark.parametrize("method", [wt.conformal.full, wt.conformal.jackknife_plus])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_handful_of_rows_promises_what_it_can(method, n):
    with pytest.warns(UserWarning, match=f"needs 9 observed rows at least, and there are {n} rows"):
        lower, upper = method(posterior(x=X[:n], y=Y[:n]), X_NEW, 0.9)
    assert np.all(np.isneginf(lower) & np.isposinf(upper))
    half = 0.5 if n > 1 else 0.4
    lower, upper = method(posterior(x=X[:n], y=Y[:n]), X_NEW, half)
    assert np.all(np.isfinite(lower) & (lower <= upper))


@pytest.mark.parametrize("method", [wt.conformal.full, wt.conformal.jackknife_plus])
def test_constant_targets_and_duplicated_rows(method):
    x = np.repeat(X[:5], 4, axis=0)
    lower, upper = method(posterior(x=x, y=np.zeros(20)), X_NEW)
    assert_allclose(lower, 0.0, atol=1e-12)
    assert_allclose(upper, 0.0, atol=1e-12)


def test_a_posterior_without_a_closed_form_says_what_to_do():
    class Other(wt.process.Posterior):
        diagnostics = None
        update = left_out = _predict = None
        y, rows = Y, wt.process.RowFactors.of(14, None, None)

    with pytest.raises(NotImplementedError, match=r"Other has no closed form.*cv\+"):
        wt.conformal.full(Other(), X_NEW)
