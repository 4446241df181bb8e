"""Products of functions of Gaussian variables: against independent integrals, and honest about their errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from widetail import nn, programs
from widetail.kernels import KernelValues
from widetail.programs import program

X = np.random.default_rng(0).normal(size=(6, 2))
GATES = {
    "sigmoid": (jax.nn.sigmoid, lambda z: 1 / (1 + np.exp(-z))),
    "tanh": (jnp.tanh, np.tanh),
    "silu": (jax.nn.silu, lambda z: z / (1 + np.exp(-z))),
    "sin": (jnp.sin, np.sin),
}
# one that polynomials do not follow easily
QUICK = [("tanh", 16.0)]


def dual(fn, k):
    """E[fn(u) fn(v)] for all pairs of a covariance matrix: a trapezoidal rule of spacing 0.02 in both variables.

    The nodes are no quadrature for Hermite polynomials, and the functions are plain NumPy.
    """
    u = np.arange(-9, 9, 0.02)
    w = np.exp(-(u**2) / 2)
    w /= w.sum()
    out = np.empty_like(k)
    for i in range(len(k)):
        first = fn(np.sqrt(k[i, i]) * u)
        for j in range(i + 1):
            rest = max(k[j, j] - k[i, j] ** 2 / k[i, i], 0.0)
            inner = fn(k[i, j] / np.sqrt(k[i, i]) * u[:, None] + np.sqrt(rest) * u)
            out[i, j] = out[j, i] = (w * first) @ (inner @ w)
    return out


def gram(x):
    return x @ x.T / x.shape[1]


def is_positive(k, share=1e-10):
    values = np.linalg.eigvalsh(k)
    return values[0] >= -share * values[-1]


def with_its_options(program, x):
    """The kernel with the polynomials that `accuracy` speaks of; `kernel` takes more where they do not suffice."""
    with jax.enable_x64(True):
        rows = program.rows_fn("nngp")(jnp.asarray(x))
        return np.asarray(program.cross_fn("nngp")(rows, rows).nngp)


def assert_honest(program, x, exact):
    """The error is at most three times what `accuracy` says."""
    told = max(entry.error for entry in program.accuracy(x))
    assert np.abs(with_its_options(program, x) - exact).max() <= 3 * told


@pytest.mark.parametrize(
    ("name", "var"),
    [
        pytest.param(name, var, marks=[] if (name, var) in QUICK else pytest.mark.slow)
        for name in GATES
        for var in (1.0, 16.0)
    ],
)
@pytest.mark.filterwarnings("ignore::widetail.programs.AccuracyWarning")  # a bound: 9e-4 for tanh at variances of 80
def test_a_gate_times_an_independent_vector(name, var):
    """E[f f' b b'] = E[f f'] E[b b'], within what `accuracy` says, and positive semi-definite."""
    fn, reference = GATES[name]

    @program
    def gated(p, x):
        return p.nonlin(fn, p.input_matrix(var) @ x) * (p.input_matrix(0.5) @ x + p.bias(0.3))

    k = gated.kernel(X, get="nngp").nngp
    exact = dual(reference, var * gram(X)) * (0.5 * gram(X) + 0.3)
    assert_honest(gated, X, exact)
    np.testing.assert_allclose(k, exact, rtol=0, atol=1e-4 * exact.max())
    assert is_positive(gated.kernel(np.random.default_rng(1).normal(size=(40, 2)), get="nngp").nngp)


def test_sums_of_gates_are_multiplied_out():
    """(a + f(b)) (c - 2) with independent a, b, c: every expectation is a product of one-variable ones."""

    @program
    def gated(p, x):
        a, b, c = (p.input_matrix(v) @ x for v in (1.0, 2.0, 0.5))
        return (a + p.nonlin(jnp.sin, b)) * (c - 2.0)

    k = gram(X)
    # E[sin u sin v] = exp(-(k11 + k22) / 2) sinh(k12), and sin has mean zero
    v = 2 * np.diagonal(k)
    sines = np.exp(-0.5 * np.add.outer(v, v)) * np.sinh(2 * k)
    np.testing.assert_allclose(gated.kernel(X, get="nngp").nngp, (k + sines) * (0.5 * k + 4), rtol=1e-11, atol=1e-13)


def test_a_quotient_of_independent_vectors():
    @program
    def quotient(p, x):
        return (p.input_matrix(1.0) @ x) / (1.0 + p.nonlin(jnp.exp, p.input_matrix(0.3) @ x))

    expected = gram(X) * dual(lambda z: 1 / (1 + np.exp(z)), 0.3 * gram(X))
    np.testing.assert_allclose(quotient.kernel(X, get="nngp").nngp, expected, rtol=1e-9, atol=1e-12)


def four_dimensional(f, x, var, bias, nodes=48):
    """E[f(a, a + b) f(a', a' + b)] of a = U x and a bias b that both inputs share: three variables, Gauss-Hermite."""
    u, w = np.polynomial.hermite_e.hermegauss(nodes)
    w = w / w.sum()
    k = var * gram(x)
    b = np.sqrt(bias) * u
    out = np.empty_like(k)
    for i in range(len(k)):
        for j in range(len(k)):
            rest = max(k[j, j] - k[i, j] ** 2 / k[i, i], 0.0)
            a = np.sqrt(k[i, i]) * u
            other = (k[i, j] / np.sqrt(k[i, i]) * u)[:, None] + np.sqrt(rest) * u
            first = f(a[:, None], a[:, None] + b)  # (a, b)
            second = f(other[:, :, None], other[:, :, None] + b)  # (a, rest, b)
            out[i, j] = np.einsum("a,r,b,ab,arb->", w, w, w, first, second, optimize=True)
    return out


@pytest.fixture(scope="module")
def dependent():
    @program
    def gated(p, x):
        a = p.input_matrix(1.5) @ x
        return p.nonlin(jax.nn.sigmoid, a) * p.nonlin(jnp.tanh, a + p.bias(0.5))

    return gated


def test_a_gate_of_a_dependent_vector(dependent):
    x = X[:4]
    exact = four_dimensional(lambda a, b: np.tanh(b) / (1 + np.exp(-a)), x, 1.5, 0.5)
    k = dependent.kernel(x, get="nngp").nngp
    assert_honest(dependent, x, exact)
    assert max(entry.error for entry in dependent.accuracy(x)) < 1e-4 * k.max()
    twice = dependent.kernel(np.concatenate([x[:2], x[:2]]), get="nngp").nngp
    np.testing.assert_allclose(twice[:2, 2:], twice[:2, :2], rtol=1e-13)  # an input with its copy, and with itself
    assert is_positive(k, 1e-12)


def test_polynomials_of_dependent_vectors_are_exact():
    """Wick's formula for a b, and the tangent kernel from gradients: (a b)(a' b') with a = U x, b = U x + V x."""

    @program
    def product(p, x):
        a = p.input_matrix(1.5) @ x
        return a * (a + p.input_matrix(0.5) @ x)

    k = gram(X)
    aa, bb, ab = 1.5 * k, 2.0 * k, 1.5 * k
    v = np.diagonal(ab)
    found = product.kernel(X)
    expected = np.outer(v, v) + aa * bb + ab * ab
    np.testing.assert_allclose(found.nngp, expected, rtol=1e-12, atol=1e-13)
    # the gradients in U and V: E[(a + b)(a' + b')] 1.5 k + E[a a'] 0.5 k
    body = (aa + bb + 2 * ab) * 1.5 * k + aa * 0.5 * k
    np.testing.assert_allclose(found.ntk, expected + body, rtol=1e-12, atol=1e-13)


