"""Factors and inverses by blocks, against LAPACK at the boundaries of blocks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

from widetail.numerics import _blocks, _cholesky, cholesky, cholesky_in_jax

B = 16


def positive(n):
    root = np.random.default_rng(n).normal(size=(n, n + 3))
    return np.asfortranarray(root @ root.T + 0.1 * np.eye(n))


@pytest.fixture(autouse=True)
def _few_columns(monkeypatch):
    monkeypatch.setattr(_blocks, "BLOCK", B)
    monkeypatch.setattr(_blocks, "SMALL_BLOCK", B)
    monkeypatch.setattr("widetail.numerics._blas.FEW_TO_SHARE", 0)  # threads, however little there is to do
    monkeypatch.setattr(_blocks, "COLUMNS", 5)


@pytest.mark.parametrize("n", [1, B - 1, B, B + 1, 2 * B - 1, 2 * B, 3 * B + 7])
def test_as_lapack_whatever_the_number_of_blocks(n):
    matrix = positive(n)
    work = matrix.copy(order="F")
    assert _blocks.factor(work)
    assert_allclose(np.tril(work), scipy.linalg.cholesky(matrix, lower=True), rtol=1e-9, atol=1e-12)
    assert np.array_equal(np.triu(work, 1), np.triu(matrix, 1))  # from which another attempt can start
    assert_allclose(cholesky(matrix), np.tril(work), rtol=1e-12)
    columns = np.random.default_rng(0).normal(size=(n, 12))
    expected = scipy.linalg.solve_triangular(np.tril(work), columns, lower=True)
    assert_allclose(_blocks.solve(work, columns), expected, rtol=1e-9, atol=1e-12)
    inverse = scipy.linalg.inv(matrix)
    assert_allclose(_blocks.inverse_diagonal(work), np.diagonal(inverse), rtol=1e-9)
    _blocks.invert(work)
    assert_allclose(work, inverse, rtol=1e-7, atol=1e-9 * np.abs(inverse).max())
    assert np.array_equal(work, work.T)


@pytest.mark.parametrize("row", [0, B - 1, B, 3 * B])
def test_what_is_not_positive_definite_is_seen_in_any_block(row):
    matrix = positive(3 * B + 1)
    matrix[row, row] = -1.0
    assert not _blocks.factor(matrix.copy(order="F"))
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        cholesky(matrix)


def test_jitter_restores_what_blocks_have_overwritten():
    from widetail.numerics import CholeskyFactor

    x = np.random.default_rng(0).normal(size=(3 * B + 5, 3))
    factor = CholeskyFactor.of(x @ x.T)
    lower = np.tril(factor.lower)
    assert 0 < factor.jitter <= 1e-6 * np.mean(np.sum(x**2, 1))
    assert_allclose(lower @ lower.T, x @ x.T + factor.jitter * np.eye(len(x)), atol=1e-12)


def test_progress_counts_columns():
    seen = []
    _blocks.factor(positive(3 * B), progress=lambda *pair: seen.append(pair))
    assert seen == [(0, 48), (16, 48), (32, 48), (48, 48)]


def test_by_halves_in_jax(monkeypatch):
    """The factor, the derivative that JAX has for its own, and NaN where there is none."""
    monkeypatch.setattr(_cholesky, "ROWS_FOR_JAX", 7)
    stack = np.stack([positive(17), 2.0 * positive(17)])
    weights = np.random.default_rng(0).normal(size=(17, 17))
    with jax.enable_x64(True):
        compiled = jax.jit(jax.vmap(cholesky_in_jax))
        found = compiled(stack)
        assert_allclose(found, np.linalg.cholesky(stack), rtol=1e-9, atol=1e-12)
        ours, theirs = (
            jax.jit(jax.grad(lambda m, of=factor: jnp.vdot(of(m), weights)))(jnp.asarray(stack[0]))
            for factor in (cholesky_in_jax, jnp.linalg.cholesky)
        )
        assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)
        for row in (0, 16):
            stack[0, row, row] = -1.0
            assert np.any(np.isnan(compiled(stack)[0]))
