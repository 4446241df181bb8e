"""A stream of rows ends where one table of them ends, whatever the likelihood and the prior of the scale."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail import sparse
from widetail.sparse import Ascent, Memory, train, variances

from .problems import KERNEL, PRIORS, cached, inputs, scattered, start

INDUCING = np.linspace(-2.0, 2.0, 8)[:, None]
EXACT = {"tolerance": 1e-8, "max_iterations": 300, "from_few": False}


class Known(sparse.Gaussian):
    """Noise that is known."""

    learnable = ()


def targets(name, x, seed=5):
    rng = np.random.default_rng(seed)
    f = np.sin(2 * x)
    classes = np.clip(np.round(f[:, 0] + 0.4 * rng.normal(size=len(x))) + 1, 0, 2)
    return {
        "gaussian": (sparse.Gaussian(0.1), f + 0.3 * rng.normal(size=f.shape)),
        "gaussian, known noise": (Known(0.1), f + 0.3 * rng.normal(size=f.shape)),
        "gaussian outside": (sparse.Gaussian(0.1, scaled=False), f + 0.3 * rng.normal(size=f.shape)),
        "student t": (sparse.StudentT(4.0, 0.1), f + 0.3 * rng.standard_t(4.0, size=f.shape)),
        "poisson": (sparse.Poisson("softplus"), rng.poisson(np.logaddexp(0.0, 1 + 2 * f)).astype(float)),
        "bernoulli": (sparse.Bernoulli(), (rng.uniform(size=f.shape) < 1 / (1 + np.exp(-3 * f))).astype(float)),
        "categorical": (sparse.Categorical(3), classes.astype(int)),
    }[name]


def streamed(x, y, likelihood, q, calls, inducing=INDUCING, **options):
    memory = None
    for part in np.array_split(np.arange(len(x)), calls):
        fit = train(cached(x[part], y[part], inducing), likelihood, q, memory=memory, **EXACT | options)
        q, likelihood, memory = fit.q, fit.likelihood, fit.memory
    return fit


def of_latent(fit, x):
    """Means and standard deviations of f at the expected scale."""
    rows = cached(x, np.zeros((len(x), 1)), INDUCING)
    return rows.features @ fit.q.mean.T, np.sqrt(variances(rows, fit.q) / fit.q.law.mean_precision)


def assert_same_end(fit, other, x, allowed=0.01):
    (mean, deviation), (other_mean, other_deviation) = of_latent(fit, x), of_latent(other, x)
    assert np.max(np.abs(mean - other_mean) / other_deviation) < allowed
    assert_allclose(deviation, other_deviation, rtol=allowed)
    assert_allclose(fit.q.law.mean_precision, other.q.law.mean_precision, rtol=3 * allowed)
    for name in other.likelihood.learnable:
        assert_allclose(getattr(fit.likelihood, name), getattr(other.likelihood, name), rtol=3 * allowed)


def test_a_stream_ends_at_exact_inference():
    """Every row is an inducing input, noise is inside of the scale: the closed form of a Student-t process."""
    x = inputs(30)
    y = targets("gaussian", x)[1]
    fit = streamed(x, y, Known(0.1), start(PRIORS["inverse gamma"], 1, 30), 3, inducing=x)
    exact = wt.ScaleMixture(KERNEL, PRIORS["inverse gamma"], wt.ScaledNoise(0.1)).posterior(x, y)
    assert_allclose(fit.q.law.a, 2 + 15, rtol=1e-3)
    assert_allclose(fit.q.law.b / fit.q.law.a, 1 / exact.scale.mean_precision, rtol=1e-3)
    assert_allclose(fit.bound * 30, exact.log_evidence, atol=1e-3)
    rows = cached(x, y, x)
    assert_allclose(rows.features @ fit.q.mean.T, exact.f(x).mean, atol=1e-3)
    assert_allclose(
        fit.q.law.b / (fit.q.law.a - 1) * variances(rows, fit.q), exact.f(x).var.reshape(30, 1), rtol=1e-2, atol=1e-6
    )
    assert fit.likelihood.noise == 0.1, "what is not learnable does not move"


@pytest.mark.parametrize("deviation", [0.1, 0.25])
def test_ten_calls_with_known_noise_end_at_exact_inference(deviation):
    """Thirty inducing inputs say all there is to say of three hundred rows, whatever scale fits them."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (300, 1))
    y = np.sin(2 * x) + deviation * rng.normal(size=x.shape)
    inducing = np.linspace(-2.0, 2.0, 30)[:, None]
    q = start(PRIORS["inverse gamma"], 1, 30)
    fit = streamed(x, y, Known(0.04), q, 10, inducing=inducing)
    exact = wt.ScaleMixture(KERNEL, PRIORS["inverse gamma"], wt.ScaledNoise(0.04)).posterior(x, y)
    assert fit.likelihood.noise == 0.04
    assert_allclose(fit.q.law.a, 2 + 150, rtol=1e-3)
    assert_allclose(fit.q.law.b / fit.q.law.a, 1 / exact.scale.mean_precision, rtol=1e-3)
    rows = cached(x, y, inducing)
    variance = fit.q.law.b / (fit.q.law.a - 1) * (variances(rows, fit.q) + 0.04)
    assert_allclose(variance[:, 0], np.asarray(exact(x).var).ravel(), rtol=2e-3)
    whole = train(rows, Known(0.04), q, **EXACT)
    assert_allclose([fit.q.law.a, fit.q.law.b], [whole.q.law.a, whole.q.law.b], rtol=1e-4)


