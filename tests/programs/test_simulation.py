"""Limits by quasi-Monte Carlo against the exact ones, and against themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from widetail import programs
from widetail.programs.limits import simulated

from .zoo import CASES, GRU, named

SAMPLES = 4096


def simulate(program, x1, x2=None):
    """Both kernels of a program that has exact ones, by simulation."""
    with jax.enable_x64(True):
        inputs = tuple(jnp.asarray(x) for x in (x1, x2) if x is not None)
        graphs = tuple(program.graph(x.shape[1:]) for x in inputs)
        variances = program.variances_of(graphs[0])
        found = simulated(graphs, variances, inputs, SAMPLES, tangent=True)
        return tuple(np.asarray(values).mean(axis=0) for values in found)


def close(found, expected, tolerance=0.02):
    """Within 2 % of the largest entry: several standard errors at this many points."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize(
    "name",
    [
        "layer_norm_mlp",
        *(
            pytest.param(case.name, marks=pytest.mark.slow)
            for case in CASES
            if case.name not in ("layer_norm_mlp", "cnn_2d")
        ),
    ],
)
def test_what_can_be_done_exactly_is_simulated_right(name):
    case = named(name)
    x = case.inputs()
    exact = case.program.kernel(x)
    nngp, ntk = simulate(case.program, x, x[:4])
    close(nngp, exact.nngp[:, :4])
    close(ntk, exact.ntk[:, :4])
    own, own_tangent = simulate(case.program, x)
    close(own, np.diagonal(exact.nngp))
    close(own_tangent, np.diagonal(exact.ntk))


@pytest.fixture(scope="module")
def gru():
    return programs.gru.with_options(samples=2048)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::widetail.programs.QuasiMonteCarloWarning")
def test_equal_inputs_and_parts_of_a_matrix(gru):
    """An input with its copy is its variance. Exchanging two inputs exchanges their points: equal up to the error."""
    x = np.concatenate([GRU.x, GRU.x[:1]])
    k = gru.kernel(x, get="nngp").nngp
    np.testing.assert_allclose(k[0, -1], k[0, 0], rtol=1e-10)
    np.testing.assert_allclose(np.diagonal(k), gru.diagonal(x, get="nngp").nngp, rtol=1e-10)
    close(gru.kernel(x[:3], x[3:], get="nngp").nngp, k[:3, 3:])
    close(gru.kernel(x[3:], x[:3], get="nngp").nngp, k[3:, :3])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::widetail.programs.QuasiMonteCarloWarning")
def test_gradients_of_a_simulated_kernel(gru):
    with jax.enable_x64(True):
        x = jnp.asarray(GRU.x[:3])

        def total(weight_var):
            return jnp.sum(gru.with_variances(Wz=weight_var).kernel(x, get="nngp").nngp)

        step = 1e-5
        numeric = (total(1.0 + step) - total(1.0 - step)) / (2 * step)
        np.testing.assert_allclose(jax.grad(total)(1.0), numeric, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::widetail.programs.QuasiMonteCarloWarning")
def test_more_points_come_closer_and_the_error_says_how_close(gru):
    x = np.random.default_rng(2).normal(size=(4, 3, 3))
    best = gru.with_options(samples=2**16).kernel(x, get="nngp").nngp
    distances = []
    for samples in (512, 8192):
        program = gru.with_options(samples=samples)
        distances.append(np.abs(program.kernel(x, get="nngp").nngp - best).max())
        assert distances[-1] < 5 * max(entry.error for entry in program.accuracy(x))
    assert distances[1] < distances[0] / 2
