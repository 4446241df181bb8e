"""Averages of models by how well they predict left-out rows together."""

from typing import Any

import numpy as np

MOST_STEPS = 2000
SMALL_CHANGE = 1e-9


def stacking_weights(log_density: Any, counts: Any = None) -> np.ndarray:
    r"""The weights $w$ with the largest $\sum_i c_i \log \sum_j w_j\, p_j(y_i \mid \text{the other rows})$.

    Where none of the models is right, the evidence still ends at one of them as rows become many; these weights end at
    the average that predicts best. Found by expectation-maximisation, which climbs a function with one summit.

    Args:
        log_density: log density that each model gives to each left-out row, shape (models, n).
        counts: how often each row was observed; once by default.

    Returns:
        Weights of the models, which add up to one.

    Example:
        >>> import numpy as np, widetail as wt
        >>> wt.learning.stacking_weights(np.log([[0.9, 0.1, 0.5], [0.1, 0.9, 0.5]])).round(3)
        array([0.5, 0.5])
    """
    log_density = np.asarray(log_density, dtype=np.float64)
    if log_density.ndim != 2 or log_density.shape[1] == 0 or not np.all(np.max(log_density, axis=0) > -np.inf):
        raise ValueError(
            f"log_density must have shape (models, rows), and a model that allows for each row; got {log_density!r}."
        )
    share = np.ones(log_density.shape[1]) if counts is None else np.asarray(counts, dtype=np.float64)
    share = share / np.sum(share)
    density = np.exp(log_density - np.max(log_density, axis=0))
    weights = np.full(len(density), 1 / len(density))
    for _ in range(MOST_STEPS):
        better = weights * (density @ (share / (weights @ density)))
        change = np.max(np.abs(better - weights))
        weights = better / np.sum(better)
        if change < SMALL_CHANGE:
            break
    return weights