def test_a_short_stream_ends_where_its_table_ends():
    x = inputs(60)
    likelihood, y = targets("gaussian outside", x)
    q = start(PRIORS["inverse gamma"], 1, 8)
    whole = train(cached(x, y, INDUCING), likelihood, q, **EXACT)
    fit = streamed(x, y, likelihood, q, 3)
    assert_same_end(fit, whole, x)
    assert_allclose(fit.bound, whole.bound, atol=1e-4)
    assert fit.memory.rows is None, "sums are exact: no row is kept"


@pytest.mark.parametrize("noise", [0.1, pytest.param(1.0, marks=pytest.mark.slow)])
def test_scale_and_noise_end_apart_from_each_other_where_those_of_the_table_end(noise):
    """Their product is soon known, and along it the bound is flat; with the tolerance that estimators have."""
    x = inputs(120)
    y = targets("gaussian", x)[1]
    q = start(PRIORS["inverse gamma"], 1, 8)
    rough = {"tolerance": 1e-5, "max_iterations": 40}
    whole = train(cached(x, y, INDUCING), sparse.Gaussian(noise), q, **rough)
    fit = streamed(x, y, sparse.Gaussian(noise), q, 4, **rough)
    best = train(cached(x, y, INDUCING), sparse.Gaussian(noise), q, **EXACT)
    for one in (whole, fit):
        assert_allclose(one.likelihood.noise, best.likelihood.noise, rtol=5e-3)
        assert_allclose(one.q.law.mean_precision, best.q.law.mean_precision, rtol=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize(
    "name",
    ["gaussian", "gaussian, known noise", "gaussian outside", "student t", "poisson", "bernoulli", "categorical"],
)
def test_a_stream_ends_where_its_table_ends(name, prior):
    x = inputs(200)
    likelihood, y = targets(name, x)
    q = start(PRIORS[prior], 3 if name == "categorical" else 1, 8, learn=True)
    whole = train(cached(x, y, INDUCING), likelihood, q, **EXACT)
    fit = streamed(x, y, likelihood, q, 5)
    # draws of f are those of a row's place among the others, which is the same in a stream
    assert_same_end(fit, whole, x, allowed=0.02 if name == "student t" else 0.01)


def test_rows_that_are_let_go_leave_their_derivatives():
    """In means, covariances and scale, against finite differences of the expected log density of the rows."""
    x = inputs(60)
    likelihood, y = targets("bernoulli", x)
    rows, none = cached(x, y, INDUCING), Memory.none(1, 8)
    q = scattered(start(PRIORS["point"], 1, 8))
    kept, gone = (none.after(rows, q, likelihood, keep=keep, seed=0) for keep in (60, 0))
    assert len(kept.rows) == kept.observations == gone.observations == 60
    assert not kept.summed
    assert gone.rows is None
    ascent = Ascent(rows, none)
    rng = np.random.default_rng(0)
    direction, change = rng.normal(size=(1, 8)), rng.normal(size=(1, 8, 8))
    change = 1e-2 * (change + np.swapaxes(change, 1, 2))

    def moved(by):
        yield q.with_mean(q.mean + by * direction)
        yield q.with_precision(np.linalg.inv(q.covariance + by * change))
        yield q.with_law(sparse.PointScale(q.law.value * np.exp(by), learn=False))

    for up, down in zip(moved(1e-3), moved(-1e-3), strict=True):
        of_rows = [ascent.bound(one, likelihood) + one.divergence for one in (up, down)]
        of_memory = [gone.value(one, likelihood) for one in (up, down)]
        assert abs(of_rows[0] - of_rows[1]) > 1e-5
        assert_allclose(of_memory[0] - of_memory[1], of_rows[0] - of_rows[1], rtol=1e-3)


@pytest.mark.parametrize("most_coupled", [2048, 0], ids=["every pair of classes", "every class"])
def test_classes_that_are_let_go_say_nothing_of_a_common_shift(most_coupled, monkeypatch):
    """Derivatives and curvature in the means, against finite differences of the expected log density of the rows."""
    monkeypatch.setattr("widetail.sparse._rows.MOST_COUPLED", most_coupled)
    x = inputs(60)
    likelihood, y = targets("categorical", x)
    rows, none = cached(x, y, INDUCING), Memory.none(3, 8)
    q = scattered(start(PRIORS["point"], 3, 8))
    q = q.with_precision(1e4 * q.precision)  # of a latent function that is almost known: nothing but the softmax
    gone = none.after(rows, q, likelihood, keep=30, seed=0)
    gone = dataclasses.replace(gone.after(rows.first(0), q, likelihood, keep=0, seed=0), rows=None)
    ascent = Ascent(rows, none)
    rng = np.random.default_rng(0)
    direction, shift = rng.normal(size=(3, 8)), rng.normal(size=8)

    def changes(value, along, by=1e-2):
        up, here, down = (value(q.with_mean(q.mean + step * along)) for step in (by, 0.0, -by))
        return (up - down) / (2 * by), (up - 2 * here + down) / by**2

    slope, curvature = changes(lambda one: ascent.bound(one, likelihood) + one.divergence, direction)
    own_slope, own_curvature = changes(lambda one: gone.value(one, likelihood), direction)
    assert_allclose(own_slope, slope, rtol=1e-3)
    # one shift for all rows follows the mean of the classes less well than one for each: more curvature, not less
    assert own_curvature < curvature * 0.99 if not most_coupled else abs(own_curvature / curvature - 1) < 0.01
    size = abs(own_curvature) * np.sum(shift**2) / np.sum(direction**2)
    assert_allclose(changes(lambda one: gone.value(one, likelihood), shift), 0.0, atol=1e-4 * size)


@pytest.mark.parametrize("name", ["bernoulli", "categorical"])
def test_rows_that_count_for_several_leave_the_derivatives_of_all(name):
    x = inputs(60)
    likelihood, y = targets(name, x)
    outputs = 3 if name == "categorical" else 1
    rows, none = cached(x, y, INDUCING), Memory.none(outputs, 8)
    q = scattered(start(PRIORS["point"], outputs, 8))
    kept = none.after(rows, q, likelihood, keep=20, seed=0)
    assert len(kept.rows) == 20
    assert kept.observations == kept.rows.observations == 60
    ascent, shorter = Ascent(rows, none), Ascent(kept.rows, dataclasses.replace(kept, rows=None))
    direction = np.random.default_rng(0).normal(size=q.mean.shape)

    def slope(one, by=1e-3):
        up, down = (one.bound(q.with_mean(q.mean + step * direction), likelihood) for step in (by, -by))
        return (up - down) / (2 * by)

    # draws of f are those of a row's place, and places change
    assert_allclose(slope(shorter), slope(ascent), rtol=1e-4 if outputs == 1 else 0.02)


def test_what_all_classes_have_in_common_is_known_by_the_prior_alone():
    x = inputs(60)
    likelihood, y = targets("categorical", x)
    q = scattered(start(PRIORS["point"], 3, 8))
    rows = cached(x, y, INDUCING)
    ascent = Ascent(rows, Memory.none(3, 8))
    found = ascent.mean_optimum(q, likelihood, variances(rows, q))
    assert_allclose(np.sum(found.mean, axis=0), 0.0, atol=1e-12)
    shifted = found.with_mean(found.mean + 0.1)
    assert ascent.bound(found, likelihood) > ascent.bound(shifted, likelihood)


def test_what_is_remembered_can_be_written_and_read():
    x = inputs(60)
    likelihood, y = targets("bernoulli", x)
    memory = Memory.none(1, 8).after(cached(x, y, INDUCING), start(PRIORS["point"], 1, 8), likelihood, keep=20, seed=0)
    arrays = memory.arrays()
    again = Memory.from_arrays(arrays)
    assert again.observations == 60
    assert all(np.array_equal(arrays[name], values) for name, values in again.arrays().items())
    for name in ("memory_gram", "memory_sums", "memory_features", "memory_counts"):
        with pytest.raises(ValueError, match="do not fit together"):
            Memory.from_arrays(arrays | {name: arrays[name][..., :-1]})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kept", "allowed"),
    [
        *((name, 1000, 0.1) for name in ("categorical", "bernoulli", "poisson", "student t")),
        ("categorical", 300, 0.15),
        ("bernoulli", 300, 0.02),
        ("poisson", 300, 0.05),
    ],
)
def test_a_stream_that_is_longer_than_what_is_kept(name, kept, allowed):
    """Rows that were drawn together, or let go, when many others had been seen: near where the table ends."""
    x = inputs(3000)
    likelihood, y = targets(name, x)
    q = start(PRIORS["inverse gamma"], 3 if name == "categorical" else 1, 8)
    whole = train(cached(x, y, INDUCING), likelihood, q, **EXACT | {"tolerance": 1e-6})
    fit = streamed(x, y, likelihood, q, 5, kept_rows=kept, tolerance=1e-6)
    assert len(fit.memory.rows) == kept
    assert fit.memory.observations == 3000
    assert_same_end(fit, whole, x, allowed)


