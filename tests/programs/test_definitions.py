"""Small programs against what one computes by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from widetail import programs
from widetail.programs import program

X = np.random.default_rng(1).normal(size=(3, 4))
S = np.random.default_rng(2).normal(size=(3, 3, 2))


def kernel(fn, x=X):
    return fn.kernel(x, get="nngp").nngp


def inner(x1, x2):
    return x1 @ x2.T / x1.shape[1]


def expectation(f, covariance):
    """E[f(u, v)] of a Gaussian pair by Gauss-Legendre rules on either side of u = 0, where f may have a kink."""
    root = np.linalg.cholesky(covariance)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    half, half_weights = 5 * (nodes + 1), 5 * weights
    u, u_weights = np.concatenate([-half, half]), np.tile(half_weights, 2)
    v, v_weights = 10 * nodes, 10 * weights
    density = np.outer(u_weights * stats.norm.pdf(u), v_weights * stats.norm.pdf(v))
    return np.sum(density * f(root[0, 0] * u[:, None], root[1, 0] * u[:, None] + root[1, 1] * v[None, :]))


def test_a_linear_program():
    @program
    def linear(p, x):
        return p.matrix(3.0) @ (p.input_matrix(2.0) @ x + p.bias(0.5))

    np.testing.assert_allclose(kernel(linear), 3 * (2 * inner(X, X) + 0.5), rtol=1e-13)


def test_shared_and_separate_matrices():
    """W h + W h is twice W h; W h + V h is a sum of independent vectors."""

    @program
    def shared(p, x):
        W, h = p.matrix(1.5), p.input_matrix(2.0) @ x
        return W @ h + W @ h

    @program
    def separate(p, x):
        h = p.input_matrix(2.0) @ x
        return p.matrix(1.5) @ h + p.matrix(1.5) @ h

    np.testing.assert_allclose(kernel(shared), 4 * 1.5 * 2 * inner(X, X), rtol=1e-13)
    np.testing.assert_allclose(kernel(separate), 2 * 1.5 * 2 * inner(X, X), rtol=1e-13)


def test_a_shared_matrix_correlates_positions():
    @program
    def two(p, xs):
        U = p.input_matrix(2.0)
        return U @ xs[0] - 0.5 * (U @ xs[2])

    z = S[:, 0] - 0.5 * S[:, 2]
    np.testing.assert_allclose(kernel(two, S), 2 * inner(z, z), rtol=1e-12, atol=1e-15)


def test_a_recurrent_network_of_the_error_function():
    """The arc-sine formula, applied once per step, in plain NumPy."""

    @program
    def rnn(p, xs):
        W, U, b = p.matrix(1.3), p.input_matrix(0.7), p.bias(0.2)
        h = p.zeros()
        for x in xs:
            h = p.nonlin(jax.scipy.special.erf, W @ h + U @ x + b)
        return h

    expected = np.zeros((3, 3))
    for step in range(3):
        k = 1.3 * expected + 0.7 * inner(S[:, step], S[:, step]) + 0.2
        root = np.sqrt(1 + 2 * np.diagonal(k))
        expected = 2 / np.pi * np.arcsin(2 * k / np.outer(root, root))
    np.testing.assert_allclose(kernel(rnn, S), expected, rtol=1e-12)


def test_two_different_functions():
    @program
    def mixed(p, x):
        U = p.input_matrix(2.0)
        return p.nonlin(jax.nn.relu, U @ x) + p.nonlin(jnp.tanh, 0.5 * (U @ x) + p.bias(0.3))

    k = inner(X, X)
    (kii, kij), (_, kjj) = k[:2, :2]
    angle = np.arccos(kij / np.sqrt(kii * kjj))
    # the arc-cosine kernel, E[tanh tanh'], and E[relu tanh'] for either order of the two inputs
    expected = 2 * np.sqrt(kii * kjj) / (2 * np.pi) * (np.sin(angle) + (np.pi - angle) * np.cos(angle))
    cross = 0.5 * kij + 0.3
    expected += expectation(
        lambda u, v: np.tanh(u) * np.tanh(v), np.array([[0.5 * kii + 0.3, cross], [cross, 0.5 * kjj + 0.3]])
    )
    for first, second in ((kii, kjj), (kjj, kii)):
        covariance = np.array([[2 * first, kij], [kij, 0.5 * second + 0.3]])
        expected += expectation(lambda u, v: np.maximum(u, 0) * np.tanh(v), covariance)
    np.testing.assert_allclose(kernel(mixed)[0, 1], expected, rtol=1e-9)


def test_two_piecewise_linear_functions():
    @program
    def mixed(p, x):
        U = p.input_matrix(2.0)
        return p.matrix() @ (p.nonlin(jax.nn.relu, U @ x) - 0.5 * p.nonlin(jnp.abs, U @ x))

    # relu(z) - |z| / 2 = z / 2
    np.testing.assert_allclose(kernel(mixed), 0.25 * 2 * inner(X, X), rtol=1e-12, atol=1e-14)


def test_a_product_of_two_variables():
    """Isserlis: E[a b a' b'] of independent a and b is the product of their covariances."""

    @program
    def gated(p, x):
        return (p.input_matrix(2.0) @ x) * (p.input_matrix(0.7) @ x + p.bias(0.2))

    k = inner(X, X)
    np.testing.assert_allclose(kernel(gated), 2 * k * (0.7 * k + 0.2), rtol=1e-10, atol=1e-12)


def test_a_product_of_correlated_variables():
    @program
    def gated(p, xs):
        U = p.input_matrix(2.0)
        return (U @ xs[0]) * (U @ xs[1])

    a, b = S[:, 0], S[:, 1]
    aa, bb, ab = 2 * inner(a, a), 2 * inner(b, b), 2 * inner(a, b)
    # E[a b a' b'] = E[ab] E[a'b'] + E[aa'] E[bb'] + E[ab'] E[ba']
    expected = np.outer(np.diagonal(ab), np.diagonal(ab)) + aa * bb + ab * ab.T
    np.testing.assert_allclose(kernel(gated, S), expected, rtol=1e-9, atol=1e-11)


def test_a_function_of_five_variables_by_quasi_monte_carlo():
    """The mean of the product of two sums of squares of five variables each, which is known."""

    @program
    def energy(p, x):
        first, *rest = [p.input_matrix(1.0) @ x for _ in range(5)]
        return p.nonlin(lambda a, b, c, d, e: a * b + c * d + e, first, *rest)

    with pytest.warns(programs.QuasiMonteCarloWarning, match="quasi-Monte Carlo.*standard error"):
        found = kernel(energy)
    k = inner(X, X)
    error = max(entry.error for entry in energy.accuracy(X))
    assert error < 0.05
    np.testing.assert_allclose(found, 2 * k**2 + k, atol=6 * error)


def test_averages_over_the_width_become_numbers():
    @program
    def scaled(p, x):
        g = p.input_matrix(2.0) @ x + p.bias(0.1)
        return p.average(p.nonlin(jnp.abs, g)) * g + p.average(g * g) * p.ones()

    k = 2 * inner(X, X) + 0.1
    variance = np.diagonal(k)
    mean = np.sqrt(2 / np.pi * variance)
    np.testing.assert_allclose(kernel(scaled), np.outer(mean, mean) * k + np.outer(variance, variance), rtol=1e-12)


def test_a_mean_shifts_the_argument_of_a_function():
    @program
    def shifted(p, x):
        return p.nonlin(jnp.square, p.input_matrix(2.0) @ x + 0.7)

    k = 2 * inner(X, X)
    v = np.diagonal(k)
    # E[(m + a)^2 (m + b)^2] with E[a^2 b^2] = v v' + 2 k^2
    expected = 0.7**4 + 0.49 * np.add.outer(v, v) + 4 * 0.49 * k + np.outer(v, v) + 2 * k**2
    np.testing.assert_allclose(kernel(shifted), expected, rtol=1e-12)


def test_scalars_as_parameters_of_a_function():
    @program
    def warped(p, x):
        g = p.input_matrix(2.0) @ x
        return p.nonlin(lambda z, s: z * s, g, p.average(g * g))

    k = 2 * inner(X, X)
    np.testing.assert_allclose(kernel(warped), k * np.outer(np.diagonal(k), np.diagonal(k)), rtol=1e-12)


def test_softmax_of_scalars():
    @program
    def attend(p, xs):
        U = p.input_matrix(2.0)
        g = [U @ x for x in xs]
        return p.weighted_sum(p.softmax([p.average(g[0] * other) for other in g]), g)

    logits = 2 * np.einsum("nd,npd->np", S[:, 0], S) / 2
    weights = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    z = np.einsum("np,npd->nd", weights, S)
    np.testing.assert_allclose(kernel(attend, S), 2 * inner(z, z), rtol=1e-12, atol=1e-14)


@pytest.mark.slow
def test_only_what_the_readout_needs():
    """The last of 260 steps depends on one covariance per step; nothing overflows Python's stack."""
    x = np.random.default_rng(0).normal(size=(2, 260, 1))
    assert len(programs.rnn.needed_covariances((260, 1))) == 260
    assert np.all(np.isfinite(kernel(programs.rnn(fn=jax.scipy.special.erf), x)))


