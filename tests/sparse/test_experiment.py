"""The sparse experiment on a small problem, and on real images where they are."""

import dataclasses

import numpy as np
import pytest

import widetail as wt
from widetail.experiments import sparse


def test_quick_run_with_classes_left_out():
    config = dataclasses.replace(sparse.SparseConfig.quick(), left_out=(7, 8, 9), priors={"SVGP": wt.PointMass(1.0)})
    (row,) = sparse.run(config)
    assert 0.3 < row["accuracy"] < 0.75  # three of ten classes cannot be right
    assert row["nll of known"] < row["nll"] < row["nll of left out"]
    assert row["auroc by entropy"] > 0.6
    assert np.isfinite(row["bound"])


@pytest.mark.slow
def test_mnist(data_folder):
    """A few thousand images with a given scale: a sanity check of the whole path, not a record."""
    config = sparse.SparseConfig(
        rows=6000, test_rows=1000, inducing=200, learn=False, learn_scale=False, priors={"SVGP": wt.PointMass(100.0)}
    )
    (row,) = sparse.run(config)
    assert row["accuracy"] > 0.9
    assert row["nll"] < 0.35
