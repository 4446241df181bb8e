"""What kinds of noise cost, and the experiment on noise with other libraries beside ours."""

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

import widetail as wt
from benchmarks._peers import python_of
from benchmarks._registry import Result, benchmark
from benchmarks._report import ROOT

ROWS, FEATURES = 1000, 4
MOST_TIMES = 4.0  # of the fit with one noise variance
SHARES = (0.0, 0.1)  # of wrong targets
KINDS = ("scaled", "rows", "inputs", "both")


@benchmark("noise-cost", f"a fit with every kind of noise, {ROWS} x {FEATURES}, over that with one noise variance")
def cost() -> Iterator[Result]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, FEATURES))
    clean = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.normal(size=ROWS)
    net = wt.nn.mlp(2, "relu", weight_var=np.full(FEATURES, 2.0), bias_var=0.1)
    constant: dict[float, float] = {}
    for share, noise in [*itertools.product(SHARES, KINDS), (SHARES[0], "auto")]:
        y = clean.copy()
        y[: round(share * ROWS)] += 5.0
        if share == SHARES[0]:
            wt.ScaleMixtureRegressor(net=net, noise=noise, max_iterations=1).fit(x[:200], y[:200])  # compiles
        began = time.process_time()
        fit = wt.ScaleMixtureRegressor(net=net, noise=noise).fit(x, y)
        used = time.process_time() - began
        times = used / constant.setdefault(share, used)
        yield {
            "case": f"{noise}, {share:.0%} wrong targets",
            "processor seconds": used,
            "times": times,
            "at most": None if noise == "auto" else MOST_TIMES,
            "evaluations": None if fit.evidence_fit_ is None else fit.evidence_fit_.evaluations,
            "reached": "NO" if noise != "auto" and times > MOST_TIMES else "yes",
        }


@benchmark("noise", "`widetail reproduce noise --full` with BoTorch, GPyTorch, NGBoost, CatBoost and quantile forests")
def peers() -> Iterator[Result]:
    command = f"{python_of('noise')} {ROOT / 'benchmarks' / 'workers' / 'run_noise.py'}"
    arguments = [sys.executable, "-m", "widetail", "reproduce", "noise", "--full"]
    done = subprocess.run(arguments, cwd=ROOT, env=os.environ | {"WIDETAIL_PEERS": command})
    yield {"case": "results/noise-full", "reached": "NO" if done.returncode else "yes"}
