"""nn.Elementwise with functions that jump or have kinks, against exact probabilities of Gaussian pairs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
from numpy.testing import assert_allclose

from widetail import nn
from widetail.gaussian import find_breaks

CORRELATIONS = np.array([-1, -0.999, -0.8, 0, 0.5, 0.97, 0.999, 1])
# function, what it is far to the left, where it jumps and by how much
STEPS: dict[str, Any] = {
    "step": (lambda z: jnp.where(z > 0.5, 1.0, 0.0), 0.0, [0.5], [1.0]),
    "left": (lambda z: jnp.where(z > -1.3, 2.0, -1.0), -1.0, [-1.3], [3.0]),
    "sign": (jnp.sign, -1.0, [0.0], [2.0]),
    "bump": (lambda z: jnp.where(jnp.abs(z) < 0.7, 1.0, 0.0), 0.0, [-0.7, 0.7], [1.0, -1.0]),
    "near": (lambda z: jnp.where(z > 0.012, 3.0, jnp.where(z > 0.011, 1.0, 0.0)), 0.0, [0.011, 0.012], [1.0, 2.0]),
}


def both_above(a, b, c):
    """The probability that two unit variables of correlation c are above a and b."""
    if c == 1:
        return scipy.special.ndtr(-max(a, b))
    if c == -1:
        return max(0.0, scipy.special.ndtr(-a) - scipy.special.ndtr(b))
    return scipy.stats.multivariate_normal.cdf([-a, -b], cov=[[1, c], [c, 1]], abseps=1e-12, releps=1e-12)


def exact(left, places, sizes, std1, std2, c):
    jumps = list(zip(places, sizes, strict=True))
    single = sum(j * (scipy.special.ndtr(-t / std1) + scipy.special.ndtr(-t / std2)) for t, j in jumps)
    pairs = sum(j * k * both_above(t / std1, r / std2, c) for t, j in jumps for r, k in jumps)
    return left**2 + left * single + pairs


def duals(fn, variances, c, order=64):
    """Duals of equal variances and all correlations, (variances, correlations), and those of a variable with itself."""
    layer = nn.Elementwise(fn, order=order)

    @jax.jit
    def compute(v, c):
        statistics = layer.statistics(v)
        columns = jax.tree.map(lambda a: a[..., None], statistics)
        return layer.dual(v[:, None] * c, columns, columns), layer.at_equal(v)[0]

    with jax.enable_x64(True):
        return [np.asarray(a) for a in compute(jnp.asarray(variances), jnp.asarray(c))]


# a step elsewhere takes the same way as "step"
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in ("left", "sign") else n for n in STEPS]
)
def test_steps_have_the_probabilities_of_gaussian_pairs(name):
    fn, *form = STEPS[name]
    variances = np.array([0.3, 1.0, 4.0])
    found, equal = duals(fn, variances, CORRELATIONS)
    right = np.array([[exact(*form, v**0.5, v**0.5, c) for c in CORRELATIONS] for v in variances])
    assert_allclose(equal, right[:, -1], rtol=1e-12)
    assert_allclose(found[:, -1], equal, rtol=1e-12)
    assert_allclose(found[:, 0], right[:, 0], atol=1e-12 * equal.max())
    worst = np.max(np.abs(found - right) / equal[:, None], axis=1)
    # as the docstring says; the bump is 1.4 wide, 0.7 standard deviations at the last variance
    assert np.all(worst < (6.5e-3 if name in ("bump", "near") else 3e-3)), worst


@pytest.mark.parametrize(("fn", "offset"), [(jnp.round, 0.5), pytest.param(jnp.floor, 0.0, marks=pytest.mark.slow)])
def test_stairs(fn, offset):
    places = np.arange(-12, 12) + offset
    form = (-12.0, places, np.ones(24))
    found, equal = duals(fn, np.array([0.5, 2.0]), np.array([0.9, 1.0]))
    right = np.array([[exact(*form, v**0.5, v**0.5, c) for c in (0.9, 1.0)] for v in (0.5, 2.0)])
    assert_allclose(equal, right[:, 1], rtol=1e-12)
    assert_allclose(found, right, rtol=1e-3)


@pytest.mark.parametrize(
    "fn",
    [
        pytest.param(lambda z: jnp.where(z > 0, z, 0.0), marks=pytest.mark.slow),
        jax.nn.relu,
        lambda z: jnp.abs(z - 0.4) + 1.0,
    ],
)
def test_kinks_are_exact_for_equal_inputs(fn):
    variances = np.array([0.3, 4.0])
    found, equal = duals(fn, variances, np.array([0.5, 1.0]))
    z = np.linspace(-14, 14, 2_000_001)
    weights = scipy.stats.norm.pdf(z) * (z[1] - z[0])
    for i, v in enumerate(variances):
        right = weights @ np.asarray(fn(v**0.5 * z), dtype=np.float64) ** 2
        assert_allclose([equal[i], found[i, 1]], right, rtol=1e-7)  # float32 in, outside of x64
    if fn is jax.nn.relu:
        assert_allclose(found[:, 0], nn.Relu().dual(*_relu_arguments(variances, 0.5)), rtol=1e-6)


def _relu_arguments(variances, c):
    statistics = nn.Relu().statistics(jnp.asarray(variances))
    return jnp.asarray(c * variances), statistics, statistics


def test_lengths_of_inputs_move_the_jump():
    """The dual of a step of two variances, its gradient, and what a network makes of it."""
    fn, *form = STEPS["step"]
    layer = nn.Elementwise(fn)
    with jax.enable_x64(True):

        def dual(v1, v2, c):
            return layer.dual(c * jnp.sqrt(v1 * v2), layer.statistics(v1), layer.statistics(v2))

        value, slope = jax.jit(jax.value_and_grad(dual))(1.0, 2.0, 0.6)
    assert_allclose(value, exact(*form, 1.0, 2**0.5, 0.6), rtol=1e-9)
    ends = [exact(*form, (1 + e) ** 0.5, 2**0.5, 0.6) for e in (-1e-3, 1e-3)]
    assert_allclose(slope, (ends[1] - ends[0]) / 2e-3, rtol=1e-4)


def test_kernels_are_positive_semi_definite():
    x = np.random.default_rng(0).normal(size=(60, 2))
    x = np.concatenate([x, x[:5], -x[:5], 1.001 * x[:5]])
    k = nn.Sequential(nn.Dense(), nn.Elementwise(STEPS["step"][0], order=16)).kernel(x, get="nngp").nngp
    assert np.linalg.eigvalsh(k)[0] > -1e-12 * len(x)
    assert_allclose(np.diag(k), scipy.special.ndtr(-0.5 / np.sqrt((x**2).mean(1))), rtol=1e-12)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_breaks_are_found_wherever_they_are(seed):
    rng = np.random.default_rng(seed)
    places = np.sort(rng.choice([-1, 1], 5) * 10.0 ** rng.uniform(-3, 4, 5))
    sizes = rng.choice([-1, 1], 5) * rng.uniform(0.5, 2, 5)
    jumps = list(zip(places, sizes, strict=True))
    found = find_breaks(lambda z: jnp.tanh(z) + sum(jnp.where(z > t, j, 0.0) for t, j in jumps))
    assert found.level == 0
    assert_allclose(found.points, np.sort(np.abs(places)), rtol=1e-9)


@pytest.mark.parametrize(
    "fn", [jnp.tanh, jax.nn.gelu, jax.nn.softplus, jnp.exp, lambda z: jnp.tanh(1e3 * z), lambda z: jnp.sqrt(jnp.abs(z))]
)
def test_smooth_and_steep_functions_have_none(fn):
    assert find_breaks(fn) == ((), None)


def test_functions_of_traced_numbers_count_as_smooth():
    seen = []
    jax.jit(lambda t: seen.append(find_breaks(lambda z: jnp.where(z > t, 1.0, 0.0))) or t)(0.3)
    assert seen == [((), None)]
