"""Architectures that an estimator without a network of the user's own chooses from."""

import numpy as np

from widetail import nn
from widetail.kernels import Kernel

# Small data sets cannot tell per-feature variances; large ones pay for them with every evaluation.
MOST_RELEVANCES = 64


def default_networks(features: int) -> dict[str, Kernel]:
    """Networks on vectors, with one prior variance per feature where there are not too many of them.

    One hidden layer of random Fourier features is a Gaussian (RBF) kernel, so that is among them.
    """
    first = np.full(features, 2.0) if features <= MOST_RELEVANCES else 2.0
    return {
        "erf, depth 2": nn.mlp(2, "erf", weight_var=first, bias_var=0.1),
        "relu, depth 2": nn.mlp(2, "relu", weight_var=first, bias_var=0.1),
        "erf, depth 1": nn.mlp(1, "erf", weight_var=first, bias_var=0.1),
        "rbf": nn.Sequential(nn.Dense(weight_var=first * 0.25), nn.Rbf()),
    }
