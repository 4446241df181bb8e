"""A random family of networks over all layers, on extreme inputs: neural-tangents, ours, and who is right."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import _exact
from benchmarks._compare import AGREE, kernel_of
from benchmarks._nets import Net, chain, conv, dense, layer, parallel, residual
from benchmarks._process import Worker
from benchmarks._registry import Result, benchmark

NETWORKS = 40
SEED = 31  # the first from 26 on with which every layer below is drawn
SHAPES = {"vectors": (5,), "sequences": (6, 2), "images": (4, 4, 2)}


@benchmark("family", f"{NETWORKS} random networks over all layers on extreme inputs, against neural-tangents 0.6.5")
def run() -> Iterator[Result]:
    """Differences of any entry of both kernels, in units of the roots of its two diagonal entries."""
    rng = np.random.default_rng(SEED)
    with Worker("widetail") as ours, Worker("neural_tangents") as peer:
        for number in range(NETWORKS):
            kind = ("vectors", "sequences", "images")[number % 3]
            net, words = DRAWS[kind](rng)
            yield compare(f"{number}: {words}", net, inputs(SHAPES[kind], rng), ours, peer)


def inputs(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Ordinary, equal, opposite, zero, tiny, huge, and nearly equal rows."""
    x = rng.normal(size=(3, *shape))
    return np.concatenate([x, x[:1], -x[1:2], 0 * x[:1], 1e-6 * x[2:], 1e3 * x[1:2], x[:1] + 1e-7])


def compare(case: str, net: Net, x: np.ndarray, ours: Worker, peer: Worker) -> Result:
    found, theirs = kernel_of(ours, net, x, None, "both"), kernel_of(peer, net, x, None, "both")
    exact = _exact.kernel(net, x)
    pairs = {"ours - peer": (found, theirs), "ours - exact": (found, exact), "peer - exact": (theirs, exact)}
    gaps = {key: difference(*pair) for key, pair in pairs.items()}
    agree = "yes" if gaps["ours - peer"] <= AGREE else "no"
    return {"case": case, **gaps, "reached": "yes" if gaps["ours - exact"] <= AGREE else "NO", "both agree": agree}


def difference(found: dict[str, np.ndarray], reference: dict[str, np.ndarray]) -> float:
    """The largest difference of entries, each over the roots of its two diagonal entries; NaN is infinitely far."""
    worst = 0.0
    for name, expected in reference.items():
        root = np.sqrt(np.abs(np.diagonal(expected)))
        unit = np.maximum(np.outer(root, root), 1e-30)
        gap = np.abs(found[name] - expected) / unit
        worst = max(worst, float(np.max(np.where(np.isnan(gap), np.inf, gap))))
    return worst


def _choice(rng: np.random.Generator, options: Any) -> Any:
    return options[rng.integers(len(options))]


def _activation(rng: np.random.Generator) -> Net:
    """Any of them; what grows without bound only after normalised features."""
    options = [
        layer("Relu"), layer("Abs"), layer("Sign"), layer("Erf"), layer("Gelu"), layer("SigmoidLike"), layer("Gabor"),
        layer("LeakyRelu", negative_slope=float(rng.uniform(0, 0.9))),
        layer("ABRelu", below=float(rng.normal()), above=float(rng.normal())),
        layer("Sin", frequency=float(rng.uniform(0.3, 2)), phase=float(rng.uniform(0, 3))),
        layer("Cos", frequency=float(rng.uniform(0.3, 2))),
        layer("Rbf", gamma=float(rng.uniform(0.1, 1))),
        layer("Gaussian", rate=float(rng.uniform(0.1, 2))),
        layer("ExpNormalized", gamma=float(rng.uniform(0.2, 1.5)), shift=-1.0),
        chain(layer("LayerNorm"), layer("Exp")),
        chain(layer("LayerNorm"), layer("Hermite", degree=int(rng.integers(1, 5)))),
        chain(layer("LayerNorm"), layer("Monomial", degree=int(rng.integers(1, 4)))),
        chain(layer("LayerNorm"), layer("Polynomial", coefficients=rng.normal(size=3).tolist())),
        chain(layer("LayerNorm"), layer("RectifiedMonomial", degree=2)),
    ]  # fmt: skip
    return _choice(rng, options)


