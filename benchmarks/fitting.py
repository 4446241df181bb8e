"""`ScaleMixtureRegressor().fit` with everything it does by default: seconds, and memory in kernel matrices."""

import json
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


@benchmark("fitting", "a regressor with its defaults: seconds of a first and a second fit, memory in n x n matrices")
def run() -> Iterator[Result]:
    for (n, d), most in MOST_SECONDS.items():
        code = FIT.format(n=n, d=d)
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
        first, first_processor, second, second_processor, matrices = json.loads(done.stdout.splitlines()[-1])
        has_news = n == max(rows for rows, _ in MOST_SECONDS)  # of small matrices, what is imported would be seen
        is_slow = first > most or second > most / 2
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
