"""A Gibbs sampler of scales per row, the reference that approximations are measured against. NumPy only."""

import numpy as np
import scipy.special


def student_rows(k_xx, k_tx, y, *, readout, rows, noise, sweeps, seed, burn=500):
    """Draws of 1/w, of w, and of f at new points, for inverse gamma laws of both scales.

    Model: f ~ N(0, beta K), y_i ~ N(f_i, beta noise w_i), beta ~ IG(readout), w_i from one of several inverse gamma
    laws. Given w, beta and f are drawn together: beta with f integrated out, then f given beta.

    Args:
        k_xx, k_tx: kernel between the rows, (n, n), and between the new points and the rows, (m, n).
        y: targets, shape (n,).
        readout: the pair (a, b).
        rows: for every law of w its probability, a and b.
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
    chance, a, b = (np.array(part)[:, None] for part in zip(*rows, strict=True))
    log_chance = np.log(chance) + a * np.log(b) + scipy.special.gammaln(a + 0.5) - scipy.special.gammaln(a)
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
        rates = b + 0.5 * (y - f) ** 2 / (beta * noise)
        of_laws = log_chance - (a + 0.5) * np.log(rates)
        law = np.argmax(of_laws + rng.gumbel(size=of_laws.shape), axis=0)
        w = rates[law, np.arange(n)] / rng.gamma(a[law, 0] + 0.5)
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


def noise_of_inputs(k_xx, k_g, y, *, readout, noise, sweeps, seed, burn=500):
    """Draws of the log noise variance and of the location of f at the rows; the former is a Gaussian process.

    Model: f ~ N(0, beta K), g ~ N(0, K_g), y_i ~ N(f_i, beta noise exp(g_i)), beta ~ IG(readout). Given g, beta and f
    are integrated out; g moves by elliptical slice sampling (Murray, Adams and MacKay, 2010), five moves a sweep.

    Args:
        k_xx, k_g: kernels between the rows, (n, n).
        y: targets, shape (n,).
        readout: the pair (a, b).
        noise: s^2.
        sweeps: how many, after `burn` more.
        seed: of the draws.

    Returns:
        g + log beta and the location of f, shapes (sweeps, n).
    """
    rng = np.random.default_rng(seed)
    n = len(y)
    root = np.linalg.cholesky(k_g + 1e-9 * np.eye(n))

    def log_density(g):
        chol = np.linalg.cholesky(k_xx + np.diag(noise * np.exp(g)))
        half = np.linalg.solve(chol, y)
        value = -np.log(np.diagonal(chol)).sum() - (readout[0] + 0.5 * n) * np.log(readout[1] + 0.5 * half @ half)
        return value, chol, half

    g = np.zeros(n)
    now = log_density(g)
    kept_g, kept_location = [], []
    for sweep in range(burn + sweeps):
        for _ in range(5):
            other = root @ rng.normal(size=n)
            level = now[0] + np.log(rng.uniform())
            angle = rng.uniform(0, 2 * np.pi)
            low, high = angle - 2 * np.pi, angle
            while True:
                trial = g * np.cos(angle) + other * np.sin(angle)
                found = log_density(trial)
                if found[0] > level:
                    g, now = trial, found
                    break
                low, high = (angle, high) if angle < 0 else (low, angle)
                angle = rng.uniform(low, high)
        if sweep >= burn:
            beta = (readout[1] + 0.5 * now[2] @ now[2]) / rng.gamma(readout[0] + 0.5 * n)
            kept_g.append(g + np.log(beta))
            kept_location.append(k_xx @ np.linalg.solve(now[1].T, now[2]))
    return np.array(kept_g), np.array(kept_location)
