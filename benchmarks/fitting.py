"""`ScaleMixtureRegressor().fit` with everything it does by default: seconds, and memory in kernel matrices."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator

from benchmarks._registry import Result, benchmark
from benchmarks._report import ROOT

MOST_MATRICES = 4.0
# Rows, features, and the seconds that the first fit may take on two idle cores; the second one half of that.
MOST_SECONDS = {(500, 8): 2.0, (1000, 10): 4.0, (3000, 10): 10.0, (10_000, 10): 60.0}

# In a process of its own, compilation included: what a user waits for.
FIT = """
import json, resource, time
import numpy as np
import widetail as wt
wt.ScaleMixtureRegressor
times = []
for seed in (0, 1):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=({n}, {d}))
    y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.standard_t(4, size={n})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, processor = time.perf_counter(), time.process_time()
    wt.ScaleMixtureRegressor().fit(x, y)
    times += [time.perf_counter() - wall, time.process_time() - processor]
    if seed == 0:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps([*times, peak * 1024 / (8 * {n} ** 2)]))
"""


BESIDE = (1000, 10)  # the fit that is measured beside a busy process on each core, too
MOST_PROCESSOR = 2.0  # times what it takes alone


@benchmark("fitting", "a regressor with its defaults: seconds of a first and a second fit, memory in n x n matrices")
def run() -> Iterator[Result]:
    alone = 0.0
    for (n, d), most in MOST_SECONDS.items():
        first, first_processor, second, second_processor, matrices = _fits(n, d)
        has_news = n == max(rows for rows, _ in MOST_SECONDS)  # of small matrices, what is imported would be seen
        is_slow = first > most or second > most / 2
        alone = first_processor if (n, d) == BESIDE else alone
        yield {
            "case": f"{n} x {d}, learning included",
            "first": first,
            "at most": most,
            "second": second,
            "processor, first": first_processor,
            "second one": second_processor,
            "n x n matrices": matrices if has_news else None,
            "reached": "NO" if is_slow or (has_news and matrices > MOST_MATRICES) else "yes",
        }
    with _busy(len(os.sched_getaffinity(0))):
        first, first_processor, second, second_processor, _ = _fits(*BESIDE)
    yield {
        "case": f"{BESIDE[0]} x {BESIDE[1]}, beside a busy process on each core",
        "first": first,
        "at most": None,
        "second": second,
        "processor, first": first_processor,
        "second one": second_processor,
        "n x n matrices": None,
        "reached": "yes" if first_processor <= MOST_PROCESSOR * alone else "NO",
    }


def _fits(n: int, d: int) -> list[float]:
    code = FIT.format(n=n, d=d)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def _busy(count: int) -> Iterator[None]:
    """So many processes that do nothing but take time."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()
