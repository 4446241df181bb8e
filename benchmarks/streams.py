"""Streams of more rows than are kept: how far they end from where one table of all rows ends."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import widetail as wt
from benchmarks._registry import Result, benchmark
from widetail import sparse
from widetail.sparse import CachedRows, SparseFit, Variational, Whitening, law_for, train, variances

ROWS, CALLS = 3000, 5
KEPT = (1000, 300)
# Features of the inputs, inducing inputs and length scale.
TABLES = ((1, 8, 0.7), (4, 40, 2.0))
TRAINING: dict[str, Any] = {"tolerance": 1e-6, "max_iterations": 300, "from_few": False}


@benchmark(
    "streams", f"classes, counts and heavy tails in {CALLS} calls: means and standard deviations against one table"
)
def run() -> Iterator[Result]:
    for features, inducing, length in TABLES:
        rng = np.random.default_rng(0)
        x = rng.uniform(-2.0, 2.0, (ROWS, features))
        f = np.sin(2 * x[:, :1]) + (0.5 * x[:, 1:2] if features > 1 else 0.0)
        points = (
            np.linspace(-2.0, 2.0, inducing)[:, None] if features == 1 else rng.uniform(-2.0, 2.0, (inducing, features))
        )
        whitened = Whitening.of(wt.kernels.RBF(length), points, "float64").features(x)
        for name, (likelihood, y) in _targets(f, rng).items():
            rows = CachedRows.of(*whitened, y)
            start = Variational.at_prior(3 if name == "classes" else 1, inducing, law_for(wt.InverseGamma(2.0, 2.0)))
            whole = train(rows, likelihood, start, **TRAINING)
            for kept in KEPT:
                began = time.process_time()
                stream = _streamed(rows, likelihood, start, kept)
                yield {
                    "case": f"{name}, {features} features, {kept} of {ROWS} rows kept",
                    **_differences(rows, stream, whole),
                    "processor s": time.process_time() - began,
                }


def _targets(f: np.ndarray, rng: np.random.Generator) -> dict[str, tuple[Any, np.ndarray]]:
    classes = np.clip(np.round(f[:, 0] + 0.4 * rng.normal(size=len(f))) + 1, 0, 2).astype(int)
    yes = (rng.uniform(size=f.shape) < 1 / (1 + np.exp(-3 * f))).astype(float)
    return {
        "classes": (sparse.Categorical(3), classes),
        "two classes": (sparse.Bernoulli(), yes),
        "counts": (sparse.Poisson("softplus"), rng.poisson(np.logaddexp(0.0, 1 + 2 * f)).astype(float)),
        "Student-t noise": (sparse.StudentT(4.0, 0.1), f + 0.3 * rng.standard_t(4.0, size=f.shape)),
    }


def _streamed(rows: CachedRows, likelihood: Any, q: Variational, kept: int) -> SparseFit:
    fit = None
    for part in np.array_split(np.arange(len(rows)), CALLS):
        if fit is not None:
            q, likelihood = fit.q, fit.likelihood
        memory = None if fit is None else fit.memory
        fit = train(rows.at(part), likelihood, q, memory=memory, kept_rows=kept, **TRAINING)
    assert fit is not None
    return fit


def _differences(rows: CachedRows, fit: SparseFit, whole: SparseFit) -> dict[str, float]:
    """Of the latent functions at all rows."""
    (mean, deviation), (its_mean, its_deviation) = (
        (rows.features @ one.q.mean.T, np.sqrt(variances(rows, one.q) / one.q.law.mean_precision))
        for one in (fit, whole)
    )
    away = np.abs(mean - its_mean) / its_deviation
    return {
        "means, median of sds": float(np.median(away)),
        "means, most": float(np.max(away)),
        "sds, most": float(np.max(np.abs(deviation / its_deviation - 1))),
        "scale": float(abs(fit.q.law.mean_precision / whole.q.law.mean_precision - 1)),
    }
