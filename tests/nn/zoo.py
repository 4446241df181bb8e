"""Networks that every general property is checked on, with the shape of their inputs."""

from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
import scipy.sparse

from widetail import nn


class Case(NamedTuple):
    name: str
    net: Any
    shape: tuple[int, ...]

    def generic(self, n=3, dtype=np.float64):
        """Random inputs, no two of them related."""
        return np.random.default_rng(len(self.shape)).normal(size=(n, *self.shape)).astype(dtype)

    def inputs(self, dtype=np.float64):
        """Three random inputs, the first one again, its opposite, and zeros."""
        x = self.generic(3, dtype)
        return np.concatenate([x, x[:1], -x[:1], np.zeros_like(x[:1])])


def after_dense(activation):
    return nn.Sequential(nn.Dense(weight_var=1.5, bias_var=0.2), activation)


VECTOR, SEQUENCE, IMAGE = (3,), (4, 2), (4, 3, 2)

ACTIVATIONS = [
    Case(name, after_dense(activation), VECTOR)
    for name, activation in {
        "relu": nn.Relu(),
        "leaky_relu": nn.LeakyRelu(0.2),
        "abs": nn.Abs(),
        "sign": nn.Sign(),
        "erf": nn.Erf(),
        "gelu": nn.Gelu(),
        "sin": nn.Sin(frequency=0.8, phase=0.3),
        "cos": nn.Cos(frequency=1.2),
        "rbf": nn.Rbf(gamma=0.7),
        "tanh": nn.Tanh(order=8),
        "sigmoid": nn.Sigmoid(order=8),
        "elementwise": nn.Elementwise(jax.nn.silu, order=8),
    }.items()
]
NEW_ACTIVATIONS = {
    "ab_relu": nn.ABRelu(0.3, -1.2),
    "rectified_square": nn.RectifiedMonomial(2),
    "hermite": nn.Hermite(2),
    "polynomial": nn.Polynomial([0.5, -1.0, 0.2]),
    "gaussian": nn.Gaussian(0.7),
    "gabor": nn.Gabor(),
    "exp_normalized": nn.ExpNormalized(0.8),
    "sigmoid_like": nn.SigmoidLike(),
}
ACTIVATIONS += [Case(name, after_dense(activation), VECTOR) for name, activation in NEW_ACTIVATIONS.items()]
# a smaller variance: the fourth moments of exp(z) need not be large
ACTIVATIONS.append(Case("exp", nn.Sequential(nn.Dense(weight_var=0.2, bias_var=0.05), nn.Exp()), VECTOR))

_dense = nn.Dense(weight_var=1.4, bias_var=0.1)
_conv = nn.Conv(3, weight_var=1.6, bias_var=0.1)

VECTOR_NETWORKS = [
    Case("linear", nn.Dense(weight_var=0.7, bias_var=0.3), VECTOR),
    Case("no_bias", nn.Sequential(nn.Dense(weight_var=2.0), nn.Relu(), nn.Dense(weight_var=2.0), nn.Erf()), VECTOR),
    Case("ard", nn.Sequential(nn.Dense(weight_var=[0.5, 1.0, 2.0], bias_var=0.1), nn.Relu(), _dense, nn.Erf()), VECTOR),
    Case("deep", nn.mlp(depth=9, activation="relu", weight_var=1.8, bias_var=0.1), VECTOR),
    Case("resnet", nn.resnet(blocks=2, activation="erf", weight_var=1.3, bias_var=0.1), VECTOR),
    Case(
        "sum",
        nn.Sequential(
            _dense, nn.Parallel(nn.Relu(), nn.Sequential(nn.Erf(), _dense)), nn.Dense(weight_var=1.1), nn.Gelu()
        ),
        VECTOR,
    ),
    Case(
        "concatenate",
        nn.Sequential(
            _dense, nn.Parallel(nn.Relu(), nn.Sequential(nn.Erf(), _dense, nn.Sin()), combine="concatenate"), _dense
        ),
        VECTOR,
    ),
    Case("layer_norm", nn.Sequential(_dense, nn.LayerNorm(), nn.Relu(), _dense, nn.Erf()), VECTOR),
    Case("dropout", nn.Sequential(_dense, nn.Relu(), nn.Dropout(0.3), _dense, nn.Erf()), VECTOR),
    Case("identity", nn.Sequential(nn.Identity(), _dense, nn.Relu(), nn.Identity()), VECTOR),
]

