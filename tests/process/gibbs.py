"""A Gibbs sampler of scales per row, the reference that approximations are measured against. NumPy only."""

import numpy as np


def student_rows(k_xx, k_tx, y, *, readout, rows, noise, sweeps, seed, burn=500):
    """Draws of 1/w, of w, and of f at new points, for inverse gamma laws of both scales.

    Model: f ~ N(0, beta K), y_i ~ N(f_i, beta noise w_i), beta ~ IG(readout), w_i ~ IG(rows). Given w, beta and f are
    drawn together: beta with f integrated out, then f given beta.

    Args:
        k_xx, k_tx: kernel between the rows, (n, n), and between the new points and the rows, (m, n).
        y: targets, shape (n,).
        readout, rows: pairs (a, b).
        noise: s^2.
        sweeps: how many, after `burn` more.
        seed: of the draws.

    Returns:
        w, shape (sweeps, n); the location of f at the new points and beta, shapes (sweeps, m) and (sweeps,): what is
        random of f given those is known exactly, and needs no draws.
    """
    rng = np.random.default_rng(seed)
    n = len(y)
    w = np.ones(n)
    kept_w, kept_location, kept_beta = [], [], []
    for sweep in range(burn + sweeps):
        chol = np.linalg.cholesky(k_xx + np.diag(noise * w))
        half = np.linalg.solve(chol, y)
        beta = (readout[1] + 0.5 * half @ half) / rng.gamma(readout[0] + 0.5 * n)
        solved = np.linalg.solve(chol.T, half)
        reduced = np.linalg.solve(chol, k_xx)
        covariance = k_xx - reduced.T @ reduced
        root = np.linalg.cholesky(covariance + 1e-10 * np.eye(n))
        f = k_xx @ solved + np.sqrt(beta) * root @ rng.normal(size=n)
        w = (rows[1] + 0.5 * (y - f) ** 2 / (beta * noise)) / rng.gamma(rows[0] + 0.5, size=n)
        if sweep >= burn:
            kept_w.append(w)
            kept_location.append(k_tx @ solved)
            kept_beta.append(beta)
    return np.array(kept_w), np.array(kept_location), np.array(kept_beta)


def standard_error(draws, batches=40):
    """Of the mean of correlated draws (sweeps, ...), by means of batches."""
    size = len(draws) // batches
    means = draws[: size * batches].reshape(batches, size, *draws.shape[1:]).mean(axis=1)
    return means.std(axis=0, ddof=1) / np.sqrt(batches)
