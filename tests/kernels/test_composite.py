"""Sums, products and kernels of vectors, against scikit-learn and against formulas written out."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.gaussian_process import kernels as reference

import widetail as wt
from widetail import nn
from widetail.kernels import (
    RBF,
    Anova,
    KernelValues,
    Linear,
    Matern,
    PowerExponential,
    RationalQuadratic,
    Scaled,
    Sum,
    from_config,
    to_config,
)

LENGTHS, PARTS = np.array([0.5, 1.0, 2.0]), np.array([0.3, 2.0, 1.1])


@pytest.fixture
def x():
    x = np.random.default_rng(0).normal(size=(20, 3))
    x[7] = x[3]
    return x


def gaussian(x):
    """The Gaussian kernel of every feature by itself, (features, n, n)."""
    distance = (x[:, None] - x[None]) / LENGTHS
    return np.moveaxis(np.exp(-0.5 * distance**2), -1, 0)


def test_sums_and_products(x):
    first, second = RBF(0.7), Linear(weight_var=1.5, bias_var=0.2)
    k1, k2 = first.kernel(x).nngp, second.kernel(x).nngp
    np.testing.assert_allclose((first + second).kernel(x).nngp, k1 + k2, rtol=1e-14)
    np.testing.assert_allclose((first * second).kernel(x).nngp, k1 * k2, rtol=1e-14)
    np.testing.assert_allclose((first * second + first).kernel(x, x[:4]).nngp, (k1 * k2 + k1)[:, :4], rtol=1e-13)
    np.testing.assert_allclose((first + second).diagonal(x).nngp, np.diagonal(k1 + k2), rtol=1e-14)
    np.testing.assert_allclose((first + first).kernel(x).nngp, 2 * k1, rtol=1e-14)


def test_the_sum_of_networks_is_the_network_with_both_as_branches(x):
    branches = nn.Sequential(nn.Dense(weight_var=1.3), nn.Erf()), nn.Sequential(nn.Dense(weight_var=0.5), nn.Relu())
    ours = (branches[0] + branches[1]).kernel(x)
    theirs = nn.Parallel(*branches, combine="concatenate").kernel(x)  # a readout over both halves: their average
    np.testing.assert_allclose(ours.nngp, 2 * theirs.nngp, rtol=1e-12)
    np.testing.assert_allclose(ours.ntk, 2 * theirs.ntk, rtol=1e-12)


def test_multiples(x):
    kernel, net = RBF(0.7), nn.Sequential(nn.Dense(weight_var=1.3), nn.Erf())
    np.testing.assert_allclose((2 * kernel).kernel(x).nngp, 2 * kernel.kernel(x).nngp, rtol=1e-15)
    np.testing.assert_allclose((kernel * np.float64(0.3)).diagonal(x).nngp, 0.3, rtol=1e-15)
    both, three = net.kernel(x), 3 * net
    np.testing.assert_allclose(three.kernel(x).nngp, 3 * both.nngp, rtol=1e-15)
    np.testing.assert_allclose(three.kernel(x).ntk, 3 * both.ntk, rtol=1e-15)
    # the readout of a network that is not a mere kernel: a wider output by the root of 3
    readout = nn.Sequential(*net.layers, nn.Dense(weight_var=3.0))
    np.testing.assert_allclose(three.kernel(x).nngp, readout.kernel(x).nngp, rtol=1e-12)
    assert from_config(to_config(three)) == three
    for bad in (0, -1.0, np.inf, True):
        with pytest.raises(ValueError, match="variance must be a positive number"):
            bad * kernel
    for bad in ("2", np.ones(3), None):
        with pytest.raises(TypeError):
            kernel * bad
        with pytest.raises(TypeError):
            bad * kernel
    assert isinstance(np.float64(2) * kernel, Scaled)
    with pytest.raises(ValueError, match="base must be a network or a kernel"):
        Scaled(2.0, kernel)


def test_a_sum_with_a_kernel_has_no_tangent_kernel(x):
    net = nn.Sequential(nn.Dense(), nn.Erf())
    assert (net + net).has_ntk
    assert not (net + RBF()).has_ntk
    assert not (net * net).has_ntk
    assert (net + RBF()).kernel(x).ntk is None
    with pytest.raises(ValueError, match="Product has no tangent kernel"):
        (net * net).kernel(x, get="ntk")


def test_what_cannot_be_added(x):
    with pytest.raises(TypeError):
        RBF() + 1.0  # type: ignore[operator]
    with pytest.raises(ValueError, match="second must be a network or a kernel"):
        Sum(RBF(), "rbf")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="x1 has 3 features, but length_scale has 2"):
        (RBF() + RBF(np.ones(2))).kernel(x)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (RationalQuadratic(0.8, 1.3, alpha=0.6), 1.3 * reference.RationalQuadratic(0.8, 0.6)),
        (PowerExponential(0.8, power=1.0), None),
        (PowerExponential(np.sqrt(2) * 0.8, power=2.0), reference.RBF(0.8)),
        (Linear(1.0, bias_var=0.49), reference.DotProduct(0.7)),
    ],
    ids=["rational quadratic", "power 1", "power 2", "linear"],
)
def test_values(ours, theirs, x):
    by_hand = np.exp(-np.sum(np.abs(x[:, None] - x[None]), -1) / 0.8)
    expected = by_hand if theirs is None else theirs(x)
    np.testing.assert_allclose(ours.kernel(x).nngp, expected, rtol=1e-12)
    np.testing.assert_allclose(ours.diagonal(x).nngp, np.diagonal(expected), rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_anova_is_the_sum_over_sets_of_features(order, x):
    k, price = gaussian(x) * PARTS[:, None, None], 0.4
    expected = np.ones((20, 20))
    for size in range(1, order + 1):
        for chosen in itertools.combinations(range(3), size):
            expected += price ** (size - 1) * np.prod(k[list(chosen)], axis=0)
    ours = Anova(LENGTHS, PARTS, order=order, interaction_var=price)
    np.testing.assert_allclose(ours.kernel(x).nngp, expected, rtol=1e-12)
    np.testing.assert_allclose(ours.diagonal(x).nngp, np.diagonal(expected), rtol=1e-12)


def test_anova_of_all_orders(x):
    k, a = gaussian(x), PARTS[:, None, None]
    ours = Anova(LENGTHS, PARTS)
    np.testing.assert_allclose(ours.kernel(x).nngp, np.prod((1 + a * k) / (1 + a), axis=0), rtol=1e-12)
    np.testing.assert_allclose(ours.diagonal(x).nngp, 1.0, rtol=1e-15)
    np.testing.assert_allclose(Anova(LENGTHS, 1e9).kernel(x).nngp, RBF(LENGTHS).kernel(x).nngp, rtol=1e-7, atol=1e-7)


KERNELS = {
    "anova": Anova(LENGTHS, PARTS),
    "anova 2": Anova(LENGTHS, PARTS, order=2),
    "power": PowerExponential(LENGTHS, power=np.array([1.2, 1.9, 2.0])),
    "rational quadratic": RationalQuadratic(LENGTHS, alpha=0.7),
    "linear": Linear(PARTS, bias_var=0.1),
    "multiple": 0.6 * RBF(LENGTHS) + Matern(),
    "sum of a product": RBF(LENGTHS) * Linear(PARTS, bias_var=0.1) + Matern(),
    "network and kernel": nn.Sequential(nn.Dense(weight_var=PARTS), nn.Erf()) * Linear(),
}


@pytest.mark.parametrize("name", KERNELS)
def test_semidefinite_and_differentiable(name, x):
    kernel = KERNELS[name]
    values = kernel.kernel(x).nngp
    np.testing.assert_array_equal(values, values.T)
    lowest, *_, highest = np.linalg.eigvalsh(values)
    assert lowest > -1e-12 * highest
    single = kernel.kernel(x.astype(np.float32)).nngp
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, values, rtol=2e-5, atol=1e-5)
    weights = np.random.default_rng(1).normal(size=(20, 20))
    pulled = kernel.pull_back(KernelValues(nngp=weights), x)
    with jax.enable_x64(True):
        traced = jax.jit(jax.grad(lambda kernel: jnp.vdot(kernel.kernel(x).nngp, weights)))(kernel)
    for ours, theirs in zip(jax.tree.leaves(pulled), jax.tree.leaves(traced), strict=True):
        assert np.all(np.isfinite(ours))
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


def test_bad_arguments(x):
    with pytest.raises(ValueError, match="power must be at most 2"):
        PowerExponential(power=2.1)
    with pytest.raises(ValueError, match="order must be a positive integer"):
        Anova(order=0)
    with pytest.raises(ValueError, match="part_var has 2 entries"):
        Anova(part_var=np.ones(2)).kernel(x)
    with pytest.raises(ValueError, match="alpha must be a positive number"):
        RationalQuadratic(alpha=-1.0)


@pytest.mark.parametrize("degree", [1, 2])
def test_trends_are_those_of_universal_kriging(degree):
    """With wide priors of the coefficients: generalised least squares, and a kernel around it."""
    rng = np.random.default_rng(0)
    points, new = np.sort(rng.uniform(-1, 1, 15)), np.array([-0.3, 2.0])
    y = 2.0 - points + 3.0 * points**2 + np.sin(5 * points)
    line = Linear(weight_var=1e5, bias_var=1e5)
    trend = line if degree == 1 else line * Linear(weight_var=1.0, bias_var=1.0)
    process = wt.ScaleMixture(trend + RBF(0.5), wt.PointMass(1.0), wt.ScaledNoise(0.01))
    found = process.posterior(points[:, None], y)(new[:, None])

    def rbf(a, b):
        return np.exp(-0.5 * ((a[:, None] - b) / 0.5) ** 2)

    inverse = np.linalg.inv(rbf(points, points) + 0.01 * np.eye(15))
    basis, basis_new = (np.vander(part, degree + 1) for part in (points, new))
    gram = np.linalg.inv(basis.T @ inverse @ basis)
    coefficients = gram @ basis.T @ inverse @ y
    cross = rbf(new, points) @ inverse
    left = basis_new - cross @ basis
    variance = 1.01 - np.sum(cross * rbf(new, points), axis=1) + np.sum((left @ gram) * left, axis=1)
    np.testing.assert_allclose(found.mean, basis_new @ coefficients + cross @ (y - basis @ coefficients), rtol=1e-3)
    np.testing.assert_allclose(found.var, variance, rtol=1e-3)
