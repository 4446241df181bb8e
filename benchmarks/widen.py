"""The limit of a model of the user's own, through `wt.widen`, against the same network written in `nn`."""

import os
import time
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import widetail as wt
from benchmarks._compare import inputs
from benchmarks._registry import Result, benchmark
from widetail import nn

ROUNDS = 10  # of which the best counts; the two take turns, and the second case takes 0.3 seconds
MOST = 1.2  # times the seconds of `nn`
VARIANCES = {"*.weight": 2.0, "*.bias": 0.1}


def mlp(width: int, key: Any) -> Any:
    return eqx.nn.MLP(8, 1, width, 3, key=key)


class CNN(eqx.Module):
    """Four convolutions, then all pixels side by side."""

    layers: list

    def __init__(self, width: int, key: Any):
        keys = jax.random.split(key, 5)
        channels = (1, width, width, width, width)
        self.layers = [eqx.nn.Conv2d(channels[k], channels[k + 1], 3, padding=1, key=keys[k]) for k in range(4)]
        self.layers.append(eqx.nn.Linear(28 * 28 * width, 1, key=keys[4]))

    def __call__(self, x: Any) -> Any:
        x = jnp.moveaxis(x, -1, 0)
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        return self.layers[-1](x.ravel())


CONVOLUTIONS = [layer for _ in range(4) for layer in (nn.Conv(3, weight_var=2.0, bias_var=0.1), nn.Relu())]
CASES = (
    ("MLP relu, depth 3, n = 8000, d = 8, both", mlp, nn.mlp(3, "relu"), (8000, 8), "both"),
    ("CNN 4 x (3x3, relu), flatten, 28x28, n = 300, nngp", CNN, nn.Sequential(*CONVOLUTIONS, nn.Flatten()),
     (300, 28, 28, 1), "nngp"),
)  # fmt: skip


@benchmark(
    "widen", "kernels of Equinox models through widen against the same networks in nn: seconds, ratio, agreement"
)
def run() -> Iterator[Result]:
    print(f"load average at the start: {os.getloadavg()[0]:.2f} (it should be near 0)")
    for name, make, net, shape, get in CASES:
        x = inputs(*shape)
        start = time.perf_counter()
        wide = wt.widen(make, x.shape[1:], variances=VARIANCES)
        reading = time.perf_counter() - start
        wide.check(x[:3], (4,), draws=2)  # so that the first kernel has nothing to say
        best: dict[str, float] = {}
        values: dict[str, Any] = {}
        for number in range(ROUNDS + 1):
            for word, kernel in (("widen", wide), ("nn", net)):
                values.pop(word, None)
                start = time.perf_counter()
                values[word] = kernel.kernel(x, get=get)
                seconds = time.perf_counter() - start
                if number:  # the first round compiles and touches fresh memory
                    best[word] = min(best.get(word, np.inf), seconds)
        gaps = [
            float(np.max(np.abs(mine[:300] - theirs[:300])) / np.max(theirs[:300]))
            for mine, theirs in zip(values["widen"], values["nn"], strict=True)
            if theirs is not None
        ]
        ratio = best["widen"] / best["nn"]
        yield {
            "case": name, "widen s": best["widen"], "nn s": best["nn"], "ratio": ratio, "at most": MOST,
            "reached": "yes" if ratio <= MOST and max(gaps) <= 1e-6 else "NO",
            "agreement": max(gaps), "read once, s": reading,
        }  # fmt: skip
