"""What one observation does to the predictions elsewhere."""

from typing import NamedTuple

import numpy as np


class Influence(NamedTuple):
    r"""Predictions at m new points, and what it takes to leave any of the n observed rows out of them, or to add one.

    With the covariance $A$ of the targets, noise included, and $k_*$ that of the targets with new points, all scaled
    by one readout variance. Without row i, the location at a new point is `location - reach[i] * weights[i] /
    precision[i]` and the variance is `variance + reach[i]**2 / precision[i]`. The last axis of everything is that of
    the outputs; it has length one where it is the same for all.

    Attributes:
        location: of y at the new points, shape (m, outputs).
        variance: of y at the new points, shape (m, 1 or outputs).
        weights: $A^{-1} y$, shape (n, outputs).
        precision: diagonal of $A^{-1}$, shape (n, 1 or outputs); of a row that was observed several times, as much more
            as makes the formulas above those of one observation fewer.
        reach: $A^{-1} k_*$, shape (n, m, 1 or outputs).
    """

    location: np.ndarray
    variance: np.ndarray
    weights: np.ndarray
    precision: np.ndarray
    reach: np.ndarray
