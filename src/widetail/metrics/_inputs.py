"""Checks that all metrics share. Results are computed in float64 with NumPy, whatever came in."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float64, Int64

Array = np.ndarray | jax.Array

# Class probabilities that come out of a float32 softmax add up to 1 only so far.
_SUM_TOLERANCE = 1e-3


def real_array(name: str, values: Any) -> Float64[np.ndarray, "*shape"]:
    """`values` as float64, not empty and without NaN."""
    array = np.asarray(values, np.float64)
    if array.size == 0:
        raise ValueError(f"{name} is empty; a mean needs at least one point.")
    if np.isnan(array).any():
        raise ValueError(f"{name} holds {np.isnan(array).sum()} NaN of {array.size} values; a score would be NaN.")
    return array


def answer(predictive: Any, method: str, y: Float64[np.ndarray, "*shape"]) -> Float64[np.ndarray, "*shape"]:
    """What the method of a predictive says of each entry of `y`."""
    if not hasattr(predictive, method):
        raise TypeError(
            f"predictive must have a method {method}(y), got {type(predictive).__name__}; "
            "pass what a posterior returns when it is called on new inputs."
        )
    values = np.asarray(getattr(predictive, method)(y), np.float64)
    if values.shape != y.shape:
        raise ValueError(
            f"y has shape {y.shape}, but predictive.{method}(y) has shape {values.shape}; "
            "y must hold one value for each point that was predicted."
        )
    return values


def probabilities_and_labels(
    probabilities: Array, labels: Array
) -> tuple[Float64[np.ndarray, "n classes"], Int64[np.ndarray, " n"]]:
    """Class probabilities and the column number of the true class, checked."""
    p = real_array("probabilities", probabilities)
    if p.ndim != 2 or p.shape[1] < 2:
        raise ValueError(
            f"probabilities must have shape (points, classes) with 2 classes or more, got {p.shape}; "
            "for two classes pass both columns."
        )
    off = np.abs(p.sum(axis=1) - 1).max()
    if p.min() < 0 or off > _SUM_TOLERANCE:
        raise ValueError(
            "probabilities must be at least 0 and add up to 1 in each row; "
            f"the smallest is {p.min():.3g} and a row is off by {off:.3g}. "
            "Pass logits through a softmax first."
        )
    y = np.asarray(labels)
    if y.shape != p.shape[:1] or not np.issubdtype(y.dtype, np.integer):
        raise ValueError(
            f"labels must be {p.shape[0]} integers, one for each row of probabilities, "
            f"got {y.dtype} of shape {y.shape}."
        )
    y = y.astype(np.int64)
    if y.min() < 0 or y.max() >= p.shape[1]:
        raise ValueError(
            f"labels must be column numbers 0 to {p.shape[1] - 1}, got {y.min()} to {y.max()}; "
            "subtract the smallest label if the classes are counted from 1."
        )
    return p, y
