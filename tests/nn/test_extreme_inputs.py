"""Random networks on zero, equal, opposite, tiny, huge and shifted inputs, against 60-digit arithmetic."""

import numpy as np
import pytest

from widetail import nn
from widetail.kernels import RBF, Matern

from . import high_precision

WAVES = [
    lambda rng: nn.Sin(frequency=rng.uniform(0.3, 2), phase=rng.choice([0.0, 0.4])),
    lambda rng: nn.Cos(frequency=rng.uniform(0.3, 2)),
    lambda rng: nn.Rbf(gamma=rng.uniform(0.1, 1)),
]
BOUNDED = [*WAVES, lambda rng: nn.Erf(), lambda rng: nn.Sign()]
UNBOUNDED = [
    lambda rng: nn.Relu(),
    lambda rng: nn.LeakyRelu(negative_slope=0.2),
    lambda rng: nn.Abs(),
    lambda rng: nn.Gelu(),
]
# Of these a network with one layer is exact on inputs of any size, in single precision too.
OF_DISTANCES = {
    "gaussian": nn.Gaussian(0.5),
    "gabor": nn.Gabor(),
    "erf": nn.Erf(),
    "sigmoid-like": nn.SigmoidLike(),
    "gelu": nn.Gelu(),
}
OTHERS = {
    "exp-normalized": nn.ExpNormalized(0.7),
    "squared relu": nn.RectifiedMonomial(2),
    "polynomial": nn.Polynomial([0.1, 1.0, 0.3]),
    "hermite": nn.Hermite(3),
}
SMALL = [*OF_DISTANCES.values(), nn.ExpNormalized(0.7), nn.ABRelu(0.2, 0.9), nn.RectifiedMonomial(0), nn.Sin()]


def random_network(rng, first, later):
    """A wave, or something else, on the inputs, and up to two more hidden layers."""

    def pick(kinds):
        return kinds[rng.integers(len(kinds))](rng)

    def dense():
        return nn.Dense(weight_var=rng.uniform(0.5, 2), bias_var=rng.choice([0.0, 0.1, 0.5]))

    layers = [dense(), pick(first)]
    for _ in range(rng.integers(0, 3)):
        layers += [dense(), *([nn.Residual(pick(later), dense())] if rng.random() < 0.25 else []), pick(later)]
    return nn.Sequential(*layers)


def extreme_inputs(rng):
    x = rng.normal(size=(9, 3))
    x[1], x[2], x[3] = x[0], -x[0], 0
    x[4] *= 1e-8
    x[5] *= 1e6
    x[6], x[7] = x[5], -x[5]
    x[8] = 1e4 + x[8]
    return x


def worst_error(net, x):
    """The largest error of an entry, as a fraction of the standard deviations that belong to it."""
    worst = 0.0
    for found, exact in zip(net.kernel(x), high_precision.kernels(net, x), strict=True):
        exact = np.array(exact, dtype=object)
        std = np.sqrt(np.diagonal(exact).astype(float))
        scale = np.outer(std, std)
        error = np.abs((found - exact).astype(float)) / np.where(scale > 0, scale, 1)
        assert np.isfinite(found).all()
        worst = max(worst, error.max())
    return worst


def worst_errors(seeds, first, later):
    errors = {}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        net, x = random_network(rng, first, later), extreme_inputs(rng)
        errors[repr(net)] = worst_error(net, x)
    return errors


def check(seeds):
    waves = worst_errors(seeds, WAVES, WAVES)
    assert max(waves.values()) < 1e-12, waves
    # An angle of zero that rounding makes 1e-8 is felt linearly by slopes with a jump.
    bounded = worst_errors(seeds, BOUNDED, BOUNDED)
    assert np.median(list(bounded.values())) < 3e-8, bounded
    others = worst_errors(seeds, UNBOUNDED, BOUNDED + UNBOUNDED)
    assert np.median(list(others.values())) < 3e-8, others


def test_random_networks():
    check(range(2))


@pytest.mark.slow
def test_many_random_networks():
    check(range(100, 150))


@pytest.mark.parametrize("name", OF_DISTANCES | OTHERS)
def test_one_layer(name):
    x = extreme_inputs(np.random.default_rng(0))
    for bias_var in (0.0, 0.2):
        layer = (OF_DISTANCES | OTHERS)[name]
        assert worst_error(nn.Sequential(nn.Dense(weight_var=1.3, bias_var=bias_var), layer), x) < 1e-12


@pytest.mark.parametrize("later", [nn.Erf(), nn.Gelu(), nn.Sin(0.7, 0.2)])
def test_huge_equal_inputs_behind_a_layer_that_does_not_bound_them(later):
    """Their covariances hold no digit of the determinant or the distance, which are zero."""
    x = extreme_inputs(np.random.default_rng(3))[[0, 1, 2, 5, 6, 7]]
    net = nn.Sequential(nn.Dense(weight_var=1.3), nn.Relu(), nn.Dense(weight_var=0.7), later)
    assert worst_error(net, x) < 1e-12
    skipping = nn.Sequential(
        nn.Dense(weight_var=1.3), nn.Residual(nn.Relu(), nn.Dense()), nn.Residual(later, nn.Dense()), nn.Rbf(0.7)
    )
    assert worst_error(skipping, x) < 1e-12


