"""Kernels of finite models, against JAX's own Jacobian of the whole batch."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail import nn
from widetail.empirical import EmpiricalKernel, Layout

RNG = np.random.default_rng(0)
X, X2 = RNG.normal(size=(5, 4)), RNG.normal(size=(3, 4))
IMAGES, IMAGES2 = RNG.normal(size=(4, 5, 4, 2)), RNG.normal(size=(2, 5, 4, 2))


def as_double(tree):
    with jax.enable_x64(True):
        return jax.tree.map(
            lambda leaf: jnp.asarray(np.asarray(leaf), float) if eqx.is_inexact_array(leaf) else leaf, tree
        )


def ours(net, shape, **options):
    network = net.at_width(6, outputs=3, **options)
    return network, as_double(network.init(jax.random.key(0), shape))


def shared(params, x):
    """Weights used three times, once in part, a scale of the whole, and a norm of a weight."""
    h = jnp.tanh(x @ params["w"])
    h = jnp.tanh(h @ params["w"]) * params["scale"]
    return h @ params["w"][:, :3] / jnp.sqrt(jnp.sum(params["w"] ** 2)) + jnp.maximum(params["bias"], 0.0)


def grouped(params, x):
    """A convolution in groups, dilated, and positions that are kept as outputs."""
    h = jax.lax.conv_general_dilated(
        x, params["w"], (1, 1), "SAME", rhs_dilation=(2, 1), feature_group_count=2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip
    h = jax.lax.conv_general_dilated(
        jax.nn.relu(h), params["v"], (2, 2), ((1, 0), (-1, 1)), lhs_dilation=(2, 1), rhs_dilation=(2, 1),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip
    return h.mean(1)[:, :, 0]


def flax_model():
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self, rngs):
            options = {"param_dtype": jnp.float64, "rngs": rngs}
            self.conv = nnx.Conv(2, 4, (3, 3), **options)
            self.out = nnx.Linear(80, 3, **options)

        def __call__(self, x):
            return self.out(nnx.relu(self.conv(x)).reshape(len(x), -1))

    with jax.enable_x64(True):
        return Net(nnx.Rngs(0))


def model(name):
    """A model, its parameters and two sets of inputs."""
    if name == "dense":
        return *ours(nn.mlp(depth=2, activation="relu"), (4,)), X, X2
    if name == "standard":
        return *ours(nn.Sequential(nn.Dense(bias_var=0.3), nn.Erf()), (4,), parametrisation="standard"), X, X2
    if name == "conv":
        body = nn.Sequential(nn.Conv((3, 3)), nn.Relu(), nn.Conv((2, 2), strides=(2, 1), padding="VALID"), nn.Erf())
        return *ours(nn.Sequential(*body.layers, nn.GlobalAvgPool()), (5, 4, 2)), IMAGES, IMAGES2
    if name == "equinox":
        return as_double(eqx.nn.MLP(4, 3, 6, 2, key=jax.random.key(1))), None, X, X2
    if name == "flax":
        return flax_model(), None, IMAGES, IMAGES2
    if name == "shared":
        params = {"w": RNG.normal(size=(4, 4)), "scale": np.array(1.5), "bias": np.array([1.0, -1.0, 0.5])}
        return shared, as_double(params), X, X2
    filters = {"w": RNG.normal(size=(2, 2, 1, 4)), "v": RNG.normal(size=(2, 3, 4, 1))}
    return grouped, as_double(filters), IMAGES, IMAGES2


def expected(kernel, x1, x2):
    """All pairs of outputs, from the Jacobian of both batches."""
    with jax.enable_x64(True):

        def gradients(x):
            # compiled as a whole: operation by operation it took two seconds
            found = jax.jit(jax.jacrev(lambda p: kernel.compiled.apply(p, jnp.asarray(x))))(kernel.params)
            outputs = kernel.apply(x).shape[1]
            return jnp.concatenate([leaf.reshape(len(x), outputs, -1) for leaf in jax.tree.leaves(found)], axis=2)

        return np.einsum("iap,jbp->ijab", gradients(x1), gradients(x2))


QUICK = ("equinox", "shared", "grouped")
ALIKE = ("dense", "standard", "conv", "flax")  # dense layers and convolutions are also those of the others


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in ALIKE)])
def test_structured_derivatives(name):
    net, params, x1, x2 = model(name)
    kernel = EmpiricalKernel(net, params, method="structured")
    found = kernel.ntk(x1, x2, "all")
    assert_allclose(found, expected(kernel, x1, x2), rtol=1e-11, atol=1e-11)


@pytest.fixture(scope="module")
def dense():
    net, params, x1, x2 = model("dense")
    kernel = EmpiricalKernel(net, params)
    return kernel, expected(kernel, x1, x1), expected(kernel, x1, x2)


@pytest.mark.parametrize("method", ["jacobian", "products", "structured"])
def test_every_way_and_every_kind_of_outputs(dense, method):
    net, params, x1, x2 = model("dense")
    kernel, (_, own, cross) = EmpiricalKernel(net, params, method=method), dense
    assert_allclose(kernel.ntk(x1, None, "all"), own, rtol=1e-11, atol=1e-12)
    assert_allclose(kernel.ntk(x1, x2), np.einsum("ijaa->ij", cross) / 3, rtol=1e-11)
    assert_allclose(kernel.ntk_diagonal(x1), np.einsum("iiaa->i", own) / 3, rtol=1e-11)


def test_each_output_and_products_of_outputs(dense):
    kernel, own, _ = dense
    assert_allclose(kernel.ntk(X, outputs="each"), np.einsum("ijaa->ija", own), rtol=1e-11)
    with jax.enable_x64(True):
        y = np.asarray(kernel.apply(X))
    assert_allclose(kernel.nngp(X, outputs="all"), np.einsum("ia,jb->ijab", y, y), rtol=1e-12)
    assert_allclose(kernel.nngp_diagonal(X), np.mean(y**2, axis=1), rtol=1e-12)


def test_tiles_and_panels_give_the_same_numbers(dense):
    kernel, own, _ = dense
    plan = kernel.plan(X, outputs="all")
    tight = plan.output_bytes + plan.costs["structured"].workspace_bytes // 4
    cut = kernel.plan(X, outputs="all", max_memory=tight)
    assert cut.costs["structured"].rows_per_tile < plan.costs["structured"].rows_per_tile
    assert_allclose(kernel.ntk(X, outputs="all", max_memory=tight), own, rtol=1e-11, atol=1e-12)
    with pytest.raises(MemoryError, match="max_memory allows"):
        kernel.ntk(X, max_memory=10)


def test_positions_in_pairs_or_as_gradients():
    # many channels and few positions: pairs of positions are cheaper; few channels: gradients are
    def apply(params, x):
        h = jnp.tanh(x @ params["w"])
        return jnp.einsum("npm,pm->n", h, params["v"])[:, None] * jnp.ones(3)

    x = RNG.normal(size=(3, 2, 9))
    params = as_double({"w": RNG.normal(size=(9, 11)), "v": RNG.normal(size=(2, 11))})
    kernel = EmpiricalKernel(apply, params, method="structured")
    found = kernel.ntk(x, outputs="all")
    (way,) = (way for way in kernel.compiled.ways.values() if hasattr(way, "walk"))
    assert [product.positions for product in way.walk.products if product.pairs] == [2, 1]
    assert_allclose(found, expected(kernel, x, x), rtol=1e-11, atol=1e-12)


def test_axis_by_axis():
    def apply(params, x):
        return jnp.einsum("nd,dab->nab", x, params)

    kernel = EmpiricalKernel(apply, as_double(RNG.normal(size=(4, 2, 3))))
    k = kernel.ntk(X, X2, Layout((2, 3), diagonal=(1,)))
    assert k.shape == (5, 3, 2, 2, 3)
    assert_allclose(k, np.einsum("ij,ab,c->ijabc", X @ X2.T, np.eye(2), np.ones(3)), atol=1e-12)


def test_the_plan_is_counted_from_the_model():
    net, params, *_ = model("dense")
    plan = EmpiricalKernel(net, params).plan(np.zeros((100, 4)), np.zeros((50, 4)), "all")
    assert plan.method == "structured"
    forward = 2 * (4 * 6 + 6 * 6 + 6 * 3)
    pairs = 100 * 50 * (2 * (4 + 6 + 6) + 9 * (2 * (6 + 6 + 3) + 2 * 12))  # two layers of biases, 12 numbers
    assert plan.flops == pytest.approx(150 * forward * 4 + pairs, rel=0.5)
    assert plan.costs["jacobian"].flops > 100 * 50 * 2 * 9 * 90
    assert plan.output_bytes == 100 * 50 * 9 * 8  # the parameters are doubles


def test_products_with_vectors(dense):
    kernel, _, cross = dense
    v = RNG.normal(size=(3, 3))
    assert_allclose(kernel.product(X, X2, v, rows=2), np.einsum("ijab,jb->ia", cross, v), rtol=1e-11)
    with pytest.raises(ValueError, match=r"vector must be shaped like the model's output, \(5, 3\)"):
        kernel.product(X, None, v)


def test_a_process_takes_it(dense):
    kernel, own, _ = dense
    k = kernel.kernel(X, get="both")
    assert_allclose(k.ntk, np.einsum("ijaa->ij", own) / 3, rtol=1e-11)
    assert_allclose(kernel.diagonal(X, get="ntk").ntk, np.diag(k.ntk), rtol=1e-11)
    gaussian = wt.ScaleMixture(kernel.tangent(), wt.PointMass(1.0), wt.ScaledNoise(0.1)).posterior(X, X[:, 0])
    weights = np.linalg.solve(k.ntk + 0.1 * np.eye(5), X[:, 0])
    assert_allclose(gaussian(X2).mean, kernel.ntk(X2, X) @ weights, rtol=1e-8)


def test_under_jit(dense):
    kernel, own, _ = dense
    with jax.enable_x64(True):
        found = jax.jit(lambda p, x: eqx.tree_at(lambda k: k.params, kernel, p).ntk(x, outputs="all"))(kernel.params, X)
    assert_allclose(found, own, rtol=1e-11, atol=1e-12)


def test_a_result_that_no_row_enters():
    kernel = EmpiricalKernel(lambda p, x: jnp.broadcast_to(p["a"] ** 2, (len(x), 1)), {"a": np.array(3.0)})
    assert_allclose(kernel.ntk(X), 36.0 * np.ones((5, 5)))


def test_bad_input():
    net, params, *_ = model("dense")
    with pytest.raises(ValueError, match="params must be given"):
        EmpiricalKernel(net)
    with pytest.raises(ValueError, match="method must be one of"):
        EmpiricalKernel(net, params, method="fast")
    with pytest.raises(ValueError, match="no tangent kernel"):
        EmpiricalKernel(lambda p, x: x, {})
    with pytest.raises(ValueError, match="one array with a row for every row"):
        EmpiricalKernel(lambda p, x: p * x.sum(), 1.0).ntk(X)
    kernel = EmpiricalKernel(net, params)
    with pytest.raises(ValueError, match="outputs must be one of"):
        kernel.ntk(X, outputs="trace")
    with pytest.raises(ValueError, match="x1 must be finite"):
        kernel.ntk(np.full((2, 4), np.nan))
    with pytest.raises(ValueError, match="agree in all axes"):
        kernel.ntk(X, np.zeros((2, 3)))
    with pytest.raises(ValueError, match="does not fit this model"):
        wt.ScaleMixture(kernel).prior(np.zeros((2, 3)))
