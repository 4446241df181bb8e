"""Minibatches: stochastic natural gradients, and Adam through the kernel."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail import sparse
from widetail.sparse import Ascent, Memory, train, train_adam, train_minibatches, variances
from widetail.sparse.training import minibatch_step, moments_of, refresh, variational_of

from .problems import KERNEL, PRIORS, cached, inputs, scattered, sine, start


def test_a_minibatch_of_all_rows_is_the_full_step():
    x = inputs(64)
    counts = np.random.default_rng(0).integers(1, 4, 64)
    rows = cached(x, (np.abs(x[:, 0]) * 1.4).astype(np.int64), x[:8], counts=counts)
    q = scattered(start(PRIORS["inverse gamma"], 3, 8))
    likelihood, ascent = sparse.Categorical(3), Ascent(rows, Memory.none(3, 8))
    nodes, precision = ascent.nodes(q, likelihood), q.law.mean_precision
    with jax.enable_x64(True):
        numbers = (np.float64(precision), np.float64(1.0), np.float64(0.5))
        moments, bound = minibatch_step(
            likelihood, moments_of(q, "float64"), rows.features, rows.residual, rows.y, rows.counts, nodes, *numbers
        )
        root = np.asarray(refresh(moments).root)
    stepped = variational_of(moments, q.law)
    found = ascent.totals(q, likelihood, variances(rows, q))
    expected = ascent.covariance_step(q, likelihood, found.curvature, 0.5)
    assert_allclose(float(bound) - q.law.divergence, ascent.bound(q, likelihood), rtol=1e-9)
    assert_allclose(stepped.precision, expected.precision, rtol=1e-9)
    direction = np.einsum("cmk,ck->cm", q.covariance, found.slope - precision * q.mean) / precision
    assert_allclose(stepped.mean, q.mean + 0.5 * direction, rtol=1e-8)
    assert_allclose(root, expected.root, rtol=1e-6, atol=1e-9)


# among the quick tests the estimator trains by minibatches, and is compared with all rows at once
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "likelihood"),
    [
        ("point", sparse.Categorical(3)),
        ("inverse gamma", sparse.Categorical(3)),
        ("log-normal", sparse.Gaussian(0.1)),
    ],
)
def test_minibatches_end_near_the_optimum(name, likelihood):
    x = inputs(2000)
    y = sine(x) if likelihood.has_units else np.clip(np.round(sine(x)[:, 0] + 1.0), 0, 2).astype(np.int64)
    rows, outputs = cached(x, y, np.linspace(-2, 2, 8)[:, None]), 1 if likelihood.has_units else 3
    q = start(PRIORS[name], outputs, 8, learn=True)
    # noise and scale can make up for one another, and neither way of training is quick to tell how much
    options = {"learn_likelihood": False}
    best = train(rows, likelihood, q, tolerance=1e-8, **options)
    few = train(rows.first(200), likelihood, q, **options)
    found = train_minibatches(rows, few.likelihood, few.q, 200, batch_size=64, epochs=6, **options)
    begun = Ascent(rows, Memory.none(outputs, 8)).bound(few.q, few.likelihood) / 2000
    assert begun < best.bound - 2e-3
    assert best.bound - 5e-4 < found.bound < best.bound + 1e-5
    assert found.bounds[-2] == pytest.approx(found.bound, abs=0.02)
    ours, right = (variances(rows, fit.q) / fit.q.law.mean_precision for fit in (found, best))
    assert_allclose(ours, right, rtol=0.2)


def test_minibatches_stop_early_and_go_on(tmp_path):
    x = inputs(200)
    rows, likelihood = cached(x, sine(x), x[:8]), sparse.Gaussian(0.1)
    few = train(rows.first(100), likelihood, start(PRIORS["log-normal"], 1, 8))
    options = {"batch_size": 32, "seed": 3}
    scores = iter([-1.0, -0.5, -0.7, -0.6, -0.9])
    stopped = train_minibatches(
        rows, few.likelihood, few.q, 100, epochs=9, patience=2, validate=lambda *_: next(scores), **options
    )
    assert stopped.scores == [-1.0, -0.5, -0.7, -0.6]
    assert stopped.converged
    two = train_minibatches(rows, few.likelihood, few.q, 100, epochs=2, checkpoint=tmp_path / "run", **options)
    assert np.array_equal(stopped.q.mean, two.q.mean)  # the best one is that of the second epoch
    four = train_minibatches(rows, few.likelihood, few.q, 100, epochs=4, checkpoint=tmp_path / "run", **options)
    whole = train_minibatches(rows, few.likelihood, few.q, 100, epochs=4, **options)
    assert four.bounds == whole.bounds
    assert np.array_equal(four.q.mean, whole.q.mean)
    with pytest.raises(ValueError, match="epochs must be at least 4"):
        train_minibatches(rows, few.likelihood, few.q, 100, epochs=3, checkpoint=tmp_path / "run", **options)
    with pytest.raises(ValueError, match="other data or settings"):
        train_minibatches(rows, few.likelihood, few.q, 50, epochs=4, checkpoint=tmp_path / "run", **options)


@pytest.mark.slow
def test_minibatches_in_single_precision_and_with_densities_that_are_not_concave():
    x = inputs(600)
    y = sine(x)
    y[::20] += 5.0
    rows = cached(x, y, np.linspace(-2, 2, 8)[:, None], "float32")
    q, likelihood = start(wt.InverseGamma(2.0, 2.0), 1, 8), sparse.StudentT(3.0, 0.05)
    best = train(rows, likelihood, q, learn_likelihood=False, tolerance=1e-7)
    few = train(rows.first(200), likelihood, q, learn_likelihood=False)
    found = train_minibatches(rows, likelihood, few.q, 200, batch_size=64, epochs=6, learn_likelihood=False)
    assert found.bounds[0] < best.bound - 5e-3
    assert best.bound - 1e-3 < found.bound < best.bound + 1e-5


# among the quick tests the estimator stops early and keeps a checkpoint
@pytest.mark.slow
def test_adam_stops_early_and_goes_on(tmp_path):
    x = inputs(64)
    arguments = (KERNEL, x[:6], x, sine(x), sparse.Gaussian(0.1), start(PRIORS["inverse gamma"], 1, 6))
    options = {"batch_size": 32, "train_inputs": True, "train_kernel": True}
    scores = iter([-1.0, -0.5, -0.7, -0.6, -0.9])
    stopped = train_adam(*arguments, epochs=9, patience=2, validate=lambda _: next(scores), **options)
    assert stopped.scores == [-1.0, -0.5, -0.7, -0.6]
    two = train_adam(*arguments, epochs=2, checkpoint=tmp_path / "run", **options)
    assert np.array_equal(stopped.q.mean, two.q.mean)
    four = train_adam(*arguments, epochs=4, checkpoint=tmp_path / "run", **options)
    whole = train_adam(*arguments, epochs=4, **options)
    assert four.bounds == whole.bounds
    assert np.array_equal(four.inducing, whole.inducing)
    with pytest.raises(ValueError, match="other data or settings"):
        train_adam(*arguments, epochs=4, checkpoint=tmp_path / "run", learning_rate=0.1, **options)


RESUMED = """
import sys
import jax
import numpy as np
from tests.sparse.problems import inputs, sine, start
import widetail as wt
from widetail import nn, sparse
activation = nn.Elementwise(lambda t: jax.nn.silu(2.0 * t))
net, x = nn.Sequential(nn.Dense(weight_var=1.5, bias_var=0.1), activation), inputs(32)
q = start(wt.PointMass(1.0), 1, 4)
options = {"epochs": int(sys.argv[2]), "checkpoint": sys.argv[1]}
fit = sparse.train_adam(net, x[:4], x, sine(x), sparse.Gaussian(0.1), q, **options)
print(len(fit.bounds))
"""


@pytest.mark.slow
def test_adam_goes_on_in_another_process_with_functions_of_the_user(tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])}
    for epochs in ("1", "2"):
        command = [sys.executable, "-c", RESUMED, str(tmp_path / "run"), epochs]
        done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
        assert done.stdout.strip() == epochs


def test_scores_that_are_no_numbers_are_named():
    x = inputs(64)
    rows, likelihood = cached(x, sine(x), x[:8]), sparse.Gaussian(0.1)
    few = train(rows.first(32), likelihood, start(PRIORS["point"], 1, 8))
    with pytest.raises(FloatingPointError, match="log score of held-out rows is nan"):
        train_minibatches(rows, likelihood, few.q, 32, validate=lambda *_: float("nan"))


def test_adam_without_open_variance_has_the_bound_of_natural_gradients():
    x = inputs(64)
    q, likelihood = scattered(start(PRIORS["inverse gamma"], 1, 8)), sparse.Gaussian(0.1)
    for share in (0.0, 0.5):
        fit = train_adam(
            KERNEL, x[:8], x, sine(x), likelihood, q, residual_share=share, learning_rate=1e-12, batch_size=64, epochs=1
        )
        rows = cached(x, sine(x), x[:8]).with_residual_share(share)
        assert_allclose(fit.bounds[0], Ascent(rows, Memory.none(1, 8)).bound(q, likelihood) / 64, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["point", "inverse gamma", "log-normal"])
def test_adam_climbs_to_the_same_bound(name):
    x = inputs(64)
    y = sine(x)
    inducing = np.linspace(-2, 2, 8)[:, None]
    likelihood, q = sparse.Gaussian(0.1), start(PRIORS[name], 1, 8, learn=True)
    natural = train(cached(x, y, inducing), likelihood, q, tolerance=1e-8)
    adam = train_adam(KERNEL, inducing, x, y, likelihood, q, learning_rate=0.05, batch_size=64, epochs=400)
    # it starts more than a nat per row below, and creeps along where noise and scale make up for one another
    assert adam.bounds[0] < natural.bound - 1.0
    assert natural.bound - 0.05 < adam.bounds[-1] < natural.bound + 1e-4


@pytest.mark.slow
def test_trained_inputs_and_kernel_raise_the_bound():
    x = inputs(96)
    y = (np.abs(x[:, 0]) * 1.4).astype(np.int64)
    inducing = x[:8]
    likelihood, q = sparse.Categorical(3), start(PRIORS["point"], 3, 8)
    fixed = train(cached(x, y, inducing), likelihood, q)
    adam = train_adam(
        KERNEL, inducing, x, y, likelihood, fixed.q, train_inputs=True, train_kernel=True, learning_rate=0.03, epochs=80
    )
    assert isinstance(adam.kernel.length_scale, float)
    assert not np.allclose(adam.inducing, inducing)
    assert adam.bounds[-1] > fixed.bound + 0.01
    features = sparse.Whitening.of(adam.kernel, adam.inducing).features(x)
    again = train(sparse.CachedRows.of(*features, y), adam.likelihood, adam.q)
    assert again.bound > adam.bounds[-1] - 0.01


def test_adam_names_divergence():
    x = inputs(32)
    q = start(wt.PointMass(1.0), 1, 4)
    with pytest.raises(FloatingPointError, match="learning_rate"):
        train_adam(KERNEL, x[:4], x, sine(x), sparse.Gaussian(0.1), q, learning_rate=1e6, epochs=8)
