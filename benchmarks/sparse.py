"""Sparse variational inference: one training step against GPyTorch's SVGP, and the cost of an epoch in the rows."""

import os
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np

from benchmarks._compare import saved
from benchmarks._process import Worker
from benchmarks._registry import Result, benchmark

INDUCING, BATCH, CLASSES, FEATURES = 400, 256, 10, 8
ROUNDS, STEPS = 3, 16  # as many as there are between two factorisations
DRAWS = 16  # of f, in both libraries
EPOCH_ROWS = (5_000, 20_000, 60_000)
FASTER = 5.0
SVTP_SLOWER = 1.1
AGREE = 2e-3  # relative, of two bounds that are both estimated by draws


@benchmark("sparse", f"one step of SVGP, M = {INDUCING}, batch {BATCH}, {CLASSES} classes, against GPyTorch; epochs")
def run() -> Iterator[Result]:
    print(f"load average at the start: {os.getloadavg()[0]:.2f} (it should be near 0)")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(INDUCING + BATCH, FEATURES))
    squared = np.sum((x[:, None] - x[None]) ** 2, axis=-1)
    matrix = np.exp(-0.5 * squared / 4.0) + 1e-4 * np.eye(len(x))
    y = rng.integers(0, CLASSES, BATCH)
    mean = rng.normal(size=(CLASSES, INDUCING))
    noise = rng.normal(size=(CLASSES, INDUCING, INDUCING)) / 20.0
    factor = np.tril(noise, -1) * 0.2 + 0.5 * np.eye(INDUCING)
    with ExitStack() as stack, saved(matrix=matrix, y=y, mean=mean, factor=factor) as paths:
        ours, peer = (stack.enter_context(Worker(name)) for name in ("sparse", "gpytorch_sparse"))
        for dtype in ("float32", "float64"):
            found = {
                name: worker.ask("bound", dtype=dtype, **paths) for name, worker in (("ours", ours), ("peer", peer))
            }
            difference = abs(found["ours"]["bound"] / found["peer"]["bound"] - 1)
            asks = {
                "svgp": lambda dtype=dtype: ours.ask("steps", law="point", dtype=dtype, steps=STEPS, **paths),
                "svtp": lambda dtype=dtype: ours.ask("steps", law="inverse_gamma", dtype=dtype, steps=STEPS, **paths),
                "peer": lambda dtype=dtype: peer.ask("steps", dtype=dtype, steps=STEPS, draws=DRAWS, **paths),
            }
            wall, cpu = _take_turns(asks)
            yield _result(f"GPyTorch's SVGP, {dtype}", "peer", "svgp", wall, cpu, FASTER, difference)
            yield _result(f"our SVGP, against SVTP, {dtype}", "svgp", "svtp", wall, cpu, 1 / SVTP_SLOWER, None)
        first = None
        for rows in EPOCH_ROWS:
            epoch = min(ours.ask("epoch", rows=rows, inducing=INDUCING, classes=CLASSES)["seconds"] for _ in range(2))
            first = first or epoch / rows
            yield {
                "case": f"an epoch of {rows} rows, float32",
                "ours s": epoch,
                "per row, of the first": epoch / rows / first,
            }
    print(f"load average at the end: {os.getloadavg()[0]:.2f}")


def _take_turns(asks) -> tuple[dict[str, float], dict[str, float]]:
    """The best wall and CPU seconds of a step in a few rounds; the latter tell more on a busy machine."""
    wall, cpu = dict.fromkeys(asks, np.inf), dict.fromkeys(asks, np.inf)
    for number in range(ROUNDS + 1):
        for name, ask in asks.items():
            answer = ask()
            if number > 0:  # the first round compiles
                wall[name] = min(wall[name], answer["seconds"])
                cpu[name] = min(cpu[name], answer["cpu"])
    return wall, cpu


def _result(name, peer, ours, wall, cpu, wanted, difference) -> Result:
    ratio = wall[peer] / wall[ours]
    is_reached = ratio >= wanted and (difference is None or difference < AGREE)
    return {
        "case": name,
        "ours s": wall[ours],
        "peer s": wall[peer],
        "ratio": ratio,
        "ratio of CPU": cpu[peer] / cpu[ours],
        "to reach": wanted,
        "reached": "yes" if is_reached else "NO",
        "difference": difference,
    }