def test_what_polynomials_cannot_do_is_told():
    @program
    def steps(p, x):
        return p.nonlin(lambda z: jnp.where(z > 0.5, 1.0, 0.0), p.input_matrix(2.0) @ x)

    with pytest.warns(programs.AccuracyWarning, match=r"order 256.*leave out.*with_options"):
        steps.kernel(X[:2], get="nngp")


def step(z):
    return jnp.where(z > 0.5, 1.0, 0.0)


@program
def stepped(p, x):
    return p.nonlin(step, p.input_matrix(2.0) @ x)


@pytest.mark.filterwarnings("ignore::widetail.programs.AccuracyWarning")
def test_functions_that_jump_are_integrated_from_jump_to_jump():
    """Of a variable with itself, and of one with a mean, exactly; of pairs as nn.Elementwise says."""
    net = nn.Sequential(nn.Dense(weight_var=2.0), nn.Elementwise(step, order=256))
    found, layers = stepped.kernel(X), net.kernel(X)
    np.testing.assert_allclose(found.nngp, layers.nngp, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found.ntk, layers.ntk, rtol=1e-12, atol=1e-15)

    @program
    def of_two(p, x):
        return p.nonlin(step, 0.3 + p.input_matrix(2.0) @ x) * p.nonlin(jnp.tanh, p.input_matrix() @ x)

    deviation = np.sqrt(2 * np.diag(gram(X)))
    squares = scipy.special.ndtr(-0.2 / deviation) * dual(np.tanh, gram(X)).diagonal()
    np.testing.assert_allclose(of_two.diagonal(X, get="nngp").nngp, squares, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::widetail.programs.AccuracyWarning")
def test_every_way_to_ask_has_the_accuracy_of_kernel():
    """Sums, multiples, diagonals, gradients: all with as many polynomials, and all warn."""

    @program
    def steep(p, x):
        return p.nonlin(jnp.tanh, p.input_matrix(60.0) @ x)

    k = steep.kernel(X, get="nngp").nngp
    assert abs(steep.with_options(order=16).kernel(X, get="nngp").nngp - k).max() == 0
    own = steep.for_inputs(X)
    assert own.options.order == 256
    assert steep.options.order == 64
    np.testing.assert_array_equal((2.0 * steep).kernel(X, get="nngp").nngp, 2.0 * k)
    np.testing.assert_array_equal((steep + stepped * stepped).for_inputs(X).first.options.order, 256)
    np.testing.assert_array_equal(steep.diagonal(X, get="nngp").nngp, np.diag(k))
    cotangent = KernelValues(nngp=np.ones((len(X), len(X))))
    gradient = steep.pull_back(cotangent, X)
    assert jax.tree.structure(gradient) == jax.tree.structure(steep)
    more = [(name, float(value)) for name, value in steep.variances.items()]
    ((name, var),) = more
    ends = [own.with_variances(**{name: var * (1 + e)}).kernel(X, get="nngp").nngp.sum() for e in (1e-4, -1e-4)]
    np.testing.assert_allclose(gradient.variances[name], (ends[0] - ends[1]) / (2e-4 * var), rtol=1e-5)
    for ask in (steep.diagonal, (2.0 * steep).kernel, (steep + steep).diagonal):
        with pytest.warns(programs.AccuracyWarning, match="order 256"):
            ask(X, get="nngp")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.filterwarnings("ignore::widetail.programs.AccuracyWarning")
def test_random_gates_are_as_accurate_as_they_say(seed):
    rng = np.random.default_rng(seed)
    (fn, reference), (other, other_reference) = (GATES[name] for name in rng.choice(list(GATES), 2))
    first, second = rng.uniform(0.5, 16, 2)
    x = rng.normal(size=(8, 3))

    @program
    def gated(p, x):
        return p.nonlin(fn, p.input_matrix(first) @ x) * p.nonlin(other, p.input_matrix(second) @ x)

    exact = dual(reference, first * gram(x)) * dual(other_reference, second * gram(x))
    assert_honest(gated.with_options(order=16), x, exact)
    k = gated.kernel(x, get="nngp").nngp
    np.testing.assert_allclose(k, exact, rtol=0, atol=1e-4 * exact.max())
    assert is_positive(k)
