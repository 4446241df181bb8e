"""Random networks, and their readouts under the exact flow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from numpy.testing import assert_allclose

import widetail as wt
from widetail import finite, nn

NET = nn.mlp(2, "erf", weight_var=2.0, bias_var=0.2)
PRIOR = wt.InverseGamma(2.0, 2.0)
X = np.array([[-1.0, 0.3], [0.2, 1.0], [1.1, -0.4], [0.4, 0.1]])
Y = np.array([0.5, -1.0, 0.3, 0.8])
X_NEW = np.array([[0.0, 0.0], [2.0, 1.0], [-0.5, 0.7]])


def draw(key=0, **options):
    settings = {"width": 16, "networks": 50, "key": jax.random.key(key)} | options
    return finite.sample(NET, PRIOR, X_NEW, **settings)


@pytest.mark.slow
def test_every_network_is_that_of_nn_times_the_root_of_its_scale():
    draws = draw()
    scale_key, networks_key = jax.random.split(jax.random.key(0))
    assert_allclose(draws.scales, PRIOR.sample(scale_key, (50,)))
    f = NET.at_width(16)
    for number in (0, 49):
        params = f.init(jax.random.fold_in(networks_key, number), (2,))
        expected = np.sqrt(draws.scales[number]) * f.apply(params, jnp.asarray(X_NEW, jnp.float32))[:, 0]
        assert_allclose(draws.values[number], expected, rtol=1e-5, atol=1e-5)


def test_seeds_reproduce_bit_for_bit_and_differ():
    assert np.array_equal(draw().values, draw().values)
    assert not np.any(draw(0).values == draw(1).values)


@pytest.mark.slow
def test_the_size_of_chunks_changes_nothing():
    calls = []
    small = draw(memory=2e4, progress=lambda done, total: calls.append((done, total)))
    assert len(calls) > 3
    assert calls[-1] == (50, 50)
    assert_allclose(small.values, draw().values, rtol=1e-4, atol=1e-5)
    assert len({number for number, _ in calls}) == len(calls)


def test_chunks_shrink_with_width_and_rows():
    sizes = [
        finite._chunks.chunk_size(finite.ScaledNetwork(NET, width), (2,), rows, memory=1e8)
        for width, rows in ((64, 10), (512, 10), (512, 1000))
    ]
    assert sizes[0] > sizes[1] > sizes[2] >= 1
    # weights and their random bits of one network at width 512, in 100 MB
    assert sizes[1] <= 1e8 / (2 * 4 * 512**2)


def test_covariance_at_initialisation():
    """4,000 networks of width 64 with scale 1: four standard errors of the second moments, and 3 % for the width."""
    draws = finite.sample(NET, wt.PointMass(1.0), X_NEW, width=64, networks=4000, key=jax.random.key(2))
    moments = draws.values.T @ draws.values / 4000
    k = np.asarray(NET.kernel(X_NEW).nngp)
    errors = np.sqrt((k**2 + np.outer(np.diag(k), np.diag(k))) / 4000)
    assert np.all(np.abs(moments - k) < 4 * errors + 0.03 * np.sqrt(np.outer(np.diag(k), np.diag(k))))


@pytest.mark.parametrize("readout", ["scaled", pytest.param("direct", marks=pytest.mark.slow)])
def test_exact_flow_against_a_differential_equation_of_the_weights(readout):
    """One network: the readout weights follow dv/dt = -gradient, a linear system solved by a matrix exponential."""
    time, width = 3.0, 12
    draws = finite.train_readout(
        NET, PRIOR, X, Y, X_NEW, width=width, networks=3, key=jax.random.key(5), time=time, readout=readout
    )
    _, networks_key = jax.random.split(jax.random.key(5))
    f = NET.at_width(width)
    for number in range(3):
        beta = draws.scales[number]
        params = f.init(jax.random.fold_in(networks_key, number), (2,))
        inputs = jnp.asarray(np.concatenate([X, X_NEW]), jnp.float32)
        h = np.asarray(f.features(params, inputs), np.float64) / np.sqrt(width)
        u = np.asarray(params["readout"], np.float64)[:, 0]
        trained, factor = (u, np.sqrt(beta)) if readout == "scaled" else (np.sqrt(beta) * u, 1.0)
        a = factor * h[:4]  # the loss is |a v - y|^2 / 4
        system = np.zeros((width + 1, width + 1))  # of (v, 1)
        system[:-1, :-1] = -2 / 4 * a.T @ a
        system[:-1, -1] = 2 / 4 * a.T @ Y
        end = scipy.linalg.expm(time * system) @ np.append(trained, 1.0)
        assert_allclose(draws.values[number], factor * h[4:] @ end[:-1], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_times_from_the_start_to_the_end():
    options = {"width": 32, "networks": 20, "key": jax.random.key(1)}
    several = finite.train_readout(NET, PRIOR, X, Y, X_NEW, time=[0.0, 2.0, np.inf], **options)
    assert several.values.shape == (3, 20, 3)
    assert_allclose(several.values[0], finite.sample(NET, PRIOR, X_NEW, **options).values, rtol=1e-4, atol=1e-5)
    end = finite.train_readout(NET, PRIOR, X, Y, X_NEW, **options)
    assert np.array_equal(several.values[2], end.values)
    late = finite.train_readout(NET, PRIOR, X, Y, X_NEW, time=1e9, **options)
    assert_allclose(late.values, end.values, atol=1e-3)
    fitted = finite.train_readout(NET, PRIOR, X, Y, X, **options)
    assert_allclose(fitted.values, np.broadcast_to(Y, (20, 4)), atol=1e-4)


@pytest.mark.slow
def test_several_outputs_share_their_scale_and_are_trained_alike():
    y = np.stack([Y, -Y], axis=1)
    draws = finite.train_readout(NET, PRIOR, X, y, X, width=32, networks=5, key=jax.random.key(1))
    assert_allclose(draws.values, np.broadcast_to(y, (5, 4, 2)), atol=1e-4)


@pytest.mark.slow
def test_covariances_given_bodies_have_the_law_of_literal_networks():
    """3,000 networks against 3,000 covariances of a trained readout times a normal; two-sample KS test at 0.1 %."""
    net, width = nn.mlp(2, "erf", weight_var=4.0, bias_var=0.1), 8
    literal = finite.sample(net, wt.PointMass(1.0), X_NEW, width=width, networks=3000, key=jax.random.key(3)).values
    k = finite.body_covariances(net, X_NEW, width=width, networks=3000, seed=1)
    rng = np.random.default_rng(0)
    equivalent = np.stack([rng.multivariate_normal(np.zeros(3), own) for own in k])
    for column in range(3):
        assert scipy.stats.ks_2samp(literal[:, column], equivalent[:, column]).pvalue > 0.001
    products = literal[:, 0] * literal[:, 1], equivalent[:, 0] * equivalent[:, 1]
    assert scipy.stats.ks_2samp(*products).pvalue > 0.001


def test_relevances_in_covariances_given_bodies():
    net = nn.Sequential(nn.Dense(weight_var=[0.5, 8.0], bias_var=0.3), nn.Relu())
    k = finite.body_covariances(net, X_NEW, width=64, networks=4000)
    limit = np.asarray(net.kernel(X_NEW).nngp)
    assert np.all(np.abs(k.mean(0) - limit) < 4.5 * k.std(0) / np.sqrt(4000))


BAD = {
    "prior must be": lambda: finite.sample(NET, 1.0, X_NEW, width=4, networks=5, key=jax.random.key(0)),
    "net must be": lambda: finite.sample(wt.kernels.RBF(), PRIOR, X_NEW, width=4, networks=5, key=jax.random.key(0)),
    "networks must be": lambda: draw(networks=0),
    "memory must be": lambda: draw(memory=-1.0),
    "one feature x": lambda: finite.sample(NET, PRIOR, np.ones(3), width=4, networks=5, key=jax.random.key(0)),
    "must be finite": lambda: finite.sample(NET, PRIOR, X * np.nan, width=4, networks=5, key=jax.random.key(0)),
    "time must be": lambda: finite.train_readout(
        NET, PRIOR, X, Y, X, width=4, networks=5, key=jax.random.key(0), time=-1.0
    ),
    "one shape": lambda: finite.train_readout(NET, PRIOR, X, Y, X[:, :1], width=4, networks=5, key=jax.random.key(0)),
    "readout must be": lambda: finite.train_readout(
        NET, PRIOR, X, Y, X, width=4, networks=5, key=jax.random.key(0), readout="trained"
    ),
    "Dense layers and activations": lambda: finite.body_covariances(nn.resnet(1), X, width=4, networks=5),
}


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("message", BAD)
def test_bad_input(message):
    with pytest.raises(ValueError, match=message):
        BAD[message]()
