"""How far an input is from the rows of every class, in the space of the kernel.

Rows of one class lie closer together than those of another, so distances are compared with those that its own rows have
from each other: what counts is the class that an input fits best by that measure.
"""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np

NEIGHBOURS = 5  # the nearest row may have a wrong label, or show the same thing
FEWEST_OF_CLASS = 2 * NEIGHBOURS
NEAREST = 1e-6  # of a squared distance: what single precision can tell
ROWS_AT_ONCE = 1024


def directions(features: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """Unit vectors whose products are the largest correlations that f can have at two inputs, float32.

    The residual at both may be the same part of f: it is one more coordinate.
    """
    whole = np.column_stack([features, np.sqrt(residual)]).astype(np.float64)
    lengths = np.linalg.norm(whole, axis=1, keepdims=True)
    return (whole / np.maximum(lengths, np.finfo(np.float64).tiny)).astype(np.float32)


class _Class(NamedTuple):
    rows: np.ndarray  # (n, d)
    centre: float  # of the logarithm of the squared distance from the fifth nearest other row
    spread: float


@dataclasses.dataclass(frozen=True, eq=False)
class Known:
    """Rows of known classes.

    Attributes:
        directions: of rows, shape (rows, d).
        labels: their classes, shape (rows,).
    """

    directions: np.ndarray
    labels: np.ndarray

    def remoteness(self, new: np.ndarray) -> np.ndarray:
        """Distance from the class that is the nearest, shape (m,).

        It is the logarithm of the squared distance from the fifth nearest row, in standard deviations of what rows of
        the class have among themselves: 0 is usual.
        """
        found = np.full(len(new), np.inf)
        for start in range(0, len(new), ROWS_AT_ONCE):
            here = slice(start, start + ROWS_AT_ONCE)
            for one in self._classes:
                own = (_log_distances(new[here] @ one.rows.T) - one.centre) / one.spread
                found[here] = np.minimum(found[here], own)
        return found

    @functools.cached_property
    def _classes(self) -> list[_Class]:
        found = []
        for label in np.unique(self.labels):
            rows = self.directions[self.labels == label]
            if len(rows) < FEWEST_OF_CLASS:
                continue
            products = rows @ rows.T
            np.fill_diagonal(products, -np.inf)  # no row is its own neighbour
            logs = _log_distances(products)
            found.append(_Class(rows, float(logs.mean()), float(logs.std()) + NEAREST))
        if not found:
            raise ValueError(f"directions must have {FEWEST_OF_CLASS} rows of some class; none has as many.")
        return found


def _log_distances(products: np.ndarray) -> np.ndarray:
    """Half the squared distance from the fifth nearest row, in logarithms, from products of unit vectors."""
    return np.log(np.maximum(1 - np.partition(products, -NEIGHBOURS, axis=1)[:, -NEIGHBOURS], NEAREST))
