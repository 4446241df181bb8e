"""Every predictive distribution passes the same battery."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from widetail import mixing, predictive, priors

POINTS, OUTPUTS = 4, 2
RNG = np.random.default_rng(0)
FACTOR = RNG.normal(size=(POINTS, POINTS + 1))
MATRIX = FACTOR @ FACTOR.T
DIAGONAL = np.diag(MATRIX)
LOC = RNG.normal(size=(POINTS, OUTPUTS))
BURR = mixing.scale_posterior(priors.BurrXII(2.0, 1.0), mixing.ScaledNoiseLikelihood(4, 6.0))


def one_output(kind):
    loc = LOC[:, 0]
    if kind == "normal":
        return predictive.Normal(loc, DIAGONAL, MATRIX)
    if kind == "t":
        return predictive.StudentT(5.0, loc, DIAGONAL, lambda: MATRIX, scale=0.7)
    if kind == "scale mixture":
        return predictive.NormalScaleMixture(BURR, loc, DIAGONAL, MATRIX)
    if kind == "rescaled":
        return one_output("t").rescale(3.0, 2.0)
    if kind == "recalibrated":
        return predictive.Recalibrated(one_output("t"), 4.0, 0.8)
    return node_mixture(loc)


def node_mixture(loc, drift=0.4):
    """Locations and covariances that depend on the node."""
    scales, log_weights = BURR.nodes()
    weights = np.log1p(scales)[:, None]
    locs = loc + drift * weights.reshape((-1,) + (1,) * loc.ndim)
    return predictive.NormalMixture(
        log_weights, locs, scales[:, None] * DIAGONAL + 0.1, lambda j: scales[j] * MATRIX + 0.1 * np.eye(POINTS)
    )


def two_outputs(kind):
    if kind == "normal":
        return predictive.Normal(LOC, DIAGONAL, MATRIX)
    if kind == "t":
        return predictive.StudentT(5.0, LOC, DIAGONAL, MATRIX, scale=0.7)
    if kind == "scale mixture":
        return predictive.NormalScaleMixture(BURR, LOC, DIAGONAL, MATRIX)
    if kind == "rescaled":
        return two_outputs("t").rescale([3.0, -1.0], [2.0, 0.5])
    if kind == "recalibrated":
        return predictive.Recalibrated(two_outputs("t"), [4.0, 9.0], [0.8, 1.1])
    return node_mixture(LOC)


KINDS = ["normal", "t", "scale mixture", "node mixture", "rescaled", "recalibrated"]
every_kind = pytest.mark.parametrize("kind", KINDS)
Y = LOC[:, 0] + np.array([-3.0, 0.2, 1.0, 9.0])


@every_kind
def test_quantile_inverts_cdf(kind):
    dist = one_output(kind)
    p = np.array([1e-12, 1e-4, 0.3, 0.9, 0.9999])
    np.testing.assert_allclose(dist.cdf(dist.quantile(p)), np.tile(p[:, None], POINTS), rtol=1e-10)


@every_kind
def test_density_is_the_derivative_of_the_cdf(kind):
    dist = one_output(kind)
    y, step = np.minimum(Y, dist.quantile(0.99)), 1e-4
    slope = (dist.cdf(y + step) - dist.cdf(y - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(dist.log_prob(y)), slope, rtol=1e-6)


@every_kind
def test_crps_is_its_integral(kind):
    dist = one_output(kind)[:1]
    y = Y[:1]
    low, high = dist.quantile([1e-13, 1 - 1e-13])[:, 0]
    below = np.sinh(np.linspace(np.arcsinh(low), np.arcsinh(y[0]), 4001))
    above = np.sinh(np.linspace(np.arcsinh(y[0]), np.arcsinh(high), 4001))
    expected = scipy.integrate.simpson(dist.cdf(below[:, None])[:, 0] ** 2, x=below)
    expected += scipy.integrate.simpson((1 - dist.cdf(above[:, None])[:, 0]) ** 2, x=above)
    np.testing.assert_allclose(dist.crps(y), [expected], rtol=1e-8)


@every_kind
def test_marginal_of_the_joint_is_the_marginal(kind):
    dist = one_output(kind)
    for i in range(POINTS):
        np.testing.assert_allclose(dist[i].joint_log_prob(Y[[i]]), dist.log_prob(Y)[i], rtol=1e-10)
    some = dist[[2, 0]]
    np.testing.assert_allclose(some.log_prob(Y[[2, 0]]), dist.log_prob(Y)[[2, 0]], rtol=1e-10)
    np.testing.assert_allclose(some.mean, dist.mean[[2, 0]])
    mask = np.array([True, False, True, False])
    np.testing.assert_allclose(dist[mask].std, dist.std[mask])


@every_kind
def test_draws_follow_the_law(kind):
    dist = one_output(kind)
    draws, others = np.split(dist.sample(jax.random.key(5), (33_000,)), [3000])
    assert others.shape == (30_000, POINTS)
    for i in (0, 3):
        assert scipy.stats.kstest(dist.cdf(draws)[:, i], "uniform").pvalue > 1e-3
    # The covariance of the draws, within five standard errors of a product of heavy-tailed variables.
    centred = draws - dist.mean
    products = centred[:, 0] * centred[:, 1]
    expected = np.cov(others.T)[0, 1]
    assert abs(products.mean() - expected) < 5 * products.std() / np.sqrt(len(products)) * 1.1


@every_kind
def test_moments_are_those_of_the_density(kind):
    dist = one_output(kind)[:1]
    low, high = dist.quantile([1e-14, 1 - 1e-14])[:, 0]
    x = np.sinh(np.linspace(np.arcsinh(low), np.arcsinh(high), 8001))
    density = np.exp(dist.log_prob(x[:, None])[:, 0])
    mean = scipy.integrate.simpson(x * density, x=x)
    np.testing.assert_allclose(scipy.integrate.simpson(density, x=x), 1.0, rtol=1e-8)
    np.testing.assert_allclose(dist.mean, [mean], rtol=1e-6)
    np.testing.assert_allclose(dist.var, [scipy.integrate.simpson((x - mean) ** 2 * density, x=x)], rtol=1e-3)
    np.testing.assert_allclose(dist.std**2, dist.var)


@every_kind
def test_intervals_and_pit(kind):
    dist = one_output(kind)
    low, high = dist.interval(0.8)
    np.testing.assert_allclose(dist.cdf(high) - dist.cdf(low), 0.8)
    np.testing.assert_array_equal(dist.pit(Y), dist.cdf(Y))
    np.testing.assert_allclose(dist.median, dist.quantile(0.5))


@every_kind
def test_shapes_with_two_outputs(kind):
    dist, y = two_outputs(kind), RNG.normal(size=(3, POINTS, OUTPUTS))
    assert dist.event_shape == (POINTS, OUTPUTS)
    for values in (dist.mean, dist.var, dist.std, dist.median):
        assert values.shape == (POINTS, OUTPUTS)
    for method in (dist.log_prob, dist.cdf, dist.pit, dist.crps):
        values = method(y)
        assert values.shape == y.shape
        assert values.dtype == np.float64
        np.testing.assert_allclose(values[1], method(y[1]), rtol=1e-12)
    assert dist.joint_log_prob(y).shape == (3,)
    np.testing.assert_allclose(dist.joint_log_prob(y)[2], dist.joint_log_prob(y[2]), rtol=1e-12)
    assert dist.quantile([0.1, 0.5, 0.9]).shape == (3, POINTS, OUTPUTS)
    assert dist.sample(jax.random.key(0), (5, 6)).shape == (5, 6, POINTS, OUTPUTS)
    assert dist.sample(jax.random.key(0)).shape == (POINTS, OUTPUTS)
    assert dist[1:3].event_shape == (2, OUTPUTS)


# "rescaled" and "recalibrated" hold a "t", and wrap it alike
@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.slow) if k in ("t", "recalibrated") else k for k in KINDS]
)
def test_inside_jit(kind):
    dist = one_output(kind)
    with jax.enable_x64(True):
        y = jnp.asarray(Y)
        slopes = jax.grad(lambda y: dist.log_prob(y).sum())
        *inside, slope = jax.jit(
            lambda y: (dist.log_prob(y), dist.cdf(y), dist.quantile(0.2), dist.crps(y), slopes(y))
        )(y)
    np.testing.assert_allclose(inside[0], dist.log_prob(Y), rtol=1e-9)
    np.testing.assert_allclose(inside[1], dist.cdf(Y), rtol=1e-9)
    np.testing.assert_allclose(inside[2], dist.quantile(0.2), rtol=1e-9)
    np.testing.assert_allclose(inside[3], dist.crps(Y), rtol=1e-9)
    numeric = (dist.log_prob(Y + 1e-5) - dist.log_prob(Y - 1e-5)) / 2e-5
    np.testing.assert_allclose(slope, numeric, rtol=1e-5, atol=1e-8)


@every_kind
def test_bad_input_is_named(kind):
    dist = one_output(kind)
    with pytest.raises(ValueError, match="log_prob: y must have shape"):
        dist.log_prob(np.zeros(POINTS + 1))
    with pytest.raises(ValueError, match=r"p must lie in \[0, 1\]"):
        dist.quantile(95)
    with pytest.raises(ValueError, match="coverage"):
        dist.interval(90)
    with pytest.raises(TypeError, match="points, not outputs"):
        dist[0, 1]
