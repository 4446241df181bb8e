"""Import time: widetail against the two libraries that its users import anyway."""

import os
import subprocess
import sys
from collections.abc import Iterator

from benchmarks._registry import Result, benchmark

ROUNDS = 5
AT_MOST = 1.5


@benchmark("imports", "seconds of CPU to import widetail, against jax and scikit-learn")
def run() -> Iterator[Result]:
    # the first name that is used loads all of them
    statements = {"nothing": "pass", "jax + sklearn": "import jax, sklearn", "widetail": "import widetail; widetail.nn"}
    best = dict.fromkeys(statements, float("inf"))
    for _ in range(ROUNDS + 1):  # the first round reads the files from disk; it is never the best
        for name, statement in statements.items():
            best[name] = min(best[name], _cpu_seconds(statement))
    ours, base = (best[name] - best["nothing"] for name in ("widetail", "jax + sklearn"))
    yield {
        "case": "import widetail",
        "ours s": ours,
        "jax + sklearn s": base,
        "ratio": ours / base,
        "at most": AT_MOST,
        "reached": "yes" if ours <= AT_MOST * base else "NO",
    }


def _cpu_seconds(statement: str) -> float:
    before = os.times()
    subprocess.run([sys.executable, "-c", statement], check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system