def test_the_readout_may_be_written_out():
    @program
    def explicit(p, x):
        v = p.readout()
        return v @ p.nonlin(jnp.tanh, p.input_matrix(2.0) @ x)

    np.testing.assert_array_equal(kernel(explicit), kernel(programs.mlp(depth=1, fn=jnp.tanh, bias_var=0.0)))


def test_variances_that_depend_on_the_shape_of_the_inputs():
    """A program is tried on small inputs when it is made; what it writes for other shapes still holds."""

    @program
    def mean_of_products(p, xs):
        W = p.matrix(1.0 / len(xs))
        U = p.input_matrix(1.0)
        return sum(W @ (U @ x) for x in xs)

    total = S.sum(axis=1)
    np.testing.assert_allclose(kernel(mean_of_products, S), inner(total, total) / 3, rtol=1e-12, atol=1e-14)
    doubled = mean_of_products.with_variances(W=2 * mean_of_products.variances["W"])
    np.testing.assert_allclose(kernel(doubled, S), 2 * inner(total, total) / 3, rtol=1e-12, atol=1e-14)


def test_a_graph_convolution_by_hand():
    """Three nodes in a row, one layer of the error function."""
    adjacency = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    net = programs.graph_convolution(adjacency=adjacency, depth=1, fn=jax.scipy.special.erf)
    assert set(net.variances) == {"U", "b"}
    degrees = np.array([2, 3, 2])
    smoothed = np.einsum("pq,nqd->npd", (adjacency + np.eye(3)) / np.sqrt(np.outer(degrees, degrees)), S)
    flat = smoothed.reshape(9, 2)
    k = 2.0 * inner(flat, flat) + 0.1
    root = np.sqrt(1 + 2 * np.diagonal(k))
    each = 2 / np.pi * np.arcsin(2 * k / np.outer(root, root))
    np.testing.assert_allclose(kernel(net, S), each.reshape(3, 3, 3, 3).mean(axis=(1, 3)), rtol=1e-12)


def test_powers_absolute_values_and_reciprocals():
    def spelt(p, x):
        g = p.input_matrix(0.5) @ x
        return g**2 + g**3 + abs(g) + 1 / (1 + g**2) + np.float64(2.0) * g

    def written_out(p, x):
        return p.nonlin(lambda z: z**2 + z**3 + jnp.abs(z) + 1 / (1 + z**2) + 2 * z, p.input_matrix(0.5) @ x)

    at_width = [program(fn).at_width(16) for fn in (spelt, written_out)]
    parameters = at_width[0].init(jax.random.key(0), (4,))
    found, expected = (net.apply(parameters, jnp.asarray(X, jnp.float32)) for net in at_width)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    squares = kernel(program(lambda p, x: (p.input_matrix(0.5) @ x) ** 2))
    k = 0.5 * inner(X, X)
    np.testing.assert_allclose(squares, np.outer(np.diagonal(k), np.diagonal(k)) + 2 * k**2, rtol=1e-12)