SEQUENCE_NETWORKS = [
    Case("conv1d_flatten", nn.Sequential(_conv, nn.Relu(), nn.Flatten()), SEQUENCE),
    Case(
        "conv1d_dense",
        nn.Sequential(nn.Conv(2, weight_var=1.5, padding="VALID"), nn.Relu(), nn.Flatten(), _dense),
        SEQUENCE,
    ),
    Case(
        "conv1d_stride",
        nn.Sequential(nn.Conv(2, weight_var=1.5, bias_var=0.1, strides=2), nn.Erf(), nn.GlobalAvgPool()),
        SEQUENCE,
    ),
    Case(
        "attention_softmax",
        nn.Sequential(
            _conv, nn.Relu(), nn.SelfAttention(weight_var=1.3, query_key_var=2.0), nn.Relu(), nn.GlobalAvgPool()
        ),
        SEQUENCE,
    ),
    Case(
        "attention_linear",
        nn.Sequential(nn.SelfAttention(weight_var=1.3, query_key_var=1.5, weights="linear"), nn.Relu(), nn.Flatten()),
        SEQUENCE,
    ),
]

IMAGE_NETWORKS = [
    Case("conv_flatten", nn.Sequential(_conv, nn.Relu(), _conv, nn.Erf(), nn.Flatten()), IMAGE),
    Case("conv_global_pool", nn.Sequential(_conv, nn.Relu(), _conv, nn.Relu(), nn.GlobalAvgPool()), IMAGE),
    Case(
        "conv_valid_strides",
        nn.Sequential(
            nn.Conv((3, 2), weight_var=1.5, bias_var=0.1, strides=(1, 2), padding="VALID"), nn.Relu(), nn.Flatten()
        ),
        IMAGE,
    ),
    Case(
        "conv_circular",
        nn.Sequential(nn.Conv(3, weight_var=1.5, bias_var=0.1, padding="CIRCULAR"), nn.Relu(), nn.Flatten()),
        IMAGE,
    ),
    Case(
        "conv_circular_strides",
        nn.Sequential(
            nn.Conv(2, weight_var=1.5, bias_var=0.1, strides=2, padding="CIRCULAR"), nn.Erf(), nn.GlobalAvgPool()
        ),
        IMAGE,
    ),
    Case(
        "avg_pool_then_conv",
        nn.Sequential(_conv, nn.Relu(), nn.AvgPool(2), nn.Conv(2, weight_var=1.5), nn.Relu(), nn.Flatten()),
        IMAGE,
    ),
    Case("pool_then_activation", nn.Sequential(_conv, nn.AvgPool(2, strides=1), nn.Relu(), nn.Flatten()), IMAGE),
    Case(
        "sum_pool", nn.Sequential(_conv, nn.Relu(), nn.SumPool((2, 1), strides=2, padding="SAME"), nn.Flatten()), IMAGE
    ),
    Case("conv_residual", nn.Sequential(_conv, nn.Residual(nn.Relu(), _conv), nn.Relu(), nn.GlobalAvgPool()), IMAGE),
    Case("conv_layer_norm", nn.Sequential(_conv, nn.LayerNorm(), nn.Relu(), nn.GlobalAvgPool()), IMAGE),
    Case("conv_dropout", nn.Sequential(_conv, nn.Relu(), nn.Dropout(0.4), _conv, nn.Erf(), nn.GlobalAvgPool()), IMAGE),
    Case("flat_images", nn.Sequential(nn.Flatten(), _dense, nn.Relu()), IMAGE),
]

