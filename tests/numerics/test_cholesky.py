"""The Cholesky factor: jitter, failure, growth."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from widetail.numerics import CholeskyFactor


def random_positive(n, seed=0):
    root = np.random.default_rng(seed).normal(size=(n, n))
    return root @ root.T + np.eye(n)


@pytest.mark.parametrize("n", [1, 5, 700])
def test_solves_and_determinant(n):
    matrix = random_positive(n)
    factor = CholeskyFactor.of(matrix.copy())
    b = np.ones((n, 2))
    assert factor.jitter == 0
    assert_allclose(matrix @ factor.solve(b), b, atol=1e-8)
    assert_allclose(factor.solve_upper(factor.solve_lower(b)), factor.solve(b), atol=1e-10)
    assert_allclose(factor.log_det(), np.linalg.slogdet(matrix)[1], rtol=1e-10)
    assert_allclose(factor.inverse() @ matrix, np.eye(n), atol=1e-8)
    assert_allclose(factor.inverse_diagonal(), np.diagonal(factor.inverse()), rtol=1e-10)


def test_extending_equals_factoring_at_once():
    matrix = random_positive(30)
    grown = CholeskyFactor.of(matrix[:20, :20].copy()).extend(matrix[:20, 20:], matrix[20:, 20:])
    assert_allclose(np.tril(grown.lower), np.linalg.cholesky(matrix), atol=1e-10)


@pytest.mark.parametrize("n", [6, 1100])
def test_a_singular_matrix_gets_a_little_jitter_and_says_so(n):
    x = np.random.default_rng(0).normal(size=(n, 3))
    factor = CholeskyFactor.of(x @ x.T)
    assert 0 < factor.jitter <= 1e-6 * np.mean(np.sum(x**2, 1))
    assert_allclose(np.tril(factor.lower) @ np.tril(factor.lower).T, x @ x.T, atol=1e-4)


@pytest.mark.parametrize("n", [5, 600])
def test_an_indefinite_matrix_is_refused_with_its_smallest_eigenvalue(n):
    matrix = np.eye(n)
    matrix[0, 0] = -2.0
    with pytest.raises(np.linalg.LinAlgError, match=r"smallest eigenvalue is about -2.*observation noise"):
        CholeskyFactor.of(matrix)


def test_duplicated_rows_without_noise():
    x = np.repeat(np.linspace(0.0, 1.0, 8)[:, None], 2, axis=0)
    posterior = wt.ScaleMixture(wt.kernels.RBF(), noise=wt.ScaledNoise(0.0)).posterior(x, x[:, 0])
    assert posterior.diagnostics.jitter > 0
    assert np.all(np.isfinite(posterior(x).mean))
