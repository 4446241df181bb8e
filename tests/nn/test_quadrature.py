"""How accurate duals by quadrature are; the docstring of nn.Elementwise quotes these numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from widetail import nn

from .activations import BY_QUADRATURE, CLOSED_FORMS
from .integrals import expectation

TANH, _, SILU, _ = BY_QUADRATURE
RELU = CLOSED_FORMS[0]
CORRELATIONS = np.array([-1, -0.999, -0.97, -0.8, -0.5, 0, 0.5, 0.8, 0.97, 0.999, 1])

# function, variance, and per order the error of the dual and of the dual of the derivative
STATED = [
    (jnp.tanh, TANH, 1.0, {32: (6e-9, 2e-7), 64: (2e-12, 2e-10), 128: (1e-14, 1e-14)}),
    (jnp.tanh, TANH, 4.0, {32: (1e-5, 4e-4), 64: (2e-7, 1e-5), 128: (4e-10, 4e-8)}),
    (jnp.tanh, TANH, 25.0, {32: (2e-3, 3e-2), 64: (2e-4, 6e-3), 128: (1e-5, 8e-4)}),
    (jax.nn.silu, SILU, 4.0, {32: (5e-9, 1e-7), 64: (2e-12, 8e-11), 128: (1e-14, 1e-14)}),
    (jax.nn.silu, SILU, 25.0, {32: (1e-5, 4e-4), 64: (3e-7, 2e-5), 128: (2e-9, 3e-7)}),
    (jax.nn.relu, RELU, 1.0, {32: (2e-6, 2e-4), 64: (3e-7, 5e-5), 128: (2e-7, 3e-5)}),
]


def errors(fn, order, variance, exact, exact_slope):
    layer = nn.Elementwise(fn, order=order)

    @jax.jit
    def evaluate(variances, k):
        statistics = layer.statistics(variances)
        return layer.dual_and_slope(k, statistics, statistics)

    with jax.enable_x64(True):
        dual, slope = evaluate(np.full(len(CORRELATIONS), variance), CORRELATIONS * variance)
    found = np.asarray(dual), np.asarray(slope)
    return [np.max(np.abs(a - b)) / b[-1] for a, b in zip(found, (exact, exact_slope), strict=True)]


# the same formulas at another variance, or for another smooth function, are left to the slow tests
@pytest.mark.parametrize(
    ("fn", "sample", "variance", "stated"),
    [pytest.param(*s, id=f"{s[1].layer}-{s[2]}", marks=[] if s[2] == 1.0 else pytest.mark.slow) for s in STATED],
)
def test_errors_are_as_stated(fn, sample, variance, stated):
    exact, exact_slope = (
        np.array([expectation(f, variance, variance, c, angles=300) for c in CORRELATIONS])
        for f in (sample.function, sample.derivative)
    )
    for order, limits in stated.items():
        for error, limit in zip(errors(fn, order, variance, exact, exact_slope), limits, strict=True):
            assert error < 1.6 * limit + 2e-14, (order, error, limit)  # the numbers have one digit


@pytest.mark.parametrize("order", [4, 8])
def test_low_orders_are_limited_by_the_polynomial_alone(order):
    """A cubic is exact from four polynomials on, whatever the number of nodes."""
    layer = nn.Elementwise(lambda z: z**3 - z, order=order)
    with jax.enable_x64(True):
        dual, slope = jax.jit(lambda k, a, b: layer.dual_and_slope(k, layer.statistics(a), layer.statistics(b)))(
            jnp.asarray(0.4), jnp.asarray(1.0), jnp.asarray(2.0)
        )
    first, second, k = 1.0, 2.0, 0.4
    cubes = 6 * k**3 + 9 * first * second * k
    np.testing.assert_allclose(dual, cubes - 3 * first * k - 3 * second * k + k, rtol=1e-13)
    np.testing.assert_allclose(slope, 18 * k**2 + 9 * first * second - 3 * first - 3 * second + 1, rtol=1e-13)


@pytest.mark.parametrize("variance", [0.1, 25.0])
@pytest.mark.parametrize("fn", [jnp.tanh, jax.nn.relu, jnp.sign])
def test_positive_semi_definite_and_exact_for_equal_inputs(fn, variance):
    rng = np.random.default_rng(0)
    x = np.sqrt(variance) * rng.normal(size=(12, 2))
    k = nn.Sequential(nn.Dense(weight_var=2.0), nn.Elementwise(fn, order=6)).kernel(np.concatenate([x, x[:2], -x[:2]]))
    for values in k:
        assert np.linalg.eigvalsh(values)[0] > -1e-10 * np.trace(values)
    np.testing.assert_allclose(k.nngp[0, 12], k.nngp[0, 0], rtol=1e-13)
    if fn is not jax.nn.relu:  # odd functions
        np.testing.assert_allclose(k.nngp[0, 14], -k.nngp[0, 0], rtol=1e-13)


def test_named_functions_are_elementwise_ones():
    x = np.random.default_rng(1).normal(size=(5, 3))
    for named, fn in ((nn.Tanh(order=8), jnp.tanh), (nn.Sigmoid(order=8), jax.nn.sigmoid)):
        first = nn.Sequential(nn.Dense(weight_var=2.0, bias_var=0.1), named).kernel(x)
        second = nn.Sequential(nn.Dense(weight_var=2.0, bias_var=0.1), nn.Elementwise(fn, order=8)).kernel(x)
        for a, b in zip(first, second, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("layer", [nn.Tanh, nn.Sigmoid])
def test_an_order_that_no_memory_holds_is_refused_before_it_is_tried(layer):
    with pytest.raises(ValueError, match="at most 4096; got 1000000000"):
        layer(order=10**9)


def _half_tanh(z):
    return jnp.where(z > 0, jnp.tanh(z), 0.0)  # with a kink at zero


@pytest.mark.parametrize("deviation", [20.0, 1e3, 1e6])
def test_large_inputs_are_exact_for_equal_ones(deviation):
    """All that tanh does is within a millionth of the standard deviation of its argument then."""
    z = np.linspace(0, 40, 400_001)
    within = 1 / np.cosh(z) ** 2
    density = 2 * scipy.stats.norm.pdf(z / deviation) / deviation
    found, slope = nn.Tanh().at_equal(jnp.asarray(deviation**2, jnp.float32))
    np.testing.assert_allclose(found, 1 - scipy.integrate.trapezoid(within * density, z), rtol=1e-6)
    np.testing.assert_allclose(slope, scipy.integrate.trapezoid(within**2 * density, z), rtol=1e-5)
    x = np.array([[deviation], [-deviation]])
    half = nn.Elementwise(_half_tanh)
    found, slope = half.at_equal(jnp.asarray(deviation**2, jnp.float32))
    np.testing.assert_allclose(found, 0.5 - 0.5 * scipy.integrate.trapezoid(within * density, z), rtol=1e-6)
    np.testing.assert_allclose(slope, 0.5 * scipy.integrate.trapezoid(within**2 * density, z), rtol=1e-5)
    k = nn.Sequential(nn.Dense(weight_var=1.0), nn.Tanh()).kernel(x)
    exact = deviation**2 * scipy.integrate.trapezoid(within**2 * density, z)
    np.testing.assert_allclose(k.ntk - k.nngp, exact * np.array([[1, -1], [-1, 1]]), rtol=1e-7)