VOLUME = (3, 2, 2, 2)
_graph = np.random.default_rng(3).normal(size=(3, 4)) * (np.random.default_rng(4).random((3, 4)) > 0.5)
_table = np.random.default_rng(5).normal(size=(3, 2, 2))
POSITION_NETWORKS = [
    Case("product", nn.Sequential(_dense, nn.Parallel(nn.Relu(), _dense, combine="product"), _dense, nn.Erf()), VECTOR),
    Case(
        "local_conv",
        nn.Sequential(_conv, nn.Relu(), nn.LocalConv(2, weight_var=1.5, bias_var=0.1), nn.Relu(), nn.GlobalAvgPool()),
        IMAGE,
    ),
    Case(
        "conv_transpose",
        nn.Sequential(nn.ConvTranspose(3, weight_var=1.5, bias_var=0.1, strides=2), nn.Relu(), nn.GlobalSumPool()),
        SEQUENCE,
    ),
    Case(
        "conv_transpose_valid", nn.Sequential(nn.ConvTranspose((2, 3), padding="VALID"), nn.Erf(), nn.Flatten()), IMAGE
    ),
    Case("slice", nn.Sequential(_conv, nn.Relu(), nn.Slice(slice(1, None), 0), nn.GlobalAvgPool()), IMAGE),
    Case("resize", nn.Sequential(_conv, nn.Resize((3, 5)), nn.Relu(), nn.GlobalAvgPool()), IMAGE),
    Case("aggregate", nn.Sequential(_conv, nn.Aggregate(_graph), nn.Relu(), nn.GlobalAvgPool()), SEQUENCE),
    Case(
        "aggregate_sparse",
        nn.Sequential(nn.Aggregate(scipy.sparse.csr_array(_graph)), _conv, nn.Relu(), nn.GlobalAvgPool()),
        SEQUENCE,
    ),
    Case(
        "positional_embedding",
        nn.Sequential(
            nn.Conv(1), nn.PositionalEmbedding(0.5, length=1.5), nn.SelfAttention(), nn.Relu(), nn.GlobalAvgPool()
        ),
        SEQUENCE,
    ),
    Case(
        "dot_general",
        nn.Sequential(_conv, nn.DotGeneral(_table, (1,)), nn.Relu(), nn.GlobalAvgPool()),
        IMAGE,
    ),
    Case("masked_sequences", nn.Masked(_conv, nn.Relu(), nn.SelfAttention(), nn.Relu(), nn.GlobalAvgPool()), SEQUENCE),
    Case(
        "masked_images",
        nn.Masked(
            _conv,
            nn.LayerNorm("all"),
            nn.Parallel(nn.Sequential(nn.Relu(), _conv), nn.Identity()),
            nn.Erf(),
            nn.AvgPool(2),
            nn.Residual(_conv, nn.Relu(), _conv),
            nn.Flatten(),
        ),
        IMAGE,
    ),
    Case("layer_norm_all", nn.Sequential(_conv, nn.LayerNorm("all"), nn.Relu(), nn.GlobalAvgPool()), IMAGE),
    Case("layer_norm_some", nn.Sequential(_conv, nn.LayerNorm((1,)), nn.Relu(), nn.Flatten()), IMAGE),
    Case("volume", nn.Sequential(nn.Conv(2, bias_var=0.1), nn.Relu(), nn.AvgPool((1, 2, 2)), nn.Flatten()), VOLUME),
]

COMPOSITIONS = VECTOR_NETWORKS + SEQUENCE_NETWORKS + IMAGE_NETWORKS + POSITION_NETWORKS
EVERY = ACTIVATIONS + COMPOSITIONS


# Much like another one, and long to compile: only run with the slow tests.
SLOW = {"conv_circular", "conv_layer_norm", "conv_dropout", "conv_residual", "conv1d_stride", "avg_pool_then_conv"}
SLOW |= set(NEW_ACTIVATIONS) | {case.name for case in POSITION_NETWORKS}


# Each made of layers that another one has too: what compiles a network as a whole does so among the slow tests.
ALIKE = {"leaky_relu", "cos", "sigmoid", "elementwise", "no_bias", "deep", "sum", "identity"}
ALIKE |= {"conv1d_flatten", "attention_linear", "conv_flatten", "conv_circular_strides", "pool_then_activation"}
ALIKE |= {"flat_images", "concatenate", "sum_pool", "conv1d_dense", "resnet", "dropout", "conv_valid_strides"}


def over(cases, slow=SLOW):
    """Run a test on every case, by name."""
    marks = [[pytest.mark.slow] if case.name in slow else [] for case in cases]
    return pytest.mark.parametrize(
        "case", [pytest.param(case, id=case.name, marks=mark) for case, mark in zip(cases, marks, strict=True)]
    )


def named(name):
    return next(case for case in EVERY if case.name == name)
