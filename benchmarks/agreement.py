"""The same numbers as neural-tangents, and who is right where they differ."""

from collections.abc import Iterator

import numpy as np

from benchmarks import _exact
from benchmarks._compare import AGREE, difference, inputs, kernel_of
from benchmarks._nets import Net, chain, conv, dense, layer, mlp, parallel, residual
from benchmarks._process import Worker
from benchmarks._registry import Result, benchmark

RELU, ERF, FLATTEN, POOL = layer("Relu"), layer("Erf"), layer("Flatten"), layer("GlobalAvgPool")

VECTORS = (5,)
SEQUENCES = (6, 2)
IMAGES = (4, 4, 2)


def architectures() -> Iterator[tuple[str, Net, tuple[int, ...]]]:
    """Name, body and the shape of one input."""
    for activation in ("Relu", "Abs", "Sign", "Erf", "Gelu", "Sin", "Cos", "Exp", "Rbf"):
        yield f"dense, {activation}", mlp(1 if activation == "Exp" else 2, activation), VECTORS
    yield "dense, LeakyRelu 0.2", chain(*[dense(), layer("LeakyRelu", negative_slope=0.2)] * 2), VECTORS
    yield "dense, Sin of frequency 2 and phase 0.3", chain(dense(), layer("Sin", frequency=2.0, phase=0.3)), VECTORS
    yield "dense, Rbf of gamma 0.3", chain(dense(), layer("Rbf", gamma=0.3)), VECTORS
    for activation in ("Relu", "Abs", "Erf", "Gelu"):
        yield f"dense without biases, {activation}", chain(*[dense(1.5, 0.0), layer(activation)] * 2), VECTORS
    yield "dense, relu, 20 layers", mlp(20, "Relu"), VECTORS
    yield "dense, large weights, erf", chain(*[dense(100.0, 1.0), ERF] * 3), VECTORS
    yield "linear", chain(dense(), dense()), VECTORS
    yield "residual, dense", chain(dense(), residual(RELU, dense()), residual(RELU, dense()), RELU), VECTORS
    branches = parallel(chain(dense(), RELU), chain(dense(1.0, 0.3), ERF), combine="concatenate")
    yield "concatenation, dense", chain(branches, dense(), RELU), VECTORS
    branches = parallel(chain(dense(), RELU, dense()), dense(), combine="sum")
    yield "sum of branches, dense", chain(branches, RELU), VECTORS
    yield "layer norm, dense", chain(dense(), layer("LayerNorm"), RELU, dense(), layer("LayerNorm"), ERF), VECTORS
    yield "dropout, dense", chain(dense(), RELU, layer("Dropout", rate=0.3), dense(), RELU), VECTORS
    for padding in ("SAME", "VALID", "CIRCULAR"):
        for end in (FLATTEN, POOL):
            yield (
                f"conv 1-D, {padding}, {end[0]}",
                chain(*[conv(3, padding=padding), RELU] * 2, end),
                SEQUENCES,
            )
            yield (
                f"conv 2-D 3x2, {padding}, {end[0]}",
                chain(conv(3, 2, padding=padding), RELU, conv(2, 2, padding=padding), ERF, end),
                IMAGES,
            )
        yield (
            f"conv 1-D, {padding}, stride 2, pooled",
            chain(conv(3, padding=padding, strides=(2,)), RELU, conv(2, padding=padding), RELU, POOL),
            SEQUENCES,
        )
        yield (
            f"conv 2-D, {padding}, strides 2x1, Flatten",
            chain(conv(2, 2, padding=padding, strides=(2, 1)), RELU, FLATTEN),
            IMAGES,
        )
    for pool in ("AvgPool", "SumPool"):
        for padding in ("VALID", "SAME", "CIRCULAR"):
            pooling = layer(pool, window=(3, 2), strides=(2, 1), padding=padding)
            body = chain(conv(2, 2), RELU, pooling, conv(1, 2), RELU, FLATTEN)
            yield f"{pool} 3x2, strides 2x1, {padding}", body, IMAGES
        pooling = layer(pool, window=(3,), strides=(2,), padding="VALID")
        yield f"{pool} 3, stride 2", chain(conv(3), RELU, pooling, FLATTEN, dense(), RELU), SEQUENCES
    block = residual(RELU, conv(3, 3))
    yield "residual, conv, Flatten", chain(conv(3, 3), block, block, RELU, FLATTEN), IMAGES
    yield "residual, conv, pooled", chain(conv(3, 3), block, RELU, POOL), IMAGES
    yield "conv, pooled, then dense", chain(conv(3, 3), RELU, POOL, dense(), RELU), IMAGES
    yield "conv, flattened, then dense", chain(conv(3, 3), RELU, FLATTEN, dense(), ERF), IMAGES
    branches = parallel(chain(conv(3), RELU), chain(conv(2), ERF), combine="concatenate")
    yield "concatenation, conv, pooled", chain(branches, conv(2), RELU, POOL), SEQUENCES
    yield "layer norm, conv, pooled", chain(conv(3), layer("LayerNorm"), RELU, POOL), SEQUENCES
    yield "dropout, conv, pooled", chain(conv(3), RELU, layer("Dropout", rate=0.3), conv(2), RELU, POOL), SEQUENCES
    for var in (1.0, 0.25):
        attention = layer("SelfAttention", weight_var=1.5, query_key_var=var)
        yield f"attention, softmax, query_key_var {var}", chain(conv(1), RELU, attention, RELU, POOL), SEQUENCES
    attention = layer("SelfAttention", weight_var=1.5, query_key_var=0.25)
    yield "attention on images, Flatten", chain(conv(2, 2), RELU, attention, FLATTEN), IMAGES
    attention = layer("SelfAttention", weight_var=1.5, query_key_var=0.7, weights="linear")
    yield "attention, linear", chain(conv(1), RELU, attention, RELU, POOL), SEQUENCES
    yield from newer()


