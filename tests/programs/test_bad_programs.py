"""Programs that the theory does not cover, and inputs that do not fit, are refused at the line that is to blame."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from widetail import nn, programs
from widetail.programs import ProgramError, program

X = np.ones((2, 3))
S = np.ones((2, 4, 3))


def transpose(p, x):
    W, h = p.matrix(), p.input_matrix() @ x
    return W.T @ (W @ h)  # to blame


def transpose_from_the_left(p, x):
    W, h = p.matrix(), p.input_matrix() @ x
    return h @ W  # to blame


def readout_inside(p, x):
    v = p.readout()
    return p.matrix() @ v  # to blame


def readout_in_a_sum(p, x):
    v = p.readout()
    return p.input_matrix() @ x + v  # to blame


def computing_with_the_output(p, x):
    f = p.readout() @ (p.input_matrix() @ x)
    return f + f  # to blame


def not_controlled(p, x):
    g = p.input_matrix() @ x
    return p.nonlin(lambda z: jnp.exp(z**2), g)  # to blame


def slowly_not_controlled(p, x):
    g = p.input_matrix() @ x
    return p.nonlin(lambda z: jnp.exp(0.05 * z**2), g)  # to blame


def not_controlled_in_one_of_two(p, x):
    g, f = p.input_matrix() @ x, p.input_matrix() @ x
    return p.nonlin(lambda a, b: jnp.tanh(a) * jnp.exp(b**4), g, f)  # to blame


def not_defined_everywhere(p, x):
    g = p.input_matrix() @ x
    return p.nonlin(jnp.log, g)  # to blame


def not_entry_by_entry(p, x):
    g = p.input_matrix() @ x
    return p.nonlin(jnp.sum, g)  # to blame


def wrong_number_of_arguments(p, x):
    g = p.input_matrix() @ x
    return p.nonlin(lambda a, b: a * b, g)  # to blame


def numpy_function(p, x):
    g = p.input_matrix() @ x
    return p.nonlin(lambda z: np.tanh(np.asarray(z.tolist())), g)  # to blame


def hidden_matrix_on_an_input(p, x):
    W = p.matrix()
    return W @ x  # to blame


def input_matrix_on_a_hidden_vector(p, x):
    U = p.input_matrix()
    return U @ (U @ x)  # to blame


def nonlinearity_of_an_input(p, x):
    return p.nonlin(jnp.tanh, x)  # to blame


def sum_with_an_input(p, x):
    return p.input_matrix() @ x + x  # to blame


def sum_with_an_array(p, x):
    return p.input_matrix() @ x + np.ones(3)  # to blame


def product_of_matrices(p, x):
    W, V = p.matrix(), p.matrix()
    return (W @ V) @ (p.input_matrix() @ x)  # to blame


def sum_of_matrices(p, x):
    W, V = p.matrix(), p.matrix()
    return (W + V) @ (p.input_matrix() @ x)  # to blame


def negative_variance(p, x):
    W = p.matrix(var=-1.0)  # to blame
    return W @ (p.input_matrix() @ x)


def branch_on_a_value(p, x):
    g = p.input_matrix() @ x
    return g if g else -g  # to blame


def presence_without_mask(p, x):
    return x.present * (p.input_matrix() @ x)  # to blame


def entry_of_a_vector(p, x):
    h = p.input_matrix() @ x
    return h[0]  # to blame


def one_over_a_gaussian(p, x):
    return 1 / (p.input_matrix() @ x)  # to blame


def function_of_jax(p, x):
    h = p.input_matrix() @ x
    return jnp.tanh(h)  # to blame


def function_of_numpy(p, x):
    h = p.input_matrix() @ x
    return np.tanh(h)  # to blame


def transpose_of_numpy(p, x):
    W = p.matrix()
    return np.transpose(W)  # to blame


def shape_of_an_input(p, x):
    return p.input_matrix(1.0 / x.shape[0]) @ x  # to blame


def jax_on_an_input(p, x):
    return p.input_matrix() @ jnp.sin(x)  # to blame


def power_of_a_matrix(p, x):
    return p.matrix() ** 2  # to blame


def rectifier_of_jax(p, x):
    h = p.input_matrix() @ x
    return jax.nn.relu(h)  # to blame


def number_to_the_power_of_a_vector(p, x):
    h = p.input_matrix() @ x
    return 2**h  # to blame


def remainder(p, x):
    h = p.input_matrix() @ x
    return h % 1.0  # to blame


def comparison(p, x):
    h = p.input_matrix() @ x
    return p.nonlin(jnp.where, h > 0, h, h)  # to blame


def number_of_a_vector(p, x):
    h = p.input_matrix() @ x
    return float(h) * h  # to blame


def division_by_zero(p, x):
    h = p.input_matrix() @ x
    return h / 0.0  # to blame


BAD = {
    rectifier_of_jax: r"a function of JAX, called on a vector: write p.nonlin\(fn, h\)",
    number_to_the_power_of_a_vector: "this operator, applied to a G-variable: write p.nonlin",
    remainder: "this operator, applied to a G-variable: write p.nonlin",
    comparison: "this operator, applied to a G-variable: write p.nonlin",
    number_of_a_vector: "a plain number made of a G-variable: write p.nonlin",
    division_by_zero: "a division by zero of a G-variable",
    entry_of_a_vector: r"an entry of a G-variable.*choose a position of the inputs",
    one_over_a_gaussian: "a division by a G-variable.*keeps off zero",
    function_of_jax: r"a function of JAX, called on a G-variable: write p.nonlin\(fn, h\)",
    function_of_numpy: r"np.tanh of a G-variable: write p.nonlin\(jnp.tanh, h\)",
    transpose_of_numpy: "np.transpose of the matrix W: a matrix is only ever multiplied",
    shape_of_an_input: r"\.shape of an input: multiply it by an input matrix first",
    jax_on_an_input: "a function of JAX, called on an input: multiply it by an input matrix",
    power_of_a_matrix: "arithmetic with the matrix.*only ever multiplied with a vector",
    transpose: "transpose of the matrix W.*not covered",
    transpose_from_the_left: "only a matrix stands on its left",
    readout_inside: "readout vector.*independent",
    readout_in_a_sum: "readout vector.*independent",
    computing_with_the_output: "the readout ends a program",
    not_controlled: "not controlled",
    slowly_not_controlled: "not controlled",
    not_controlled_in_one_of_two: "not controlled",
    not_defined_everywhere: "NaN for some real arguments",
    not_entry_by_entry: "must act entry by entry",
    wrong_number_of_arguments: "cannot be called on 1 arguments",
    hidden_matrix_on_an_input: "cannot take an input; make it with p.input_matrix",
    input_matrix_on_a_hidden_vector: "cannot take a hidden vector; use p.matrix",
    nonlinearity_of_an_input: "cannot take an input itself",
    sum_with_an_input: "multiply it by an input matrix first",
    sum_with_an_array: "must be a vector or a number; got ndarray",
    product_of_matrices: "only products with vectors",
    sum_of_matrices: "only ever multiplied with a vector",
    negative_variance: "var must be a number, zero or larger; got -1.0",
    branch_on_a_value: "is not known when the program is written down",
    presence_without_mask: "masked=True",
}


# From Python 3.13 on the compiled part of JAX first says, on stderr, that it looked and was refused; then it raises.
@pytest.mark.filterwarnings("ignore:Exception ignored in PyObject_HasAttr")
@pytest.mark.parametrize("fn", BAD, ids=[fn.__name__ for fn in BAD])
def test_the_message_points_at_the_line(fn):
    with pytest.raises(ProgramError, match=f"(?s){BAD[fn]}") as caught:
        program(fn).kernel(X)
    text, first = inspect.getsourcelines(fn)
    blamed = first + next(number for number, line in enumerate(text) if "# to blame" in line)
    assert caught.value.place is not None
    assert caught.value.place.line == blamed
    assert f"test_bad_programs.py:{blamed}" in str(caught.value)
    assert "# to blame" in str(caught.value)


def test_controlled_functions_are_accepted():
    for fn in (jnp.exp, jax.nn.softplus, lambda z: z**9, lambda z: jnp.exp(jnp.abs(z) ** 1.5), jnp.sign):

        @program
        def fine(p, x, fn=fn):
            return p.nonlin(fn, p.input_matrix(0.1) @ x)

        assert np.all(np.isfinite(fine.kernel(X, get="nngp").nngp))


def test_inputs_that_do_not_fit():
    with pytest.raises(ProgramError, match=r"(?s)x1 of shape .n, 3. does not fit the program rnn.*no positions"):
        programs.rnn.kernel(X)
    with pytest.raises(ProgramError, match=r"(?s)x1 of shape .n, 4, 3. does not fit the program mlp.*one position"):
        programs.mlp.kernel(S)
    with pytest.raises(ProgramError, match=r"adjacency has shape .2, 2., but the inputs have 4 nodes"):
        programs.graph_convolution(adjacency=((0, 1), (1, 0))).kernel(S)
    with pytest.raises(ValueError, match="must agree in all axes but the first"):
        programs.rnn.kernel(S, S[:, 1:])


def test_what_a_program_may_return(as_users_call):
    def nothing(p, x):
        p.input_matrix() @ x

    with pytest.raises(ProgramError, match=r"must return a vector.*returned NoneType None"):
        program(nothing)


def test_variables_of_another_run():
    kept = []

    def leaky(p, xs):
        kept.append(p.matrix())
        return kept[0] @ (p.input_matrix() @ xs[0])

    with pytest.raises(ProgramError, match="belongs to another program, or to another run"):
        program(leaky).kernel(np.ones((2, 7, 3)))


def test_arguments_and_settings(as_users_call):
    with pytest.raises(ProgramError, match="a function of p and the inputs"):
        program(lambda p: p)
    with pytest.raises(ValueError, match=r"has no settings .'width'."):
        programs.rnn(width=3)
    with pytest.raises(ValueError, match=r"has no variances .'V'."):
        programs.rnn.with_variances(V=1.0)
    with pytest.raises(ValueError, match="W must be a number, zero or larger"):
        programs.rnn.with_variances(W=-1.0)
    with pytest.raises(ValueError, match="samples must be a power of two"):
        programs.rnn.with_options(samples=1000)
    with pytest.raises(ValueError, match="width must be a positive integer"):
        programs.rnn.at_width(0)
    with pytest.raises(ProgramError, match=r"call it, nn.Relu"):
        programs.mlp(fn=nn.Relu)
    with pytest.raises(ValueError, match="with_variances"):
        jax.grad(lambda v: programs.rnn(weight_var=v).kernel(S, get="nngp").nngp.sum())(1.0)
    with pytest.raises(ValueError, match="explain needs a program"):
        programs.explain(nn.Relu(), (3,))


def test_sequences_that_cannot_be_packed(as_users_call):
    with pytest.raises(ValueError, match="at least one array"):
        programs.pack([])
    with pytest.raises(ValueError, match=r"sequences\[1\] must have shape"):
        programs.pack([np.ones((2, 3)), np.ones(3)])
    with pytest.raises(ValueError, match=r"sequences\[0\] has 3, sequences\[1\] has 2"):
        programs.pack([np.ones((2, 3)), np.ones((2, 2))])
    with pytest.raises(ValueError, match="float32 or float64; got int64"):
        programs.pack([np.ones((2, 3), int)])
