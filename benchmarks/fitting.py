"""`ScaleMixtureRegressor().fit` with everything it does by default: seconds, and memory in kernel matrices."""

import json
import subprocess
import sys
from collections.abc import Iterator

from benchmarks._registry import Result, benchmark
from benchmarks._report import ROOT

MOST_MATRICES = 4.0
MOST_SECONDS = {1000: 15.0, 8000: 150.0}

# In a process of its own, compilation included: what a user waits for.
FIT = """
import json, resource, time
import numpy as np
import widetail as wt
wt.ScaleMixtureRegressor
rng = np.random.default_rng(0)
x = rng.normal(size=({n}, 8))
y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.standard_t(4, size={n})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
wt.ScaleMixtureRegressor().fit(x, y)
seconds = time.perf_counter() - start
print(json.dumps([seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / (8 * {n} ** 2)]))
"""


@benchmark("fitting", "a regressor with its defaults, n x 8: seconds, and memory in n x n float64 matrices")
def run() -> Iterator[Result]:
    for n, most in MOST_SECONDS.items():
        code = FIT.format(n=n)
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
        seconds, matrices = json.loads(done.stdout.splitlines()[-1])
        has_news = n == max(MOST_SECONDS)  # a matrix of 1000 rows is 8 MB: what the compiler needs would be seen
        yield {
            "case": f"{n} x 8, learning included",
            "seconds": seconds,
            "at most": most,
            "n x n matrices": matrices if has_news else None,
            "reached": "NO" if seconds > most or (has_news and matrices > MOST_MATRICES) else "yes",
        }
