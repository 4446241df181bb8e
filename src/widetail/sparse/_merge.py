"""Fewer rows in place of many: near rows of one target become one, counted as often as all of them."""

import numpy as np

from widetail.sparse._rows import CachedRows

CHUNK = 1024  # rows whose distances to all others are in memory at a time


def merged(rows: CachedRows, most: int) -> tuple[CachedRows, np.ndarray]:
    """At most so many rows, as far as their targets allow it.

    Two rows become their weighted mean where the squared distance of their features, which is the prior variance of the
    difference of f, times the harmonic mean of the counts is smallest (Ward's rule). Different targets stay apart.

    Returns:
        The rows, those that stood alone in their order; and for every row that was given the number of its place there.
    """
    target = np.unique(rows.y, axis=0, return_inverse=True)[1].ravel()
    features, counts = np.asarray(rows.features, np.float64), np.asarray(rows.counts, np.float64)
    sums = np.column_stack([features, rows.residual]) * counts[:, None]
    place = np.arange(len(rows))
    while len(counts) > most:
        means = sums[:, :-1] / counts[:, None]
        nearest, cost = _nearest(means, counts, target)
        firsts = np.flatnonzero((nearest[np.maximum(nearest, 0)] == np.arange(len(counts))) & (nearest >= 0))
        firsts = firsts[firsts < nearest[firsts]]
        if not len(firsts):
            break
        firsts = firsts[np.argsort(cost[firsts], kind="stable")][: len(counts) - most]
        into = np.arange(len(counts))
        into[nearest[firsts]] = firsts
        sums, counts = (_added(part, into) for part in (sums, counts))
        stays = into == np.arange(len(counts))
        place = (np.cumsum(stays) - 1)[into][place]
        sums, counts, target = sums[stays], counts[stays], target[stays]
    first = np.unique(place, return_index=True)[1]
    means, dtype = sums / counts[:, None], rows.features.dtype
    found = CachedRows(
        means[:, :-1].astype(dtype), means[:, -1].astype(dtype), np.array(rows.y[first]), counts.astype(dtype)
    )
    return found, place


def _added(part: np.ndarray, into: np.ndarray) -> np.ndarray:
    total = np.zeros_like(part)
    np.add.at(total, into, part)
    return total


def _nearest(means: np.ndarray, counts: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The row of the same target that costs least to merge with, -1 for none, and the cost."""
    nearest, cost = np.full(len(counts), -1), np.full(len(counts), np.inf)
    for label in np.unique(target):
        own = np.flatnonzero(target == label)
        if len(own) == 1:
            continue
        squares = np.sum(means[own] ** 2, axis=1)
        for start in range(0, len(own), CHUNK):
            here = slice(start, start + CHUNK)
            distance = squares[here, None] + squares - 2 * means[own[here]] @ means[own].T
            some, all_ = counts[own[here], None], counts[own]
            costs = np.maximum(distance, 0.0) * some * all_ / (some + all_)
            costs[np.arange(len(costs)), np.arange(len(own))[here]] = np.inf
            nearest[own[here]] = own[np.argmin(costs, axis=1)]
            cost[own[here]] = np.min(costs, axis=1)
    return nearest, cost
