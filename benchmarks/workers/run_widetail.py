"""widetail answers."""

import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import _models
from benchmarks.workers._serve import forget_peak, memory, serve
from widetail import nn
from widetail.empirical import EmpiricalKernel
from widetail.kernels import Get, KernelValues

last: Any = None


def build(net: list[Any]) -> nn.Layer:
    """A network from its neutral description: [layer, arguments, *layers inside]."""
    name, arguments, *inside = net
    arguments = {key: tuple(value) if isinstance(value, list) else value for key, value in arguments.items()}
    return getattr(nn, name)(*map(build, inside), *arguments.pop("positional", ()), **arguments)


def kernel(net: list[Any], x1: str, x2: str | None, get: Get, dtype: str = "float64") -> dict[str, Any]:
    global last
    body, a, b = build(net), np.load(x1).astype(dtype), None if x2 is None else np.load(x2).astype(dtype)
    last = None
    before = memory("VmRSS")
    start = time.perf_counter()
    last = body.kernel(a, b, get)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "before": before, "peak": memory("VmHWM")}


def values(path: str, rows: list[int] | None = None) -> dict[str, Any]:
    """Save the last result, or some rows of it."""
    chosen = slice(None) if rows is None else rows
    arrays: Any = {name: k[chosen] for name, k in last._asdict().items() if k is not None}
    np.savez(path, **arrays)
    return {}


def gradient(net: list[Any], x1: str, way: str) -> dict[str, Any]:
    """Derivatives of the sum of a random cotangent times the NNGP, in all parameters."""
    body, x = build(net), np.load(x1)
    g = np.random.default_rng(0).normal(size=(len(x), len(x)))
    before = memory("VmRSS")
    start = time.perf_counter()
    if way == "pull_back":
        found = body.pull_back(KernelValues(nngp=g), x)
    else:
        with jax.enable_x64(True):
            parameters, rest = eqx.partition(body, eqx.is_inexact_array_like)
            a, weights = jnp.asarray(x), jnp.asarray(g)

            @jax.jit
            @jax.grad
            def slope(parameters):
                return jnp.vdot(eqx.combine(parameters, rest).kernel(a, get="nngp").nngp, weights)

            found = jax.block_until_ready(slope(parameters))
    seconds = time.perf_counter() - start
    leaves = [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(found) if np.ndim(leaf) == 0]
    return {"seconds": seconds, "before": before, "peak": memory("VmHWM"), "gradient": leaves}


kernels: dict[str, Any] = {}


def empirical(model: str, rows: int) -> dict[str, Any]:
    """The tangent kernel of a finite model, all pairs of outputs; what it was said to take, and takes."""
    global last
    apply, params, x = _models.model(model, rows)
    made = kernels.setdefault(model, EmpiricalKernel(apply, jax.tree.map(jnp.asarray, params)))
    plan, last = made.plan(x, outputs="all"), None
    forget_peak()
    before = memory("VmRSS")
    start = time.perf_counter()
    found = made.ntk(x, outputs="all")
    seconds = time.perf_counter() - start
    last = KernelValues(ntk=found)
    taken = memory("VmHWM") - before
    return {"seconds": seconds, "told": plan.output_bytes + plan.workspace_bytes, "taken": taken}


if __name__ == "__main__":
    serve({"kernel": kernel, "values": values, "gradient": gradient, "empirical": empirical})
