"""Derivatives of the log evidence, for learning hyperparameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.priors.families import OWN_FAMILIES
from widetail import mixing, priors


def central_difference(function, x, step):
    return (function(x + step) - function(x - step)) / (2 * step)


@pytest.mark.parametrize(
    "name",
    [
        "Burr XII",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("inverse gamma", "log-normal", "gamma", "half-Cauchy", "beta prime")
        ),
    ],
)
def test_in_the_parameters_of_the_prior_and_the_data(name):
    prior, _ = OWN_FAMILIES[name]
    leaves, structure = jax.tree.flatten(prior)
    start = np.array([*leaves, 5.0, 0.7])

    def evidence(x):
        prior = jax.tree.unflatten(structure, list(x[:-2]))
        return mixing.scale_posterior(prior, mixing.ScaledNoiseLikelihood(9.0, x[-2], x[-1]), "quadrature").log_evidence

    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(evidence))(jnp.asarray(start))
    for i, unit in enumerate(np.eye(len(start))):
        numeric = central_difference(lambda h, unit=unit: evidence(start + h * unit), 0.0, 1e-5)
        np.testing.assert_allclose(gradient[i], numeric, rtol=1e-6, atol=1e-8)


def test_in_the_eigenvalues_and_the_noise():
    prior = priors.BurrXII(2.0, 1.0)
    lam, squares = np.array([3.0, 1.0, 0.0]), np.array([2.0, 0.5, 0.3])

    def evidence(lam, noise, squares):
        return mixing.scale_posterior(prior, mixing.IndependentNoiseLikelihood(lam, noise, squares)).log_evidence

    with jax.enable_x64(True):
        point = jnp.asarray(lam), jnp.asarray(0.2), jnp.asarray(squares)
        by_lam, by_noise, by_squares = jax.jit(jax.grad(evidence, argnums=(0, 1, 2)))(*point)
    assert np.all(np.isfinite(by_lam))
    np.testing.assert_allclose(by_noise, central_difference(lambda s: evidence(lam, s, squares), 0.2, 1e-5), rtol=1e-6)
    unit = np.array([0.0, 1.0, 0.0])
    numeric = central_difference(lambda h: evidence(lam + h * unit, 0.2, squares), 0.0, 1e-5)
    np.testing.assert_allclose(by_lam[1], numeric, rtol=1e-6)
    numeric = central_difference(lambda h: evidence(lam, 0.2, squares + h * unit), 0.0, 1e-5)
    np.testing.assert_allclose(by_squares[1], numeric, rtol=1e-6)


@pytest.mark.parametrize("quad", [0.0, 1e-300, 1e300])
def test_is_finite_at_the_ends(quad):
    def evidence(quad, a):
        prior = priors.LogNormal(a, 1.0)
        return mixing.scale_posterior(prior, mixing.ScaledNoiseLikelihood(3.0, quad)).log_evidence

    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(evidence, argnums=(0, 1)))(jnp.asarray(quad), jnp.asarray(0.1))
    assert np.all(np.isfinite(gradient))


@pytest.mark.slow
def test_through_vmap():
    prior = priors.HalfCauchy(1.3)

    def evidence(quad):
        return mixing.scale_posterior(prior, mixing.ScaledNoiseLikelihood(5.0, quad)).log_evidence

    quads = np.array([0.1, 3.0, 70.0])
    with jax.enable_x64(True):
        mapped = jax.vmap(evidence)(jnp.asarray(quads))
        slopes = jax.vmap(jax.grad(evidence))(jnp.asarray(quads))
    # traced, the nodes are not doubled until they agree
    np.testing.assert_allclose(mapped, evidence(quads), rtol=1e-11)
    np.testing.assert_allclose(slopes, central_difference(evidence, quads, 1e-4), rtol=1e-6)
