"""Exact estimators on sequences and images, with networks and programs of the user's."""

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_digits

import widetail as wt
from widetail import nn, programs

RNN = programs.rnn(fn=nn.Relu())


@pytest.fixture(scope="module")
def sequences():
    rng = np.random.default_rng(0)
    x = rng.normal(3.0, 2.0, size=(40, 2, 2))
    return x, x[:, :, 0].sum(axis=1)


def test_sequences_through_a_program_and_a_file(sequences, tmp_path):
    x, y = sequences
    model = wt.ScaleMixtureRegressor(RNN, max_iterations=4).fit(x[:30], y[:30])
    assert model.score(x[30:], y[30:]) > 0.5
    assert model.process_.kernel.variances != RNN.variances  # learned
    model.save(tmp_path / "model")
    again = wt.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    assert again.process_.kernel.variances == model.process_.kernel.variances
    with pytest.raises(ValueError, match=r"X must hold inputs of shape \(2, 2\), as in fit; got \(2, 3\)"):
        model.predict(np.ones((1, 2, 3)))


def test_flags_of_packed_sequences_stay_flags(sequences):
    x, y = sequences
    packed = programs.pack([row[: 1 + number % 2] for number, row in enumerate(x)])
    model = wt.ScaleMixtureRegressor(programs.packed_rnn, learn=False, calibrate=False).fit(packed, y)
    assert set(np.unique(model.posterior_.x[..., -1])) == {0.0, 1.0}
    assert np.isfinite(model.predict(packed)).all()


def test_images_through_a_network():
    x, y = load_digits(return_X_y=True)
    x = x.reshape(-1, 8, 8, 1)
    model = wt.ScaleMixtureClassifier(nn.cnn(1), learn=False).fit(x[:150], y[:150])
    assert model.score(x[150:300], y[150:300]) > 0.8
    with pytest.raises(ValueError, match=r"inputs of shape \(8, 8, 1\), as in fit; got \(7, 8, 1\)"):
        model.predict(x[:2, :7])


def test_what_cannot_be(sequences, tmp_path):
    x, y = sequences
    with pytest.raises(ValueError, match="Found array with dim 3"):
        wt.ScaleMixtureRegressor().fit(x, y)

    @programs.program
    def mine(p, xs):
        return p.nonlin(jnp.tanh, p.input_matrix(1.0) @ xs[0])

    model = wt.ScaleMixtureRegressor(mine, learn=False, calibrate=False).fit(x, y)
    with pytest.raises(ValueError, match=r"mine\(\) cannot be saved: it is a function of your own"):
        model.save(tmp_path / "model")
    other = programs.mlp(fn=lambda z: jnp.tanh(3 * z))
    with pytest.raises(ValueError, match=r"fn=.* cannot be saved"):
        wt.kernels.to_config(other)
    fields = {"program": "os", "settings": {"dict": {}}, "variances": {"dict": {}}, "order": 64, "samples": 64}
    with pytest.raises(ValueError, match="no program called 'os'"):
        wt.kernels.from_config({"kind": "programs.Program", "fields": fields})
