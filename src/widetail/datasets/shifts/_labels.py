"""Shifts of the labels: classes left out, imbalance, noise.

The first two return row numbers, so that one selection serves images, labels and anything else that has rows.
"""

from collections.abc import Collection

import numpy as np
from jaxtyping import Integer

from widetail.datasets.shifts._seed import Seed

Labels = Integer[np.ndarray, " n"]
Rows = Integer[np.ndarray, " kept"]


def rows_without(labels: Labels, classes: Collection[int]) -> Rows:
    """Row numbers of all points whose label is not in `classes`, in order."""
    unknown = sorted(set(classes) - set(np.unique(labels).tolist()))
    if unknown:
        raise ValueError(f"classes must be labels that occur; {unknown} do not.")
    return np.flatnonzero(~np.isin(labels, list(classes)))


def rows_with_imbalance(labels: Labels, ratio: float | int, *, seed: Seed) -> Rows:
    """Row numbers of a subset whose class sizes fall exponentially.

    With C classes in increasing order of their label, class k keeps the share ratio**(k / (C - 1)) of its
    points, drawn at random, and at least one: the first class is kept whole, the last one by `ratio`.

    Args:
        labels: one per point.
        ratio: share kept of the last class, in (0, 1]; 1 keeps everything.
        seed: an integer, or a NumPy generator that is advanced.

    Returns:
        Row numbers in increasing order.
    """
    if not 0 < ratio <= 1:
        raise ValueError(f"ratio must lie in (0, 1], got {ratio}; it is the share kept of the rarest class.")
    generator = np.random.default_rng(seed)
    classes = np.unique(labels)
    shares = ratio ** (np.arange(classes.size) / max(classes.size - 1, 1))
    kept = []
    for label, share in zip(classes, shares, strict=True):
        rows = np.flatnonzero(labels == label)
        kept.append(generator.choice(rows, max(round(share * rows.size), 1), replace=False))
    return np.sort(np.concatenate(kept))


def with_label_noise(labels: Labels, rate: float | int, *, seed: Seed) -> Labels:
    """Replace each label, with probability `rate`, by one of the other classes, all equally likely.

    `rate` is the expected share of wrong labels: a replaced label never stays what it was. The classes are
    those that occur in `labels`.
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"rate must lie in [0, 1], got {rate}; it is the share of wrong labels.")
    classes, index = np.unique(labels, return_inverse=True)
    if classes.size < 2 and rate > 0:
        raise ValueError(f"labels must hold at least 2 classes to be mixed up, got {classes.tolist()}.")
    generator = np.random.default_rng(seed)
    wrong = generator.random(labels.size) < rate
    step = generator.integers(1, max(classes.size, 2), labels.size)
    return classes[np.where(wrong, (index + step) % classes.size, index)]
