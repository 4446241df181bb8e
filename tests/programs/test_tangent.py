"""Tangent kernels of programs, against gradients of their finite networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from widetail import kernels, nn, programs

from .zoo import GRU, SEQUENCES, SHORT, named


def gradients_products(program, x, width, keys):
    """Inner products of the gradients of finite networks, one matrix for each key."""
    finite = program.at_width(width)
    x = jnp.asarray(x, jnp.float32)

    @jax.jit
    def one(key):
        parameters = finite.init(key, x.shape[1:])
        jacobian = jax.jacobian(lambda own: finite.apply(own, x)[:, 0])(parameters)
        rows = [leaf.reshape(len(x), -1) for leaf in jax.tree.leaves(jacobian)]
        return sum(row @ row.T for row in rows)

    return np.stack([np.asarray(one(key), np.float64) for key in keys])


@pytest.mark.parametrize(
    ("program", "x", "width", "networks"),
    [
        pytest.param(programs.rnn(fn=nn.Erf()), SHORT, 256, 24, id="rnn"),
        pytest.param(GRU.program, SHORT[:, :1], 512, 12, id="gru", marks=pytest.mark.slow),
        pytest.param(programs.tied_mlp, named("tied_mlp").x, 512, 24, id="tied_mlp", marks=pytest.mark.slow),
        pytest.param(programs.transformer, SEQUENCES, 256, 24, id="transformer", marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore::widetail.programs.QuasiMonteCarloWarning")
def test_finite_networks_have_it_as_their_mean(program, x, width, networks):
    """Within 4 standard errors of the mean over networks, and 2 % for what the width leaves."""
    found = program.kernel(x, get="ntk").ntk
    keys = jax.random.split(jax.random.key(0), networks)
    samples = gradients_products(program, x, width, keys)
    error = samples.std(axis=0, ddof=1) / np.sqrt(networks)
    assert np.all(np.abs(samples.mean(axis=0) - found) <= 4 * error + 0.02 * np.abs(found).max())
    # the readout alone, or a sum that counts every use of a matrix by itself, would not pass
    assert np.max(np.abs(program.kernel(x, get="nngp").nngp - found)) > 0.2 * np.abs(found).max()


def test_several_arguments_are_weighted_by_their_slopes():
    """For a product of two independent inputs, by hand: K = k^2 and its tangent 2 k k, plus the readout's own."""

    @programs.program
    def product(p, x):
        first, second = p.input_matrix(var=1.5) @ x, p.input_matrix(var=0.5) @ x
        return p.nonlin(jnp.multiply, first, second)

    x = np.array([[1.0, 2.0], [-0.5, 1.0], [1.0, 2.0]])
    gram = x @ x.T / 2
    values = product.kernel(x)
    np.testing.assert_allclose(values.nngp, 0.75 * gram**2, rtol=1e-12)
    np.testing.assert_allclose(values.ntk, 3 * 0.75 * gram**2, rtol=1e-12)
    np.testing.assert_allclose(product.diagonal(x).ntk, 3 * 0.75 * np.diag(gram) ** 2, rtol=1e-12)


def test_gradients_go_through_it():
    x = SHORT[:3]
    weights = np.random.default_rng(0).normal(size=(3, 3))
    program = programs.rnn(fn=nn.Erf())
    found = program.pull_back(kernels.KernelValues(ntk=weights), x)
    step = 1e-5

    def loss(var):
        return float(np.sum(weights * program.with_variances(W=var).kernel(x, get="ntk").ntk))

    at = float(program.variances["W"])
    difference = (loss(at + step) - loss(at - step)) / (2 * step)
    np.testing.assert_allclose(found.variances["W"], difference, rtol=1e-6)
