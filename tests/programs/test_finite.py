"""Finite networks against the kernel that is predicted for them."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widetail import programs

from .zoo import CASES, GRU, RAGGED, named, over

NETWORKS = 8


def limit(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", programs.QuasiMonteCarloWarning)
        return case.program.kernel(case.x, get="nngp").nngp


def relative_errors(case, width, networks=NETWORKS):
    """Relative errors (Frobenius) of single networks, and of the mean over all of them."""
    expected = limit(case)
    f, x = case.program.at_width(width), jnp.asarray(case.x, jnp.float32)
    found = []
    for seed in range(networks):
        h = np.asarray(f.features(f.init(jax.random.key(seed), case.x.shape[1:]), x), float)
        found.append(h @ h.T / width)
    size = np.linalg.norm(expected)
    singles = [np.linalg.norm(k - expected) / size for k in found]
    return np.mean(singles), np.linalg.norm(np.mean(found, axis=0) - expected) / size


@pytest.mark.slow
@over([*CASES, GRU])
def test_wider_networks_come_closer(case):
    """Single networks: the error falls like width^-1/2, by 4 from 128 to 2048 (between 2 and 8 for so few of them).

    The mean of 8 networks of width 2048 is within 5 %.
    """
    narrow, _ = relative_errors(case, 128)
    middle, _ = relative_errors(case, 512)
    wide, mean = relative_errors(case, 2048)
    assert wide < middle < narrow
    assert 2 < narrow / wide < 8
    assert mean < 0.05


@over([named(name) for name in ("tied_mlp", "packed_rnn")])
def test_a_wide_network_is_close(case):
    single, mean = relative_errors(case, 512, networks=4)
    assert single < 0.2
    assert mean < 0.12


def test_parameters_and_outputs():
    f = programs.rnn.at_width(16, outputs=2, parametrisation="standard")
    parameters = f.init(jax.random.key(0), (4, 3))
    assert {name: value.shape for name, value in parameters["body"].items()} == {
        "W": (16, 16),
        "U": (3, 16),
        "b": (16,),
    }
    x = jnp.asarray(named("rnn").x, jnp.float32)
    assert f.apply(parameters, x).shape == (5, 2)
    assert f.features(parameters, x).shape == (5, 16)


def test_both_parametrisations_are_the_same_functions():
    x = jnp.asarray(named("rnn").x, jnp.float32)
    outputs = []
    for parametrisation in ("ntk", "standard"):
        f = programs.rnn.at_width(16, parametrisation=parametrisation)
        outputs.append(f.apply(f.init(jax.random.key(3), (4, 3)), x))
    np.testing.assert_allclose(*outputs, rtol=1e-5)


def test_a_finite_rnn_by_hand():
    f = programs.rnn.at_width(16, parametrisation="standard")
    parameters = f.init(jax.random.key(0), (4, 3))
    W, U, b = (np.asarray(parameters["body"][name], float) for name in "WUb")
    x = named("rnn").x
    h = np.zeros((5, 16))
    for step in range(4):
        h = np.tanh(h @ W + x[:, step] @ U + b)
    np.testing.assert_allclose(f.features(parameters, jnp.asarray(x, jnp.float32)), h, atol=2e-5)


def test_padding_does_not_change_a_finite_network():
    """Every sequence through `rnn` by itself, with the parameters of `packed_rnn`."""
    packed = programs.packed_rnn.at_width(16)
    x = jnp.asarray(programs.pack(RAGGED), jnp.float32)
    parameters = packed.init(jax.random.key(0), x.shape[1:])
    found = packed.apply(parameters, x)
    for row, sequence in zip(found, RAGGED, strict=True):
        alone = programs.rnn.at_width(16).apply(parameters, jnp.asarray(sequence[None], jnp.float32))
        np.testing.assert_allclose(row, alone[0], rtol=1e-4, atol=1e-5)


# Random programs. A program is ordinary Python, so the very same function also runs on NumPy arrays: an interpreter
# that shares nothing with the library.


class NumpyBuilder:
    """The `p` of a program, with matrices that are matrices."""

    def __init__(self, width, features, seed):
        self.width, self.features = width, features
        self.rng = np.random.default_rng(seed)

    def matrix(self, var):
        return self.rng.normal(size=(self.width, self.width)).astype(np.float32) * np.float32(np.sqrt(var / self.width))

    def input_matrix(self, var):
        shape = (self.width, self.features)
        return self.rng.normal(size=shape).astype(np.float32) * np.float32(np.sqrt(var / self.features))

    def bias(self, var):
        return self.rng.normal(size=(self.width, 1)).astype(np.float32) * np.float32(np.sqrt(var))

    def nonlin(self, fn, *arguments):
        return np.asarray(fn(*map(jnp.asarray, arguments)))

    def average(self, vector):
        return vector.mean(axis=0)


FUNCTIONS = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "erf": jax.scipy.special.erf,
    "sin": jnp.sin,
    "softplus": jax.nn.softplus,
}


def random_program(plan):
    """A program from a list of choices: layers with two shared matrices or new ones, sums, averages."""

    def run(p, x):
        U = p.input_matrix(1.5)
        pool = [p.matrix(1.2), p.matrix(0.8)]
        b = p.bias(0.2)
        g, h = U @ x + b, None
        for name, matrix, skip, scaled in plan:
            h = p.nonlin(FUNCTIONS[name], g)
            new = pool[matrix] @ h if matrix < 2 else p.matrix(1.0) @ h
            if scaled:
                new = p.average(h * h) * new
            g = new + 0.5 * g if skip else new + b
        return h

    return run


choices = st.tuples(st.sampled_from(sorted(FUNCTIONS)), st.integers(0, 2), st.booleans(), st.booleans())
WIDTH, RANDOM_NETWORKS, STANDARD_ERRORS, BIAS = 512, 12, 5, 8


def check_random_program(plan):
    """Entries may differ by 5 standard errors of the mean of 12 networks of width 512, and by the bias of that width.

    The bias is bounded by 8 / width of the largest entry.
    """
    run = random_program(plan)
    x = np.random.default_rng(5).normal(size=(3, 4))
    expected = programs.program(run).kernel(x, get="nngp").nngp
    found = []
    for seed in range(RANDOM_NETWORKS):
        h = run(NumpyBuilder(WIDTH, 4, seed), x.T.astype(np.float32)).astype(float)
        found.append(h.T @ h / WIDTH)
    error = np.std(found, axis=0, ddof=1) / np.sqrt(RANDOM_NETWORKS)
    allowed = STANDARD_ERRORS * error + BIAS / WIDTH * np.max(expected)
    assert np.all(np.abs(np.mean(found, axis=0) - expected) < allowed), (plan, expected, np.mean(found, axis=0), error)


@pytest.mark.slow
@settings(max_examples=3)
@given(st.lists(choices, min_size=1, max_size=3))
def test_random_programs_against_networks_of_numpy(plan):
    check_random_program(plan)


@pytest.mark.slow
@settings(max_examples=20)
@given(st.lists(choices, min_size=1, max_size=6))
def test_deep_random_programs_against_networks_of_numpy(plan):
    check_random_program(plan)
