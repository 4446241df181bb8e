"""Architectures that an estimator without a network of the user's own chooses from."""

import numpy as np

from widetail import nn
from widetail.kernels import Kernel

# Small data sets cannot tell per-feature variances; large ones pay for them with every evaluation.
MOST_RELEVANCES = 64


def default_networks(features: int) -> dict[str, Kernel]:
    """Networks on vectors, with one prior variance per feature where there are not too many of them.

    One hidden layer of random Fourier features is a Gaussian (RBF) kernel, so that is among them. The evidence of a
    relu network has several optima in the variances of its inputs: it is learned from two starts, of which the steep
    one finds features that matter little to most rows and much to some.
    """
    first = np.full(features, 2.0) if features <= MOST_RELEVANCES else 2.0
    return {
        "erf, depth 2": nn.mlp(2, "erf", weight_var=first, bias_var=0.1),
        "relu, depth 2": nn.mlp(2, "relu", weight_var=first, bias_var=0.1),
        "relu, depth 2, steep": nn.mlp(2, "relu", weight_var=10.0 * first, bias_var=0.1),
        "rbf": nn.Sequential(nn.Dense(weight_var=first * 0.25), nn.Rbf()),
    }