def test_rows_that_are_let_go_are_remembered_for_the_noise():
    """Slope and curvature in the logarithms of df and noise, against differences of the rows' expected log density."""
    x = inputs(60)
    likelihood, y = targets("student t", x)
    rows, none = cached(x, y, INDUCING), Memory.none(1, 8)
    q = scattered(start(PRIORS["point"], 1, 8))
    halves = none.after(rows.first(30), q, likelihood, keep=0, seed=0)
    gone = halves.after(rows.after(30), q, likelihood, keep=0, seed=0)
    ascent = Ascent(rows, none)

    def changes(value, df, noise, by=0.05):
        up, here, down = (
            value(sparse.StudentT(4.0 * np.exp(df * step), 0.1 * np.exp(noise * step))) for step in (by, 0.0, -by)
        )
        return (up - down) / (2 * by), (up - 2 * here + down) / by**2

    for direction in ((1.0, 0.0), (0.0, 1.0), (0.6, 0.8), (-0.6, 0.8)):
        of_rows = changes(lambda own: ascent.bound(q, own) + q.divergence, *direction)
        # a concave function stands for them: where they bend upwards it is straight
        own = changes(lambda own: gone.value(q, own), *direction)
        assert_allclose(own[0], of_rows[0], rtol=1e-2, atol=1e-3)
        assert own[1] <= of_rows[1] + 0.02 * abs(of_rows[1])
    again = Memory.from_arrays(gone.arrays())
    assert again.value(q, likelihood) == gone.value(q, likelihood)
