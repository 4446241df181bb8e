"""Posteriors inside of jit, grad and vmap against those outside, which are tested against independent integrals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widetail as wt
from widetail.kernels import RBF

X = np.random.default_rng(0).normal(size=(12, 2))
Y = np.sin(X[:, 0]) + 0.1 * X[:, 1]
NEW = X[:3] + 0.1
CASES = {
    "scaled": (wt.ScaledNoise, wt.InverseGamma(2.0, 2.0)),
    "scaled, quadrature": (wt.ScaledNoise, wt.BurrXII(2.0, 2.0)),
    "independent": (wt.IndependentNoise, wt.PointMass(1.3)),
    "independent, quadrature": (wt.IndependentNoise, wt.InverseGamma(2.0, 2.0)),
}
QUICK = [name if "quadrature" not in name else pytest.param(name, marks=pytest.mark.slow) for name in CASES]


@pytest.mark.parametrize("case", QUICK)
def test_the_same_inside_and_outside_of_a_transformation(case):
    noise, prior = CASES[case]

    def ask(length, variance, y):
        process = wt.ScaleMixture(RBF(length), prior, noise(variance))
        dist = process.posterior(X, y)(NEW)
        return process.log_evidence(X, y), (dist.mean, dist.log_prob(y[:3]))

    with jax.enable_x64(True):
        (value, predicted), gradient = jax.jit(jax.value_and_grad(ask, argnums=(0, 1, 2), has_aux=True))(1.2, 0.1, Y)
    outside, expected = ask(1.2, 0.1, Y)
    assert value == pytest.approx(outside, abs=1e-10)
    for ours, theirs in zip(predicted, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)
    step = 1e-5
    for argument in (0, 1):
        up, down = [1.2, 0.1], [1.2, 0.1]
        up[argument] += step
        down[argument] -= step
        difference = (ask(*up, Y)[0] - ask(*down, Y)[0]) / (2 * step)
        assert gradient[argument] == pytest.approx(difference, abs=2e-6)
    direction = np.cos(np.arange(12.0))
    along = (ask(1.2, 0.1, Y + step * direction)[0] - ask(1.2, 0.1, Y - step * direction)[0]) / (2 * step)
    assert np.asarray(gradient[2]) @ direction == pytest.approx(along, abs=2e-6)


def test_many_hyperparameters_at_once_and_in_single_precision():
    def evidence(length):
        return wt.ScaleMixture(RBF(length), noise=wt.ScaledNoise(0.1)).log_evidence(X.astype(np.float32), Y)

    lengths = jnp.asarray([0.5, 1.0, 2.0])
    together = jax.jit(jax.vmap(evidence))(lengths)
    assert together.dtype == jnp.float32
    one_by_one = [wt.ScaleMixture(RBF(float(s)), noise=wt.ScaledNoise(0.1)).log_evidence(X, Y) for s in lengths]
    np.testing.assert_allclose(together, one_by_one, rtol=1e-4)


def test_what_cannot_be_factored_is_impossible():
    twice = np.concatenate([X, X])

    def evidence(variance):
        process = wt.ScaleMixture(RBF(10.0), noise=wt.ScaledNoise(variance))
        return process.log_evidence(twice, np.arange(24.0))

    with jax.enable_x64(True):
        assert jax.jit(evidence)(0.0) == -jnp.inf


def test_options_that_need_values_are_refused():
    def evidence(length):
        return wt.ScaleMixture(RBF(length)).posterior(X, Y, counts=np.ones(12)).log_evidence

    with pytest.raises(ValueError, match="inside of jit, grad and vmap"):
        jax.jit(evidence)(1.0)
    with pytest.raises(ValueError, match=r"y must have shape \(n,\) or \(n, outputs\) with n = 12"):
        jax.jit(lambda length: wt.ScaleMixture(RBF(length)).log_evidence(X, Y[:5]))(1.0)