def _variances(rng: np.random.Generator) -> dict[str, float]:
    return {"weight_var": float(rng.uniform(0.5, 2.5)), "bias_var": float(_choice(rng, (0.0, rng.uniform(0.01, 0.5))))}


def _vectors(rng: np.random.Generator) -> tuple[Net, str]:
    parts = []
    for _ in range(rng.integers(1, 4)):
        first = dense(**_variances(rng))
        kind = _choice(rng, ("plain", "plain", "residual", "sum", "product", "concatenate", "dropout"))
        if kind in ("sum", "product", "concatenate"):
            second = chain(dense(**_variances(rng)), _activation(rng), dense(**_variances(rng)))
            parts += [parallel(first, second, combine=kind)]
            parts += [dense(**_variances(rng))] if kind != "sum" else []
        elif kind == "residual":
            parts += [first, residual(_activation(rng), dense(**_variances(rng)))]
        else:
            parts += [first]
        parts += [_activation(rng)]
        parts += [layer("Dropout", rate=0.3)] if kind == "dropout" else []
    return chain(*parts), _words(parts)


def _sequences(rng: np.random.Generator) -> tuple[Net, str]:
    graph = rng.normal(size=(6, 6)).tolist()
    marked = layer("PositionalEmbedding", weight_var=float(rng.uniform(0.2, 1)), length=float(rng.uniform(0.5, 3)))
    attention = layer("SelfAttention", weight_var=float(rng.uniform(0.5, 2)), query_key_var=float(rng.uniform(0.2, 1)))
    options = [
        [conv(int(rng.integers(1, 4)), padding=_choice(rng, ("SAME", "VALID", "CIRCULAR")), **_variances(rng))],
        [layer("LocalConv", window=[2], padding="SAME", **_variances(rng))],
        [layer("ConvTranspose", window=[3], strides=[2], padding="SAME", **_variances(rng))],
        [layer("Aggregate", matrix=graph), conv(1, **_variances(rng))],
        [layer("LayerNorm"), attention],
        [layer("LayerNorm"), marked, attention],
        [layer("LayerNorm"), layer("SelfAttention", weight_var=1.0, query_key_var=0.5, weights="linear")],
    ]
    end = _choice(rng, (layer("Flatten"), layer("GlobalAvgPool"), layer("GlobalSumPool")))
    parts = [conv(1, **_variances(rng)), *_choice(rng, options), _activation(rng)]
    return chain(*parts, end), _words([*parts, end])


def _images(rng: np.random.Generator) -> tuple[Net, str]:
    table = rng.normal(size=(4, 2)).tolist()
    windows = [int(size) for size in rng.integers(1, 4, size=2)]
    padding = _choice(rng, ("SAME", "VALID"))
    options = [
        [conv(*windows, padding=_choice(rng, ("SAME", "CIRCULAR")), **_variances(rng))],
        [layer("LocalConv", window=windows, padding=padding, **_variances(rng))],
        [layer("ConvTranspose", window=windows, strides=[2, 1], padding=padding, **_variances(rng))],
        [layer("AvgPool", window=[2, 2], strides=[1, 2], padding=padding), conv(1, 1, **_variances(rng))],
        [layer("SumPool", window=[3, 2], strides=[1, 1], padding=padding), conv(1, 1, **_variances(rng))],
        [layer("LayerNorm", over=[int(rng.integers(2))])],
        [layer("Resize", space=[6, 6]), conv(1, 1, **_variances(rng))],
        [layer("Slice", positional=[[1, None, None], int(rng.integers(4))])],
        [residual(_activation(rng), conv(3, 3, **_variances(rng)))],
    ]
    end = _choice(rng, (layer("Flatten"), layer("GlobalAvgPool")))
    parts = [conv(2, 2, **_variances(rng)), *_choice(rng, options), _activation(rng)]
    if rng.random() < 0.15:
        parts, end = [*parts[:1], layer("DotGeneral", constant=table, axes=[0])], layer("Flatten")
    return chain(*parts, end), _words([*parts, end])


DRAWS = {"vectors": _vectors, "sequences": _sequences, "images": _images}


def _words(parts: list[Net]) -> str:
    """The names of the layers, in order."""
    return ", ".join(f"{name}({_words(inside)})" if inside else name for name, _, *inside in parts)
