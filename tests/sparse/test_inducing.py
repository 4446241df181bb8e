"""Choice of inducing inputs, and features of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from widetail.sparse import Whitening, choose_inducing
from widetail.sparse._inducing import pivots

from .problems import KERNEL, inputs


def test_pivots_are_greedy():
    x = inputs(30)
    matrix = KERNEL.kernel(x).nngp
    chosen = list(pivots(matrix, 6))
    for k in range(1, 6):
        own = matrix[np.ix_(chosen[:k], chosen[:k])]
        left = np.diag(matrix - matrix[:, chosen[:k]] @ np.linalg.solve(own, matrix[chosen[:k]]))
        assert np.argmax(left) == chosen[k]
    # rows that repeat others are never taken twice
    assert len(pivots(np.ones((5, 5)), 3)) == 1


@pytest.mark.parametrize("method", ["greedy", "kmeans", "balanced"])
def test_methods(method):
    x = inputs(50)
    labels = (np.arange(50) < 5).astype(int)
    chosen = choose_inducing(KERNEL, x, 10, method, labels=labels)
    assert chosen.shape == (10, 1)
    assert np.array_equal(chosen, choose_inducing(KERNEL, x, 10, method, labels=labels))
    assert len(choose_inducing(KERNEL, x, 80, method, labels=labels)) <= 50
    if method == "balanced":
        assert sum(np.any(np.isclose(x[:5], row)) for row in chosen) == 5


@pytest.mark.usefixtures("as_users_call")
def test_unknown_method():
    with pytest.raises(ValueError, match="'greedy', 'kmeans' or 'balanced'"):
        choose_inducing(KERNEL, inputs(), 3, "best")


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-7), ("float32", 2e-3)])
def test_features(dtype, tolerance, tmp_path):
    x, z = inputs(40), np.linspace(-2, 2, 7)[:, None]
    features, residual = Whitening.of(KERNEL, z, dtype).features(x)
    assert features.dtype == dtype
    cross = KERNEL.kernel(x, z).nngp
    projected = cross @ np.linalg.solve(KERNEL.kernel(z).nngp, cross.T)
    assert_allclose(features @ features.T, projected, atol=tolerance)
    assert_allclose(residual, 1.0 - np.diag(projected), atol=tolerance)
    mapped, _ = Whitening.of(KERNEL, z, dtype).features(x, path=tmp_path / "features.npy")
    assert isinstance(mapped, np.memmap)
    assert np.array_equal(mapped, features)