@pytest.mark.parametrize("features", [3, 40])
@pytest.mark.parametrize("name", OF_DISTANCES)
def test_one_layer_in_single_precision(name, features):
    """The other side of the origin, and positions of an image that is flattened, are as far away."""
    x = (1e4 + np.random.default_rng(0).normal(size=(6, features))).astype("f4")
    x[5] *= -1
    net = nn.Sequential(nn.Dense(weight_var=1.3, bias_var=0.1), OF_DISTANCES[name])
    assert worst_error(net, x) < 1e-6
    of_images = nn.Sequential(nn.Flatten(), *net.layers)
    for found, right in zip(of_images.kernel(x.reshape(6, features, 1)), net.kernel(x), strict=True):
        np.testing.assert_allclose(found, right, atol=2e-6 * np.max(right))


def test_a_step_of_what_does_not_vary_is_zero():
    x = np.array([[0.0, 0.0], [1.0, 2.0], [-1.0, 0.5]])
    found = nn.Sequential(nn.Dense(), nn.RectifiedMonomial(0)).kernel(x).nngp
    assert not np.any(found[0])
    assert np.linalg.eigvalsh(found)[0] > -1e-15


def network_with_products(rng):
    """Any activation on the inputs; then normalised or not, multiplied or not, through a small one."""

    def dense():
        return nn.Dense(weight_var=rng.uniform(0.5, 2), bias_var=rng.choice([0.0, 0.1, 0.5]))

    def small():
        return SMALL[rng.integers(len(SMALL))]

    first = [*SMALL, *OTHERS.values(), nn.Monomial(2)]
    layers = [dense(), *([nn.LayerNorm()] if rng.random() < 0.2 else []), first[rng.integers(len(first))]]
    for _ in range(rng.integers(1, 3)):
        kind = rng.integers(4)
        if kind == 0:
            branches = (nn.Sequential(dense(), small(), dense()) for _ in range(2))
            layers.append(nn.Parallel(*branches, combine="product"))
        else:
            between = {1: [], 2: [nn.LayerNorm()], 3: [nn.Residual(small(), dense())]}[kind]
            layers += [dense(), *between, small()]
    return nn.Sequential(*layers)


@pytest.mark.slow
def test_many_random_networks_with_products():
    errors = {}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        net, x = network_with_products(rng), extreme_inputs(rng)
        if not isinstance(net.layers[1], nn.LayerNorm) and nn.Hermite(3) in net.layers:
            x = np.delete(x, 7, axis=0)  # its cube is opposite too, and 1e18: next to it a bias is nothing in float64
        errors[repr(net)] = worst_error(net, x)
    # of steps near zero, and of slopes above activations that do not bound huge inputs, half of the digits are left,
    # and half of those again of a step, or of a slope with a jump, behind another step
    assert np.median(list(errors.values())) < 3e-8, errors
    assert max(errors.values()) < 1e-3, errors


NETWORKS = {
    "rbf": nn.Sequential(nn.Dense(weight_var=1.3), nn.Rbf(gamma=0.7)),
    "sin": nn.Sequential(nn.Dense(weight_var=[1.3, 0.3, 2.0], bias_var=0.2), nn.Sin(frequency=0.7, phase=0.2)),
    "deep": nn.Sequential(nn.Dense(weight_var=1.3), nn.Cos(), nn.Dense(), nn.Sin()),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_an_offset_in_single_precision(name, offset):
    x = (offset + np.random.default_rng(0).normal(size=(6, 3))).astype("f4")
    net = NETWORKS[name]
    for found, exact in zip(net.kernel(x), high_precision.kernels(net, x), strict=True):
        np.testing.assert_allclose(found, np.array(exact, dtype=float), rtol=1e-5, atol=1e-7)
        assert np.linalg.eigvalsh(found.astype(float))[0] > -1e-6


@pytest.mark.parametrize("size", [1e8, 1e10])
def test_large_inputs(size):
    x = size * np.random.default_rng(0).normal(size=(6, 3))
    x[1], x[2] = x[0], -x[0]
    for net in NETWORKS.values():
        assert worst_error(net, x) < 1e-12


@pytest.mark.parametrize("features", [3, 40])
@pytest.mark.parametrize("kernel", [RBF(length_scale=0.7), Matern(length_scale=0.7)])
def test_stationary_kernels_do_not_feel_an_offset(kernel, features):
    x = np.random.default_rng(0).normal(size=(5, features)).astype("f4") / features**0.5
    shifted = x + np.float32(4096)
    exact = kernel.kernel(shifted.astype("f8") - 4096).nngp
    np.testing.assert_allclose(kernel.kernel(shifted).nngp, exact, rtol=1e-4)


@pytest.mark.parametrize("all_pairs", [False, True])
def test_images_far_from_zero(all_pairs):
    """A convolution with one position and the whole image as its window is a dense layer on the flattened image."""
    x = (1e4 + np.random.default_rng(0).normal(size=(5, 2, 3, 1))).astype("f4")
    ending = nn.GlobalAvgPool() if all_pairs else nn.Flatten()
    conv = nn.Sequential(nn.Conv((2, 3), weight_var=1.3, padding="VALID"), nn.Sin(frequency=0.7), ending)
    dense = nn.Sequential(nn.Flatten(), nn.Dense(weight_var=1.3), nn.Sin(frequency=0.7))
    exact = dense.kernel(x.astype("f8").reshape(5, 6)[:, :, None])
    for found, right in zip(conv.kernel(x), exact, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-5)
