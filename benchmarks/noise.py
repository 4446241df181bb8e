"""What kinds of noise cost, and the experiment on noise with other libraries beside ours."""

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


@benchmark("noise-cost", f"a fit with every kind of noise, {ROWS} x {FEATURES}, over that with one noise variance")
def cost() -> Iterator[Result]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, FEATURES))
    clean = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.normal(size=ROWS)
    net = wt.nn.mlp(2, "relu", weight_var=np.full(FEATURES, 2.0), bias_var=0.1)
    for share in SHARES:
        y = clean.copy()
        y[: round(share * ROWS)] += 5.0
        used = {}
        for noise in ("scaled", "rows", "inputs", "both", "auto"):
            if share == SHARES[0]:
                wt.ScaleMixtureRegressor(net=net, noise=noise, max_iterations=1).fit(x, y)  # compiles
            began = time.process_time()
            fit = wt.ScaleMixtureRegressor(net=net, noise=noise).fit(x, y)
            used[noise] = time.process_time() - began
            times = used[noise] / used["scaled"]
            yield {
                "case": f"{noise}, {share:.0%} wrong targets",
                "processor seconds": used[noise],
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
