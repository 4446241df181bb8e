"""Programs on top of networks against networks of all their layers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from widetail import nn, programs
from widetail.programs import statements as st

NETWORK = nn.Sequential(
    nn.Conv(3, weight_var=2.0, bias_var=0.1), nn.Relu(), nn.Conv(3, weight_var=2.0, bias_var=0.1)
)  # fmt: skip


def program(graph):
    return programs.on_network(NETWORK, programs.from_graph(lambda shape: graph, (4, 1)), (4, 3))


def inputs():
    rng = np.random.default_rng(0)
    return rng.normal(size=(5, 4, 3)), rng.normal(size=(3, 4, 3))


def of_every_position():
    graph = st.Graph((4, 1))
    graph.add_random("w", "matrix", 1.5)
    found = []
    for position in range(4):
        h = graph.add(st.Nonlin(nn.Tanh(), (graph.add(st.Given(position)),)))
        found.append(graph.add(st.Nonlin(nn.Relu(), (graph.add(st.MatMul("w", h)),))))
    graph.output = graph.add(st.LinComb(tuple(st.Term(0.25, None, h) for h in found)))
    return program(graph)


def test_is_what_layers_are():
    whole = nn.Sequential(*NETWORK.layers, nn.Tanh(), nn.Conv(1, weight_var=1.5), nn.Relu(), nn.GlobalAvgPool())
    kernel, (x1, x2) = of_every_position(), inputs()
    for other in (None, x2):
        found, expected = kernel.kernel(x1, other), whole.kernel(x1, other)
        np.testing.assert_allclose(found.nngp, expected.nngp, rtol=1e-12)
        np.testing.assert_allclose(found.ntk, expected.ntk, rtol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(x1, get="ntk").ntk, whole.kernel(x1).ntk.diagonal(), rtol=1e-12)


def test_functions_of_many_positions_are_simulated():
    graph = st.Graph((4, 1))
    given = tuple(graph.add(st.Given(position)) for position in range(4))
    graph.output = graph.add(st.Nonlin(lambda *g: jnp.tanh(sum(g)), given))
    whole = nn.Sequential(*NETWORK.layers, nn.GlobalSumPool(), nn.Tanh())
    x1, x2 = inputs()
    for other in (None, x2):
        with pytest.warns(programs.QuasiMonteCarloWarning):
            found = program(graph).kernel(x1, other)
        expected = whole.kernel(x1, other)
        # 8,192 points of quasi-Monte Carlo
        np.testing.assert_allclose(found.nngp, expected.nngp, atol=0.01)
        np.testing.assert_allclose(found.ntk, expected.ntk, rtol=0.03)


def test_gradients_reach_the_network():
    x1, _ = inputs()

    def of(network, value):
        changed = nn.Sequential(nn.Conv(3, weight_var=value, bias_var=0.1), *NETWORK.layers[1:])
        rebuilt = programs.on_network(changed, network.program, (4, 3))
        return jnp.sum(rebuilt.kernel(jnp.asarray(x1), get="ntk").ntk)

    with jax.enable_x64(True):
        kernel = of_every_position()
        slope = jax.grad(lambda value: of(kernel, value))(2.0)
        step = 1e-5
        expected = (of(kernel, 2.0 + step) - of(kernel, 2.0 - step)) / (2 * step)
    np.testing.assert_allclose(slope, expected, rtol=1e-6)


def test_what_does_not_fit_is_refused():
    graph = st.Graph((4, 1))
    graph.output = graph.add(st.Nonlin(jnp.tanh, (graph.add(st.Given(0)),)))
    with pytest.raises(ValueError, match="must end in random weights"):
        programs.on_network(
            nn.Sequential(nn.Dense(), nn.Relu()), programs.from_graph(lambda shape: graph, (4, 1)), (3,)
        )
    with pytest.raises(ValueError, match=r"positions \(5,\) of it, and the program takes 4"):
        program(graph).kernel(np.ones((2, 5, 3)))
