"""Limits of models as people write them: against layers, against programs, against finite draws of the models."""

import warnings

import jax
import numpy as np
import pytest

import widetail as wt
from tests.widening.cases import CASES, inputs, widened
from tests.widening.models import equinox_models, plain_models
from widetail import nn, programs

QUICK = ("equinox mlp", "gated", "skip concatenation")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CASES])
def test_agrees_with_layers_and_with_finite_draws(name):
    case, x = CASES[name], inputs(name, 3)
    wide = widened(name)
    assert case.engine in wide.info.engine
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", programs.QuasiMonteCarloWarning)
        warnings.simplefilter("ignore", programs.AccuracyWarning)
        values = wide.kernel(x)
        if case.same is not None:
            expected = case.same.kernel(x)
            np.testing.assert_allclose(values.nngp, expected.nngp, rtol=1e-5)
            np.testing.assert_allclose(values.ntk, expected.ntk, rtol=1e-3)
        found = wide.check(x, (256,), draws=60)
    # second moments of 60 draws at width 256, within 5 of their standard errors
    assert found.agrees, str(found)


@pytest.mark.parametrize("name", ["two layers", pytest.param("equinox cnn", marks=pytest.mark.slow)])
def test_both_engines_agree(name):
    x = inputs(name, 3)
    layers, program = widened(name, engine="nn").kernel(x), widened(name, engine="program").kernel(x)
    np.testing.assert_allclose(program.nngp, layers.nngp, rtol=1e-6)
    np.testing.assert_allclose(program.ntk, layers.ntk, rtol=1e-6)


def test_weights_that_are_tied_are_those_of_the_program():
    @programs.program
    def tied(p, x):
        u, w = p.input_matrix(), p.matrix()
        h = p.nonlin(jax.numpy.tanh, u @ x)
        return p.nonlin(jax.numpy.tanh, w @ p.nonlin(jax.numpy.tanh, w @ h))

    x = inputs("tied", 3)
    mine, theirs = widened("tied").kernel(x), tied.kernel(x)
    np.testing.assert_allclose(mine.nngp, theirs.nngp, rtol=1e-6)
    np.testing.assert_allclose(mine.ntk, theirs.ntk, rtol=1e-6)


def test_it_is_a_kernel_as_any_other():
    x = inputs("equinox mlp", 6)
    y = np.sin(x[:, 0])
    wide = widened("equinox mlp")
    process = wt.ScaleMixture(wide, prior=wt.InverseGamma(2.0, 2.0), noise=wt.ScaledNoise(1e-2))
    same = wt.ScaleMixture(nn.mlp(2, "relu"), prior=wt.InverseGamma(2.0, 2.0), noise=wt.ScaledNoise(1e-2))
    np.testing.assert_allclose(process.posterior(x, y)(x[:2]).mean, same.posterior(x, y)(x[:2]).mean, rtol=1e-6)


def test_the_users_model_comes_back():
    wide = widened("equinox mlp")
    finite = wide.at_width(8)
    params = finite.init(jax.random.key(0))
    model = finite.model(params)
    x = inputs("equinox mlp").astype(np.float32)
    np.testing.assert_allclose(finite.apply(params, x), jax.vmap(model)(x), rtol=1e-5)
    assert model.layers[0].weight.shape == (8, 3)


def test_explain_names_parameters_and_lines():
    text = widened("tied").explain()
    assert "w  matrix, entries N(0, 1 / fan-in)" in text
    assert "plain_models.py" in text
    assert "readout: v, variance 1" in text
    assert "nn.Relu()" in widened("equinox mlp").explain()


def test_variances_from_init():
    wide = wt.widen(plain_models.two_layers, (3,), variances="from_init")
    assert wide.info.variances["w2"] == pytest.approx(1.0, rel=0.05)
    assert wide.info.variances["w1"] == pytest.approx(1.0, rel=0.1)


@pytest.mark.slow
def test_uniform_weights_of_equinox_have_a_third():
    wide = wt.widen(equinox_models.mlp, (3,), variances="from_init")
    assert wide.info.variances["layers.1.weight"] == pytest.approx(1 / 3, rel=0.05)
    assert wide.info.variances["layers.1.bias"] == 0
