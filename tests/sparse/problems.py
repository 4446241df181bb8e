"""Small problems that several tests share."""

import numpy as np

import widetail as wt
from widetail.sparse import CachedRows, Variational, Whitening, law_for

KERNEL = wt.kernels.RBF(0.7)
PRIORS = {
    "point": wt.PointMass(1.3),
    "inverse gamma": wt.InverseGamma(2.0, 2.0),
    "log-normal": wt.LogNormal(0.0, 1.0),
}


def inputs(n=40, seed=0):
    return np.random.default_rng(seed).uniform(-2.0, 2.0, (n, 1))


def sine(x, noise=0.3, seed=1):
    return np.sin(3 * x) + noise * np.random.default_rng(seed).normal(size=x.shape)


def cached(x, y, inducing, dtype="float64", counts=None):
    features, residual = Whitening.of(KERNEL, inducing, dtype).features(x)
    return CachedRows.of(features, residual, y, counts)


def start(prior, outputs, inducing, learn=False):
    return Variational.at_prior(outputs, inducing, law_for(prior, learn=learn))


def scattered(q, seed=0):
    """A posterior with means, covariances and a law that are nothing special."""
    rng = np.random.default_rng(seed)
    outputs, inducing = q.mean.shape
    noise = rng.normal(size=(outputs, inducing, inducing)) / np.sqrt(inducing)
    moved = q.with_mean(rng.normal(size=q.mean.shape))
    moved = moved.with_precision(np.eye(inducing) + 2 * noise @ np.swapaxes(noise, 1, 2))
    return moved.with_law(q.law.improved(lambda t: -2.0 * (t - 0.3) ** 2, moved.quad))
