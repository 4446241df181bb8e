"""The layer without scikit-learn: arrays in, a model out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail import sparse

from .problems import KERNEL, inputs

OPTIONS = sparse.TrainingOptions(learn_likelihood=False, tolerance=1e-8, max_iterations=100)


def test_the_model_of_all_rows_is_that_of_exact_inference_and_of_rows_in_turn():
    x = inputs(24)
    y = np.sin(2 * x)
    prior, likelihood, new = wt.InverseGamma(2.0, 2.0), sparse.Gaussian(0.1), np.linspace(-2.0, 2.0, 5)[:, None]
    model = sparse.fit(KERNEL, prior, likelihood, x, y, inducing=x, options=OPTIONS)
    exact = wt.ScaleMixture(KERNEL, prior, wt.ScaledNoise(0.1)).posterior(x, y)
    assert_allclose(model.y(new).mean, exact(new).mean, atol=1e-3)
    assert_allclose(model.y(new).std, exact(new).std, rtol=1e-2)
    assert_allclose(model.fit.bound * 24, exact.log_evidence, atol=1e-3)
    first = sparse.fit(KERNEL, prior, likelihood, x[:10], y[:10, 0], inducing=x, options=OPTIONS)
    both = sparse.update(first, x[10:], y[10:, 0], options=OPTIONS)
    assert_allclose(both.y(new).mean, model.y(new).mean, atol=1e-3)
    assert_allclose(both.y(new).std, model.y(new).std, rtol=1e-3)
    assert both.memory.observations == 24


def test_bad_arguments_are_named():
    x = inputs(4)
    with pytest.raises(ValueError, match="as many rows"):
        sparse.fit(KERNEL, wt.PointMass(1.0), sparse.Gaussian(), x, np.zeros(3))
    with pytest.raises(ValueError, match="zeros and ones"):
        sparse.fit(KERNEL, wt.PointMass(1.0), sparse.Bernoulli(), x, np.full(4, 2.0))
    for name, value in {
        "scale": "best",
        "residual_share": 2.0,
        "epochs": 0,
        "kept_rows": -1,
        "tolerance": -1e-3,
    }.items():
        with pytest.raises(ValueError, match=name):
            sparse.TrainingOptions(**{name: value})


def test_models_in_files_go_on_learning(tmp_path):
    x = np.random.default_rng(0).uniform(-2.0, 2.0, (40, 1))
    y = np.sin(2 * x)
    prior, likelihood = wt.InverseGamma(2.0, 2.0), sparse.Gaussian(0.05)
    model = sparse.fit(wt.kernels.RBF(0.7), prior, likelihood, x[:30], y[:30], inducing=8)
    model.save(tmp_path / "model")
    again = sparse.load(tmp_path / "model")
    for one, other in zip(model.latent(x), again.latent(x), strict=True):
        assert np.array_equal(one, other)
    more, other = (sparse.update(start, x[30:], y[30:]) for start in (model, again))
    assert np.array_equal(more.q.mean, other.q.mean)
    data = bytearray((tmp_path / "model").read_bytes())
    data[-5] ^= 1
    (tmp_path / "flipped").write_bytes(data)
    with pytest.raises(ValueError, match=r"flipped.*damaged"):
        sparse.load(tmp_path / "flipped")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        sparse.load(tmp_path / "nowhere")