def newer() -> Iterator[tuple[str, Net, tuple[int, ...]]]:
    """Layers that came later, each with an activation after it that feels its variances."""
    for name, arguments in ACTIVATIONS.items():
        yield f"dense, {name}", chain(dense(0.8, 0.1), layer(name, **arguments)), VECTORS
    yield "dense, layer norm, Hermite", chain(dense(), layer("LayerNorm"), layer("Hermite", degree=3)), VECTORS
    branches = parallel(dense(), chain(dense(), ERF, dense()), combine="product")
    yield "product of branches, dense", chain(branches, dense()), VECTORS
    for name, net, shape in positions():
        yield name, net, shape


ACTIVATIONS = {
    "ABRelu": {"below": 0.3, "above": -1.2},
    "RectifiedMonomial": {"degree": 2},
    "Monomial": {"degree": 3},
    "Polynomial": {"coefficients": [0.5, -1.0, 0.2]},
    "Gaussian": {"rate": 0.7},
    "Gabor": {},
    "ExpNormalized": {"gamma": 0.8, "shift": -0.5},
    "SigmoidLike": {},
}


def positions() -> Iterator[tuple[str, Net, tuple[int, ...]]]:
    """Layers that move, mix or mark positions."""
    windows = {"weight_var": 1.5, "bias_var": 0.1}
    table = np.random.default_rng(5).normal(size=(4, 3)).tolist()
    graph = np.random.default_rng(6).normal(size=(6, 6)).tolist()
    for padding in ("SAME", "VALID"):
        local = layer("LocalConv", window=(2, 3), padding=padding, **windows)
        yield f"local conv, {padding}", chain(conv(2, 2), RELU, local, RELU, POOL), IMAGES
        back = layer("ConvTranspose", window=(3, 2), strides=(2, 1), padding=padding, **windows)
        yield f"transposed conv, {padding}", chain(back, RELU, POOL), IMAGES
    yield "conv 3-D", chain(conv(2, 2, 2), RELU, POOL), (3, 2, 2, 2)
    yield "global sum pool", chain(conv(3), RELU, layer("GlobalSumPool")), SEQUENCES
    yield "layer norm over an axis", chain(conv(2, 2), layer("LayerNorm", over=[0]), RELU, POOL), IMAGES
    yield "slice", chain(conv(2, 2), layer("Slice", positional=[[1, None, None], 0]), RELU, POOL), IMAGES
    yield "resize", chain(conv(1, 1), layer("Resize", space=[6, 5]), FLATTEN), IMAGES
    yield "aggregate", chain(conv(1), layer("Aggregate", matrix=graph), RELU, POOL), SEQUENCES
    yield "sums with a constant", chain(conv(2, 2), layer("DotGeneral", constant=table, axes=[0]), FLATTEN), IMAGES
    marked = layer("PositionalEmbedding", weight_var=0.5, length=1.5)
    attention = layer("SelfAttention", weight_var=1.5, query_key_var=0.5)
    yield "attention with embeddings", chain(conv(1), marked, attention, RELU, POOL), SEQUENCES


@benchmark("agreement", "values of many architectures against neural-tangents 0.6.5 and 40-digit arithmetic")
def run() -> Iterator[Result]:
    """Both kernels, symmetric and cross, with equal and opposite inputs; all columns are relative differences."""
    with Worker("widetail") as ours, Worker("neural_tangents") as peer:
        for name, net, shape in architectures():
            yield compare(name, net, shape, ours, peer)


def compare(name: str, net: Net, shape: tuple[int, ...], ours: Worker, peer: Worker) -> Result:
    x1 = inputs(4, *shape)
    x2 = np.concatenate([x1[[0, 2]], inputs(4, *shape, seed=1)[3:]])
    gaps = {"ours - peer": 0.0, "ours - exact": 0.0, "peer - exact": 0.0}
    for other in (None, x2):
        exact = _exact.kernel(net, x1, other)
        found = kernel_of(ours, net, x1, other, "both")
        theirs = kernel_of(peer, net, x1, other, "both")
        pairs = {"ours - peer": (found, theirs), "ours - exact": (found, exact), "peer - exact": (theirs, exact)}
        gaps = {key: max(gaps[key], difference(*pair)) for key, pair in pairs.items()}
    is_right = gaps["ours - exact"] <= AGREE
    return {"case": name, **gaps, "reached": "yes" if is_right else "NO", "both agree": _word(gaps["ours - peer"])}


def _word(gap: float) -> str:
    return "yes" if gap <= AGREE else "no"
