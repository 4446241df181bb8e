"""RBF and Matern against scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.gaussian_process import kernels as reference

from widetail.kernels import RBF, Matern

LENGTHS = [0.7, np.array([0.4, 1.0, 2.5])]


@pytest.fixture
def x():
    x = np.random.default_rng(0).normal(size=(20, 3))
    x[7] = x[3]
    return x


@pytest.mark.parametrize("length_scale", LENGTHS, ids=["one", "many"])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda s: RBF(s, 1.3), lambda s: 1.3 * reference.RBF(s)),
        (lambda s: Matern(s, 1.3, nu=0.5), lambda s: 1.3 * reference.Matern(s, nu=0.5)),
        (lambda s: Matern(s, 1.3, nu=1.5), lambda s: 1.3 * reference.Matern(s, nu=1.5)),
        (lambda s: Matern(s, 1.3, nu=2.5), lambda s: 1.3 * reference.Matern(s, nu=2.5)),
    ],
    ids=["rbf", "matern12", "matern32", "matern52"],
)
def test_values(ours, theirs, length_scale, x):
    kernel = ours(length_scale)
    np.testing.assert_allclose(kernel.kernel(x).nngp, theirs(length_scale)(x), rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(kernel.kernel(x, x[:6]).nngp, theirs(length_scale)(x, x[:6]), rtol=1e-13)
    np.testing.assert_array_equal(kernel.diagonal(x).nngp, np.full(20, 1.3))


@pytest.mark.parametrize("kernel", [RBF(), Matern(nu=0.5), Matern(nu=1.5), Matern(nu=2.5)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exactly_one_for_equal_rows(kernel, dtype, x):
    k = kernel.kernel(x.astype(dtype)).nngp
    assert k[3, 7] == 1
    assert k[7, 3] == 1
    assert kernel.kernel(x.astype(dtype), x.astype(dtype)).nngp[3, 7] == 1


def test_many_features_through_a_matrix_product():
    x = np.random.default_rng(1).normal(size=(10, 50))
    np.testing.assert_allclose(RBF(5.0).kernel(x).nngp, reference.RBF(5.0)(x), rtol=1e-12)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_gradients_are_finite_at_equal_rows(nu, x):
    def total(length_scale, x):
        return jnp.sum(Matern(length_scale, nu=nu).kernel(x).nngp)

    with jax.enable_x64(True):
        for gradient in jax.jit(jax.grad(total, argnums=(0, 1)))(0.8, jnp.asarray(x)):
            assert np.all(np.isfinite(gradient))


def test_there_is_no_tangent_kernel(x):
    assert RBF().kernel(x).ntk is None
    with pytest.raises(ValueError, match="RBF has no tangent kernel; ask for get='nngp'"):
        RBF().kernel(x, get="ntk")
