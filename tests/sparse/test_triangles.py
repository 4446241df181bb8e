"""Sums over rows against plain sums, with matrices that are worked in strips and with those that are not."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from widetail.sparse._triangles import explained, lower_gram, mirrored


@pytest.mark.parametrize("inducing", [5, 256, 263])
def test_triangles_in_strips(inducing):
    rng = np.random.default_rng(0)
    features, weights = rng.normal(size=(7, inducing)), rng.normal(size=(7, 3))
    root = np.tril(rng.normal(size=(3, inducing, inducing)))
    expected = np.sum(np.einsum("nm,ckm->nck", features, root) ** 2, axis=-1)
    with jax.enable_x64(True):
        assert_allclose(explained(features, root), expected, rtol=1e-10)
        found = np.asarray(mirrored(lower_gram(features, weights)))
    assert_allclose(found, np.einsum("nc,nm,nk->cmk", weights, features, features), rtol=1e-10, atol=1e-12)
    assert np.array_equal(found, np.swapaxes(found, 1, 2))
