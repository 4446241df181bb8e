"""Ensembles of finite networks: members together or in turn; 5,000 images of MNIST, plain against mixture."""

import time
from collections.abc import Iterator

import jax
import numpy as np

from benchmarks._registry import Result, benchmark
from widetail import finite, nn
from widetail.estimators._wide import default_network
from widetail.experiments.ensembles import EnsembleConfig, tasks

MEMBERS = 8
MOST_MINUTES, LEAST_ACCURACY = 15.0, 0.97
ROUNDS = 3
MNIST = EnsembleConfig(
    images=("mnist",), seeds=1, rows=5000, test_rows=10_000, width=32, trainings=("clean", "left_out")
)


@benchmark("ensembles", f"{MEMBERS} networks trained in one vectorised loop against one after the other")
def run_members() -> Iterator[Result]:
    rng = np.random.default_rng(0)
    table, images = rng.normal(size=(2048, 20)), rng.normal(size=(512, 28, 28, 1))
    cases = (
        ("2 dense layers of width 128, 20 features", nn.mlp(2, "relu"), 128, table, 5),
        ("2 dense layers of width 512, 20 features", nn.mlp(2, "relu"), 512, table, 5),
        ("4 convolutions of width 16, 28 x 28 images", default_network((28, 28, 1)), 16, images, 2),
    )
    for case, net, width, x, epochs in cases:
        network = finite.ScaledNetwork(net, width)
        y = rng.normal(size=(len(x), 1))
        best = {}
        for _ in range(ROUNDS + 1):  # the first round compiles
            for members in ("together", "in_turn"):
                began = time.perf_counter()
                finite.fit_ensemble(
                    network, np.ones(MEMBERS), x, y, key=jax.random.key(0), max_epochs=epochs, members=members
                )
                best.setdefault(members, []).append(time.perf_counter() - began)
        together, in_turn = (min(best[members][1:]) for members in ("together", "in_turn"))
        yield {"case": case, "together s": together, "in turn s": in_turn, "ratio": together / in_turn}


@benchmark("mnist-ensembles", "MNIST, 5,000 images, 8 networks of width 32, plain against mixture; half an hour")
def run_mnist() -> Iterator[Result]:
    for task in tasks(MNIST):
        began = time.monotonic()
        rows = task.run().rows
        minutes = (time.monotonic() - began) / 60
        for row in rows:
            is_clean = task.key["training"] == row["test"] == "clean"
            is_reached = row["accuracy"] >= LEAST_ACCURACY and minutes <= MOST_MINUTES
            yield {
                "case": f"trained {task.key['training']}, {task.key['model']}, tested {row['test']}",
                "minutes": minutes,
                "accuracy": row["accuracy"],
                "NLL per image": row["nll"],
                "ECE": row["ece"],
                "reached": ("yes" if is_reached else "NO") if is_clean else "-",
            }
