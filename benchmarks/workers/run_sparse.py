"""widetail's sparse models answer."""

import time

import jax
import numpy as np
import scipy.linalg

from benchmarks.workers._serve import serve
from widetail.sparse import CachedRows, Categorical, InverseGammaScale, PointScale, Variational, variances
from widetail.sparse._draws import nodes_of
from widetail.sparse._rows import totals, values
from widetail.sparse.training._minibatch import REFRESH_EVERY, minibatch_step, moments_of, refresh

LAWS = {"point": PointScale(1.0, learn=False), "inverse_gamma": InverseGammaScale(20.0, 20.0, 2.0, 2.0)}
MANY_DRAWS = 1024


def problem(matrix, y, mean, factor, dtype):
    matrix, y, mean, factor = (np.load(path) for path in (matrix, y, mean, factor))
    count = mean.shape[1]
    lower = np.linalg.cholesky(matrix[:count, :count])
    features = scipy.linalg.solve_triangular(lower, matrix[:count, count:], lower=True).T
    residual = np.diagonal(matrix)[count:] - np.sum(features**2, axis=1)
    inverse = np.linalg.inv(factor)
    q = Variational(mean, factor, factor, LAWS["point"]).with_precision(np.swapaxes(inverse, 1, 2) @ inverse)
    return CachedRows.of(np.ascontiguousarray(features, dtype), residual, y), q


def bound(dtype, **paths):
    rows, q = problem(dtype=dtype, **paths)
    likelihood = Categorical(len(q.mean))
    nodes = nodes_of(q.law, likelihood, len(q.mean), 0, rows.features.dtype, MANY_DRAWS)
    expected = values(rows, q.mean, variances(rows, q), likelihood, nodes)
    return {"bound": expected - q.divergence}


def steps(law, dtype, steps, **paths):
    rows, q = problem(dtype=dtype, **paths)
    likelihood, law = Categorical(len(q.mean)), LAWS[law]
    dtype = rows.features.dtype
    nodes = nodes_of(law, likelihood, len(q.mean), 0, dtype, rows=len(rows))
    batch = (rows.features, rows.residual, rows.y, rows.counts)
    numbers = [np.asarray(number, dtype) for number in (law.mean_precision, 1.0, 0.1)]
    with jax.enable_x64(True):
        moments = moments_of(q, dtype)
        jax.block_until_ready(moments)
        start, used = time.perf_counter(), time.process_time()
        for number in range(steps):
            moments, _ = minibatch_step(likelihood, moments, *batch, nodes, *numbers)
            if number % REFRESH_EVERY == REFRESH_EVERY - 1:
                moments = refresh(moments)
        jax.block_until_ready(moments)
        return {"seconds": (time.perf_counter() - start) / steps, "cpu": (time.process_time() - used) / steps}


def epoch(rows, inducing, classes):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(rows, inducing)).astype(np.float32) / 20
    data = CachedRows.of(features, np.full(rows, 0.05), rng.integers(0, classes, rows))
    likelihood = Categorical(classes)
    q = Variational.at_prior(classes, inducing, LAWS["inverse_gamma"])
    nodes = nodes_of(q.law, likelihood, classes, 0, np.float32)
    start = time.perf_counter()
    totals(data, q, variances(data, q), likelihood, nodes)
    return {"seconds": time.perf_counter() - start}


if __name__ == "__main__":
    serve({"bound": bound, "steps": steps, "epoch": epoch})
