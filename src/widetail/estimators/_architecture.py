"""Architectures that an estimator without a network of the user's own chooses from."""

import numpy as np

from widetail import nn
from widetail.kernels import Anova, Kernel, Linear

# Sums of functions of few features cost a number per feature and pair of rows: with many of both they are slow.
MOST_NUMBERS_FOR_SUMS = 2e8
ROWS_TO_LEARN_FROM = 3000
# Small data sets cannot tell per-feature variances; large ones pay for them with every evaluation.
MOST_RELEVANCES = 64


def default_networks(features: int, rows: int | None = None) -> dict[str, Kernel]:
    """Networks on vectors, with one prior variance per feature where there are not too many of them.

    One hidden layer of random Fourier features is a Gaussian (RBF) kernel, so that is among them. The evidence of a
    relu network has several optima in the variances of its inputs: it is learned from two starts, of which the steep
    one finds features that matter little to most rows and much to some.

    Args:
        features: of the inputs.
        rows: how many there are; where rows and features are not both many, sums of functions of few features are
            candidates too.
    """
    first = np.full(features, 2.0) if features <= MOST_RELEVANCES else 2.0
    has_sums = rows is not None and min(rows, ROWS_TO_LEARN_FROM) ** 2 * features <= MOST_NUMBERS_FOR_SUMS
    sums = sums_of_functions(features) if has_sums else {}
    return sums | {
        "erf, depth 2": nn.mlp(2, "erf", weight_var=first, bias_var=0.1),
        "relu, depth 2": nn.mlp(2, "relu", weight_var=first, bias_var=0.1),
        "relu, depth 2, steep": nn.mlp(2, "relu", weight_var=10.0 * first, bias_var=0.1),
        "rbf": nn.Sequential(nn.Dense(weight_var=first * 0.25), nn.Rbf()),
    }


def networks_for_classes(features: int) -> dict[str, Kernel]:
    """The same for regression on classes, where linear functions alone, or added to others, are often best."""
    networks = default_networks(features)
    line = Linear(np.full(features, 1.0) if features <= MOST_RELEVANCES else 1.0, 1.0)
    return networks | {"linear": line, "linear + relu, depth 2": line + networks["relu, depth 2"]}


def plain_networks() -> dict[str, Kernel]:
    """Candidates for a likelihood of classes whose numbers are not learned.

    The linear one is logistic regression. They are compared at a scale of 16 first, where it has its usual penalty.
    """
    return {
        "linear": Linear(1 / 16, 1 / 16),
        "erf, depth 2": nn.mlp(2, "erf", weight_var=2.0, bias_var=0.1),
        "relu, depth 2": nn.mlp(2, "relu", weight_var=2.0, bias_var=0.1),
    }


def candidates_for_few_rows(features: int) -> dict[str, Kernel]:
    """What is averaged where hyperparameters are integrated: sums of functions of few features, and a wide network."""
    return sums_of_functions(features) | {"relu, depth 2": default_networks(features)["relu, depth 2"]}


def sums_of_functions(features: int) -> dict[str, Kernel]:
    """Functions of any number of features at once, of pairs, and of single ones, added up."""
    length, part = (np.full(features, v) if features <= MOST_RELEVANCES else v for v in (3.0, 0.15))
    return {
        "sum over any features": Anova(length, part),
        "sum over pairs": Anova(length, part, order=2),
        "sum over features": Anova(length, part, order=1),
    }
