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


def layer(net: list[Any], positions: int, table: Any = None) -> Any:
    """A layer from its neutral description, [layer, arguments, *layers inside].

    `positions` are the pixels or time steps of the input, `table` the embedding of positions before an attention.
    """
    name, arguments, *rest = net
    # embeddings of positions are an argument of its attention
    tables = [None, *(part[1] if part[0] == "PositionalEmbedding" else None for part in rest)]
    inside = [layer(part, positions, table) for part, table in zip(rest, tables, strict=False)]
    a: Any = {key: tuple(value) if isinstance(value, list) else value for key, value in arguments.items()}
    if name == "Sequential":
        return stax.serial(*(part for part in inside if part is not None))
    if name in ("Parallel", "Residual"):
        branches = [stax.Identity(), stax.serial(*inside)] if name == "Residual" else inside
        join = {"concatenate": lambda: stax.FanInConcat(-1), "product": stax.FanInProd}.get(
            a.get("combine"), stax.FanInSum
        )()
        return stax.serial(stax.FanOut(len(branches)), stax.parallel(*branches), join)
    if name in ("Dense", "Conv", "LocalConv", "ConvTranspose"):
        scales = {"W_std": math.sqrt(a.get("weight_var", 1.0)), "b_std": math.sqrt(a.get("bias_var", 0.0)) or None}
        if name == "Dense":
            return stax.Dense(1, **scales)
        make = {"Conv": stax.Conv, "LocalConv": stax.ConvLocal, "ConvTranspose": stax.ConvTranspose}[name]
        return make(1, a["window"], strides=a.get("strides"), padding=a.get("padding", "SAME"), **scales)
    if name in ("AvgPool", "SumPool"):
        strides = a.get("strides", a["window"])
        return getattr(stax, name)(a["window"], strides=strides, padding=a.get("padding", "VALID"))
    if name == "LeakyRelu":
        return stax.LeakyRelu(a["negative_slope"])
    if name == "Dropout":
        return stax.Dropout(1 - a["rate"], mode="train")
    if name in ("Sin", "Cos"):
        return getattr(stax, name)(b=a.get("frequency", 1.0), c=a.get("phase", 0.0))
    if name in OTHERS:
        return OTHERS[name](a)
    if name == "SelfAttention":
        is_linear = a.get("weights") == "linear"
        half, value_half = a["query_key_var"] ** 0.25, a["weight_var"] ** 0.25
        if is_linear:  # the peer sums over positions where we take the mean
            half /= math.sqrt(positions)
        return stax.GlobalSelfAttention(
            1, 1, 1, 1, linear_scaling=not is_linear, W_key_std=half, W_query_std=half, W_value_std=value_half,
            W_out_std=value_half, attention_mechanism="IDENTITY" if is_linear else "SOFTMAX", **_embedding(table),
        )  # fmt: skip
    return getattr(stax, name)(**a)


def _embedding(table: Any) -> dict[str, Any]:
    if table is None:
        return {}
    scale = 2 * table["length"] ** 2
    decay = lambda squares: jax.numpy.exp(-squares / scale)  # noqa: E731
    std = math.sqrt(table["weight_var"])
    return {"pos_emb_type": "SUM", "pos_emb_decay_fn": decay, "W_pos_emb_std": std, "val_pos_emb": True}


def _index(positional: Any) -> Any:
    return (slice(None), *(slice(*one) if isinstance(one, (list, tuple)) else one for one in positional))


# layers that are called or told otherwise there
OTHERS: dict[str, Any] = {
    "ABRelu": lambda a: stax.ABRelu(a["below"], a["above"]),
    "Polynomial": lambda a: stax.Polynomial(a["coefficients"]),
    "Gaussian": lambda a: stax.Gaussian(1.0, -a["rate"]),
    "SigmoidLike": lambda a: stax.Sigmoid_like(),
    "LayerNorm": lambda a: stax.LayerNorm(axis=(*(1 + axis for axis in a.get("over", ())), -1)),
    "PositionalEmbedding": lambda a: None,
    "Resize": lambda a: stax.ImageResize((-1, *a["space"], -1), "linear"),
    "Slice": lambda a: stax.Index(_index(a["positional"])),
    "Aggregate": lambda a: stax.Aggregate(aggregate_axis=1),
    # the axis of features is where the sum has left it
    "DotGeneral": lambda a: stax.DotGeneral(
        rhs=np.asarray(a["constant"]),
        dimension_numbers=((tuple(1 + axis for axis in a["axes"]), tuple(range(len(a["axes"])))), ((), ())),
        channel_axis=3,
    ),
}


def pattern(net: list[Any]) -> Any:
    """The matrix of the graph, which goes along with the inputs there; None without one."""
    name, arguments, *inside = net
    if name == "Aggregate":
        return np.asarray(arguments["matrix"])
    return next((found for found in map(pattern, inside) if found is not None), None)


@functools.lru_cache
def compiled(description: str, positions: int) -> Any:
    """The kernel function of the body with a readout, under jit as its authors recommend."""
    *_, kernel_fn = stax.serial(layer(json.loads(description), positions), stax.Dense(1, W_std=1.0, b_std=None))
    return jax.jit(kernel_fn, static_argnames="get")


def kernel(net: list[Any], x1: str, x2: str | None, get: str, dtype: str = "float64") -> dict[str, Any]:
    global last
    a, b = jax.numpy.asarray(np.load(x1), dtype), None if x2 is None else jax.numpy.asarray(np.load(x2), dtype)
    kernel_fn, graph = compiled(json.dumps(net), math.prod(a.shape[1:-1])), pattern(net)
    options = {}
    if graph is not None:  # from positions in the rows to positions in the columns, for every data point
        options["pattern"] = tuple(
            np.broadcast_to(graph.T, (len(x), *graph.T.shape)) for x in (a, a if b is None else b)
        )
    last = None
    before = memory("VmRSS")
    start = time.perf_counter()
    last = jax.block_until_ready(kernel_fn(a, b, get=("nngp", "ntk") if get == "both" else (get,), **options))
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
