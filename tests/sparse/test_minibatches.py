"""Minibatches: stochastic natural gradients, and Adam through the kernel."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail import sparse
from widetail.sparse import Ascent, Sites, train, train_adam, variances
from widetail.sparse._minibatch import minibatch_step, moments_of, refresh, variational_of

from .problems import KERNEL, PRIORS, cached, inputs, scattered, sine, start


def test_a_minibatch_of_all_rows_is_the_full_step():
    x = inputs(64)
    rows = cached(x, (np.abs(x[:, 0]) * 1.4).astype(np.int64), x[:8])
    q = scattered(start(PRIORS["inverse gamma"], 3, 8))
    likelihood, ascent = sparse.Categorical(3), Ascent(rows, Sites.none(3, 8))
    nodes, precision = ascent.nodes(q, likelihood), q.law.mean_precision
    with jax.enable_x64(True):
        numbers = (np.float64(precision), np.float64(1.0), np.float64(0.5))
        moments, bound = minibatch_step(
            likelihood, moments_of(q, "float64"), rows.features, rows.residual, rows.y, nodes, *numbers
        )
        root = np.asarray(refresh(moments).root)
    stepped = variational_of(moments, q.law)
    found = ascent.totals(q, likelihood, variances(rows, q))
    expected = ascent.covariance_step(q, found.curvature, 0.5)
    assert_allclose(float(bound) - q.law.divergence, ascent.bound(q, likelihood), rtol=1e-9)
    assert_allclose(stepped.precision, expected.precision, rtol=1e-9)
    direction = np.einsum("cmk,ck->cm", q.covariance, found.slope - precision * q.mean) / precision
    assert_allclose(stepped.mean, q.mean + 0.5 * direction, rtol=1e-8)
    assert_allclose(root, expected.root, rtol=1e-6, atol=1e-9)


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
    again = train(sparse.Rows.of(*features, y), adam.likelihood, adam.q)
    assert again.bound > adam.bounds[-1] - 0.01


def test_adam_names_divergence():
    x = inputs(32)
    q = start(wt.PointMass(1.0), 1, 4)
    with pytest.raises(FloatingPointError, match="learning_rate"):
        train_adam(KERNEL, x[:4], x, sine(x), sparse.Gaussian(0.1), q, learning_rate=1e6, epochs=8)
