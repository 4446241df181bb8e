"""Peak memory: the result and a small workspace, whatever the size and the depth."""

from collections.abc import Iterator

import numpy as np

from benchmarks._compare import inputs, saved
from benchmarks._nets import mlp
from benchmarks._process import Worker
from benchmarks._registry import Result, benchmark

BYTES = 8


@benchmark("memory", "peak memory of kernels, and of the pull-back against jax.grad of the whole kernel")
def run() -> Iterator[Result]:
    for n in (2000, 8000):
        with saved(x1=inputs(n, 8), x2=None) as paths, Worker("widetail") as worker:
            answer = worker.ask("kernel", net=mlp(3, "Relu"), get="both", **paths)
        yield _result(f"kernel, MLP relu, depth 3, n = {n}, both", answer, 2 * n * n * BYTES)
    for depth in (3, 20):
        n, gradients = 3000, []
        for way in ("pull_back", "jax.grad"):
            with saved(x1=inputs(n, 8)) as paths, Worker("widetail") as worker:
                answer = worker.ask("gradient", net=mlp(depth, "Relu"), way=way, **paths)
            gradients.append(answer["gradient"])
            yield _result(f"{way}, MLP relu, depth {depth}, n = {n}, nngp", answer, 0)
        np.testing.assert_allclose(*gradients, rtol=1e-9, atol=1e-9)


def _result(name: str, answer: dict, result_bytes: int) -> Result:
    return {
        "case": name,
        "first call s": answer["seconds"],
        "result MB": result_bytes / 1e6,
        "beside it MB": (answer["peak"] - answer["before"] - result_bytes) / 1e6,
        "process MB": answer["peak"] / 1e6,
    }
