"""Rows of a stream that become fewer."""

import numpy as np
import scipy.cluster.hierarchy
from numpy.testing import assert_allclose

from widetail import sparse
from widetail.sparse import CachedRows, Memory

from .problems import PRIORS, start


def rows_of(n, targets=2):
    rng = np.random.default_rng(0)
    y = rng.integers(0, targets, (n, 1)).astype(float)
    return CachedRows.of(rng.normal(size=(n, 4)), rng.uniform(size=n), y, rng.integers(1, 4, n).astype(float))


def fewer(rows, keep):
    return Memory.none(1, 4).after(rows, start(PRIORS["point"], 1, 4), sparse.Poisson("softplus"), keep=keep, seed=0)


def sums(rows):
    columns = np.column_stack([np.ones(len(rows)), rows.features, rows.residual]) * rows.counts[:, None]
    return np.stack([columns[rows.y[:, 0] == target].sum(axis=0) for target in np.unique(rows.y)])


def scatter(rows, of):
    """Squared distances of points to their means, whatever these are: of all points, without those of the means."""
    return rows.counts @ np.sum(rows.features**2, axis=1) - of.counts @ np.sum(of.features**2, axis=1)


def test_every_target_keeps_its_counts_and_its_means():
    rows = rows_of(200)
    kept = fewer(rows, 30).rows
    assert len(kept) == 30
    assert_allclose(sums(kept), sums(rows))


def test_nearly_as_tight_as_clusters_by_wards_rule():
    rows = rows_of(300, targets=1)
    points = np.repeat(rows.features, rows.counts.astype(int), axis=0)
    tree = scipy.cluster.hierarchy.linkage(points, "ward")
    labels = scipy.cluster.hierarchy.fcluster(tree, 40, "maxclust")
    best = sum(np.sum((points[labels == one] - points[labels == one].mean(axis=0)) ** 2) for one in set(labels))
    assert scatter(rows, fewer(rows, 40).rows) < 1.05 * best


def test_rows_of_different_targets_stay_as_they_are_and_the_oldest_are_let_go():
    rows = rows_of(20)
    alone = CachedRows.of(rows.features, rows.residual, np.arange(20.0)[:, None], rows.counts)
    memory = fewer(alone, 5)
    assert np.array_equal(memory.rows.y, alone.y[15:])
    assert_allclose(memory.rows.features, alone.features[15:])
    assert memory.observations == alone.observations
