"""The examples in the docstrings of the priors, the scale posteriors and the predictive distributions run."""

import doctest
import importlib
import pkgutil

import pytest

from widetail import mixing, predictive, priors

MODULES = [
    module.name
    for room in (priors, mixing, predictive)
    for module in pkgutil.iter_modules(room.__path__, room.__name__ + ".")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.failed == 0
