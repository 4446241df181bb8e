"""neural-tangents answers."""

import collections
import functools
import importlib
import json
import math
import time
from typing import Any

import jax
import neural_tangents  # pyright: ignore[reportMissingImports]
import numpy as np
from neural_tangents import stax  # pyright: ignore[reportMissingImports]

from benchmarks import _models
from benchmarks.workers._serve import memory, serve

# the release reads these where JAX 0.4.30 no longer has them
vars(jax.interpreters.ad)["source_info_util"] = importlib.import_module("jax._src.source_info_util")
vars(jax.interpreters.ad)["config"] = jax.config
last: Any = None
Ntk = collections.namedtuple("Ntk", ["ntk"])
jax.config.update("jax_enable_x64", True)


def layer(net: list[Any], positions: int) -> Any:
    """A layer from its neutral description, [layer, arguments, *layers inside]; pixels or time steps of the input."""
    name, arguments, *rest = net
    inside = [layer(part, positions) for part in rest]
    a: Any = {key: tuple(value) if isinstance(value, list) else value for key, value in arguments.items()}
    if name == "Sequential":
        return stax.serial(*inside)
    if name in ("Parallel", "Residual"):
        branches = [stax.Identity(), stax.serial(*inside)] if name == "Residual" else inside
        join = stax.FanInConcat(-1) if a.get("combine") == "concatenate" else stax.FanInSum()
        return stax.serial(stax.FanOut(len(branches)), stax.parallel(*branches), join)
    if name in ("Dense", "Conv"):
        scales = {"W_std": math.sqrt(a.get("weight_var", 1.0)), "b_std": math.sqrt(a.get("bias_var", 0.0)) or None}
        if name == "Dense":
            return stax.Dense(1, **scales)
        return stax.Conv(1, a["window"], strides=a.get("strides"), padding=a.get("padding", "SAME"), **scales)
    if name in ("AvgPool", "SumPool"):
        strides = a.get("strides", a["window"])
        return getattr(stax, name)(a["window"], strides=strides, padding=a.get("padding", "VALID"))
    if name == "LeakyRelu":
        return stax.LeakyRelu(a["negative_slope"])
    if name == "Dropout":
        return stax.Dropout(1 - a["rate"], mode="train")
    if name in ("Sin", "Cos"):
        return getattr(stax, name)(b=a.get("frequency", 1.0), c=a.get("phase", 0.0))
    if name == "SelfAttention":
        is_linear = a.get("weights") == "linear"
        half, value_half = a["query_key_var"] ** 0.25, a["weight_var"] ** 0.25
        if is_linear:  # the peer sums over positions where we take the mean
            half /= math.sqrt(positions)
        return stax.GlobalSelfAttention(
            1, 1, 1, 1, linear_scaling=not is_linear, W_key_std=half, W_query_std=half, W_value_std=value_half,
            W_out_std=value_half, attention_mechanism="IDENTITY" if is_linear else "SOFTMAX",
        )  # fmt: skip
    return getattr(stax, name)(**a)


@functools.lru_cache
def compiled(description: str, positions: int) -> Any:
    """The kernel function of the body with a readout, under jit as its authors recommend."""
    *_, kernel_fn = stax.serial(layer(json.loads(description), positions), stax.Dense(1, W_std=1.0, b_std=None))
    return jax.jit(kernel_fn, static_argnames="get")


def kernel(net: list[Any], x1: str, x2: str | None, get: str, dtype: str = "float64") -> dict[str, Any]:
    global last
    a, b = jax.numpy.asarray(np.load(x1), dtype), None if x2 is None else jax.numpy.asarray(np.load(x2), dtype)
    kernel_fn = compiled(json.dumps(net), math.prod(a.shape[1:-1]))
    last = None
    before = memory("VmRSS")
    start = time.perf_counter()
    last = jax.block_until_ready(kernel_fn(a, b, get=("nngp", "ntk") if get == "both" else (get,)))
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "before": before, "peak": memory("VmHWM")}


def values(path: str, rows: list[int] | None = None) -> dict[str, Any]:
    """Save the last result, or some rows of it."""
    chosen = slice(None) if rows is None else np.asarray(rows)
    arrays: Any = {name: np.asarray(k)[chosen] for name, k in last._asdict().items()}
    np.savez(path, **arrays)
    return {}


@functools.lru_cache
def tangent(model: str, way: int) -> Any:
    """The tangent kernel of a finite model by one of three ways, under jit."""
    apply, params, _ = _models.model(model, 1)
    options = {"trace_axes": (), "vmap_axes": 0, "implementation": way}
    ntk_fn = jax.jit(neural_tangents.empirical_ntk_fn(apply, **options))
    single = jax.tree_util.tree_map(lambda leaf: jax.numpy.asarray(leaf, "float32"), params)
    return lambda x: ntk_fn(x, None, single)


def empirical(model: str, rows: int, way: int) -> dict[str, Any]:
    global last
    ntk_fn, x = tangent(model, way), jax.numpy.asarray(_models.model(model, rows)[2])
    last = None
    start = time.perf_counter()
    found = jax.block_until_ready(ntk_fn(x))
    seconds = time.perf_counter() - start
    last = Ntk(found)
    return {"seconds": seconds}


if __name__ == "__main__":
    serve({"kernel": kernel, "values": values, "empirical": empirical})
