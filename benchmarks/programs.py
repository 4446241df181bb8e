"""Tensor programs: a recurrent network, and a perceptron as a program against the same one as layers."""

import json
import subprocess
import sys
from collections.abc import Iterator

from benchmarks._registry import Result, benchmark
from benchmarks._report import ROOT

MOST_SECONDS, MOST_GIGABYTES, MOST_RATIO = 60.0, 4.0, 2.0

# Each in a process of its own: memory and compilation belong to the case alone.
RECURRENT = """
import json, resource, time
import numpy as np
from widetail import programs
x = np.random.default_rng(0).normal(size=(500, 20, 5))
def once():
    start = time.perf_counter()
    programs.rnn.kernel(x, get="nngp")
    return time.perf_counter() - start
first = once()
again = min(once() for _ in range(3))
print(json.dumps([first, again, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6]))
"""

PERCEPTRON = """
import json, time
import numpy as np
from widetail import nn, programs
x = np.random.default_rng(0).normal(size=(4000, 20))
net, program = nn.mlp(3, {activation!r}), programs.mlp(depth=3, fn=nn.{layer}())
best = {{}}
for _ in range(6):  # the first round compiles
    for name, kernel in (("nn", net), ("program", program)):
        start = time.perf_counter()
        kernel.kernel(x, get="nngp")
        best[name] = min(best.get(name, 1e9), time.perf_counter() - start)
print(json.dumps([best["program"], best["nn"]]))
"""


@benchmark("programs", "seconds and memory of a recurrent network's kernel; a perceptron as a program against `nn`")
def run() -> Iterator[Result]:
    first, again, gigabytes = _measure(RECURRENT)
    is_reached = first <= MOST_SECONDS and gigabytes <= MOST_GIGABYTES
    yield {
        "case": "RNN tanh, 20 steps, 500 sequences of dimension 5, nngp",
        "first call s": first,
        "later call s": again,
        "process GB": gigabytes,
        "at most": f"{MOST_SECONDS:g} s, {MOST_GIGABYTES:g} GB",
        "reached": "yes" if is_reached else "NO",
    }
    for activation, layer in (("relu", "Relu"), ("erf", "Erf"), ("tanh", "Tanh")):
        ours, layers = _measure(PERCEPTRON.format(activation=activation, layer=layer))
        yield {
            "case": f"MLP {activation}, depth 3, n = 4000, nngp: program against nn",
            "program s": ours,
            "nn s": layers,
            "ratio": ours / layers,
            "at most": MOST_RATIO,
            "reached": "yes" if ours <= MOST_RATIO * layers else "NO",
        }


def _measure(code: str) -> list[float]:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])
