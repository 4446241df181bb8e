"""Programs from graphs of statements, without the language."""

import jax.numpy as jnp
import numpy as np
import pytest

from widetail import programs
from widetail.programs import ProgramError, explain, from_graph
from widetail.programs import statements as st

from .zoo import SHORT


def recurrent(input_shape):
    """The `rnn` of the library, by hand."""
    graph = st.Graph(input_shape)
    graph.add_random("W", "matrix", 1.6)
    graph.add_random("U", "input_matrix", 0.8)
    graph.add_random("b", "bias", 0.1)
    bias = graph.add(st.BiasVector("b"), name="b")
    state = None
    for position in range(input_shape[0]):
        terms = [st.Term(1.0, None, graph.add(st.InputProduct("U", position))), st.Term(1.0, None, bias)]
        if state is not None:
            terms.insert(0, st.Term(1.0, None, graph.add(st.MatMul("W", state))))
        state = graph.add(st.Nonlin(jnp.tanh, (graph.add(st.LinComb(tuple(terms))),)), name="h")
    graph.output = state
    return graph


def test_a_graph_is_a_program_like_any_other():
    program = from_graph(recurrent, SHORT.shape[1:], name="recurrent")
    np.testing.assert_array_equal(program.kernel(SHORT, get="nngp").nngp, programs.rnn.kernel(SHORT, get="nngp").nngp)
    assert program.with_variances(W=2.0).variances == {"W": 2.0, "U": 0.8, "b": 0.1}
    assert str(explain(program, (2, 3))).endswith(
        "readout of h.1\ncovariances needed between inputs (2): (g.1, g.1), (g.4, g.4)"
    )
    other = from_graph(recurrent, SHORT.shape[1:], name="recurrent")
    assert other.graph((2, 3)) is program.graph((2, 3))  # found again, with all that is compiled for it
    with pytest.raises(ValueError, match="no settings"):
        program(depth=3)


def graph_with(change):
    def make(input_shape):
        graph = st.Graph(input_shape)
        graph.add_random("U", "input_matrix", 1.0)
        g = graph.add(st.InputProduct("U", 0))
        graph.output = graph.add(st.Nonlin(jnp.tanh, (g,)))
        change(graph)
        return graph

    return make


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda graph: graph.add(st.MatMul("W", 1)), "needs a random of kind 'matrix'; none of that name"),
        (lambda graph: graph.add(st.MatMul("U", 1)), "kind 'matrix'; 'U' is of kind 'input_matrix'"),
        (lambda graph: graph.add(st.Average(7)), "reads variable 7, but there are 2 variables so far"),
        (lambda graph: graph.add(st.InputProduct("U", 3)), "reads position 3 of inputs with 1"),
        (lambda graph: graph.add_random("U", "bias", 1.0), "biases called 'U'; give each its own name$"),
        (lambda graph: graph.add_random("V", "bias", -1.0), "var must be"),
        (lambda graph: graph.add(st.LinComb((st.Term(1.0, 0, 1),))), "a scalar is expected; g .variable 0. is not one"),
        (lambda graph: graph.add(st.Nonlin(lambda z: jnp.exp(z**2), (0,))), "is not controlled"),
        (lambda graph: graph.add(st.Presence(0)), "masked=True"),
        (lambda graph: setattr(graph, "output", graph.add(st.Average(1))), "must be a vector of the graph; got 2"),
    ],
)
def test_wrong_graphs_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        from_graph(graph_with(change), (3,))


def test_a_graph_for_one_shape_says_so():
    graph = recurrent((2, 3))
    program = from_graph(lambda _: graph, (2, 3))
    with pytest.raises(ProgramError, match=r"made for inputs of shape \(2, 3\); got \(4, 3\)"):
        program.kernel(np.ones((2, 4, 3)))
