"""The examples in the docstrings run."""

import doctest
import importlib

import pytest

MODULES = [
    "widetail.sparse.likelihoods._base",
    "widetail.estimators._sparse_classifier",
    "widetail.estimators._sparse_regressor",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.failed == 0
    assert found.attempted > 0
