"""Error bars of a network that is already trained: ours against laplace-torch's, for the same weights."""

import functools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import sklearn.datasets
from scipy.special import softmax
from sklearn.model_selection import StratifiedShuffleSplit

from benchmarks._process import Worker
from benchmarks._registry import Result, benchmark
from widetail import datasets, metrics
from widetail.empirical import LinearisedClassifier, LinearisedRegressor
from widetail.predictive import Normal

TABLES = ("yacht", "concrete")
CLASSES = ("wine", "breast_cancer")  # of scikit-learn, a fifth of the rows held out
SPLITS = 5  # the first of the 20
WIDTH, STEPS, RATE, DECAY = 50, 3000, 1e-2, 1e-4


def apply(params: Any, x: Any) -> Any:
    """One hidden layer of tanh."""
    (w1, b1), (w2, b2) = params
    return jnp.tanh(x @ w1 + b1) @ w2 + b2


def squared_error(outputs: Any, y: Any) -> Any:
    return jnp.mean((outputs - y) ** 2)


def cross_entropy(outputs: Any, y: Any) -> Any:
    return -jnp.mean(jnp.sum(y * jax.nn.log_softmax(outputs), axis=1))


@functools.partial(jax.jit, static_argnums=3)
def train(key: Any, x: Any, y: Any, loss: Any) -> Any:
    """Adam with weight decay on all rows, a rate that falls to zero."""
    first, second = jax.random.split(key)
    outputs = y.shape[1]
    params = [
        (jax.random.normal(first, (x.shape[1], WIDTH)) / x.shape[1] ** 0.5, jnp.zeros(WIDTH)),
        (jax.random.normal(second, (WIDTH, outputs)) / WIDTH**0.5, jnp.zeros(outputs)),
    ]
    optimiser = optax.adamw(optax.cosine_decay_schedule(RATE, STEPS), weight_decay=DECAY)

    def step(state, _):
        params, memory = state
        slope = jax.grad(lambda p: loss(apply(p, x), y))(params)
        change, memory = optimiser.update(slope, memory, params)
        return (optax.apply_updates(params, change), memory), None

    return jax.lax.scan(step, (params, optimiser.init(params)), None, STEPS)[0][0]


def save(path: Path, params: Any, **arrays: Any) -> str:
    """Weights and data for the other side."""
    (w1, b1), (w2, b2) = params
    np.savez(path, w1=w1, b1=b1, w2=w2, b2=b2, **arrays)
    return str(path)


@benchmark("laplace", f"error bars of a trained network, same weights, against laplace-torch: {SPLITS} splits")
def run() -> Iterator[Result]:
    with Worker("laplace") as peer, tempfile.TemporaryDirectory() as folder:
        for name in TABLES:
            table = datasets.load_regression(name)
            found = [compare(table.split(number), number, peer, Path(folder)) for number in range(SPLITS)]
            yield summary(f"{name}, {len(table.split(0).y_train)} rows", found)


def compare(split: Any, number: int, peer: Worker, folder: Path) -> dict[str, float]:
    """One network, two error bars; targets are standardised."""
    x, new = np.float32(split.x_train), np.float32(split.x_test)
    middle, spread = np.mean(x, axis=0), np.std(x, axis=0)
    x, new = (x - middle) / spread, (new - middle) / spread
    location, scale = np.mean(split.y_train), np.std(split.y_train)
    y, truth = (split.y_train - location) / scale, (split.y_test - location) / scale
    params = train(jax.random.key(number), x, np.float32(y)[:, None], squared_error)
    began = time.process_time()
    dist = LinearisedRegressor(apply, params).fit(x, y).predict_dist(new)
    lower, upper = dist.interval(0.9)
    seconds = time.process_time() - began
    answer = peer.ask("error_bars", path=save(folder / "task.npz", params, x=x, y=np.float32(y), new=new))
    theirs = Normal(np.asarray(answer["mean"]), np.asarray(answer["variance"]))
    return {
        "ours": -float(np.mean(dist.log_prob(truth))),
        "laplace": -float(np.mean(theirs.log_prob(truth))),
        "ours covers": metrics.coverage(dist, truth, 0.9),
        "laplace covers": metrics.coverage(theirs, truth, 0.9),
        "ours width": float(np.mean(upper - lower)),
        "laplace width": float(np.mean(np.subtract(*theirs.interval(0.9)[::-1]))),
        "ours s": seconds,
        "laplace s": answer["seconds"],
        "rmse": float(np.sqrt(np.mean((np.asarray(apply(params, new))[:, 0] - truth) ** 2))),
    }


def summary(case: str, found: list[dict[str, float]]) -> Result:
    """Means over splits; the difference of scores with its standard error."""
    means = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
    gaps = [one["ours"] - one["laplace"] for one in found]
    error = float(np.std(gaps, ddof=1) / np.sqrt(len(gaps)))
    gap = float(np.mean(gaps))
    return {
        "case": case,
        "splits": len(found),
        "ours, -log p": means["ours"],
        "laplace, -log p": means["laplace"],
        "ours - laplace": gap,
        "se": error,
        "reached": "NO" if gap > 2 * error else "yes",
        **{key: value for key, value in means.items() if key not in ("ours", "laplace")},
    }


@benchmark(
    "laplace-classes", f"probabilities of a trained network, same weights, against laplace-torch: {SPLITS} splits"
)
def run_classes() -> Iterator[Result]:
    with Worker("laplace") as peer, tempfile.TemporaryDirectory() as folder:
        for name in CLASSES:
            x, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
            splits = StratifiedShuffleSplit(SPLITS, test_size=0.2, random_state=0).split(x, y)
            found = [
                compare_classes(np.float32(x), y, *rows, number, peer, Path(folder))
                for number, rows in enumerate(splits)
            ]
            yield {"case": f"{name}, {int(0.8 * len(y))} rows", "splits": SPLITS} | {
                key: float(np.mean([one[key] for one in found])) for key in found[0]
            }


def compare_classes(x: Any, y: Any, seen: Any, held: Any, number: int, peer: Worker, folder: Path) -> dict[str, float]:
    """One network, its own probabilities and two others."""
    middle, spread = np.mean(x[seen], axis=0), np.std(x[seen], axis=0)
    old, new = (x[seen] - middle) / spread, (x[held] - middle) / spread
    params = train(jax.random.key(number), old, np.eye(np.max(y) + 1, dtype=np.float32)[y[seen]], cross_entropy)
    began = time.process_time()
    ours = LinearisedClassifier(apply, params).fit(old, y[seen]).predict_proba(new)
    seconds = time.process_time() - began
    answer = peer.ask("probabilities", path=save(folder / "task.npz", params, x=old, y=y[seen], new=new))
    ways = {
        "network": softmax(np.asarray(apply(params, new), float), axis=1),
        "ours": ours,
        "laplace": np.asarray(answer["probabilities"]),
    }
    scores = {"-log p": metrics.nll_from_probabilities, "right": metrics.accuracy, "calibration error": metrics.ece}
    found = {
        f"{way}, {word}": score(probabilities, y[held])
        for word, score in scores.items()
        for way, probabilities in ways.items()
    }
    return found | {"ours s": seconds, "laplace s": answer["seconds"]}
