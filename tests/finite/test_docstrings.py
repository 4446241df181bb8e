"""The examples in the docstrings run."""

import doctest
import importlib
import pkgutil

import pytest

from widetail import finite

MODULES = [module.name for module in pkgutil.iter_modules(finite.__path__, "widetail.finite.")] + [
    "widetail.estimators._wide_classifier",
    "widetail.estimators._wide_regressor",
]
SLOW = [f"widetail.finite.{name}" for name in ("_sample", "_compare", "_train")]
SLOW += ["widetail.estimators._wide_classifier", "widetail.estimators._wide_regressor"]


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in MODULES])
def test_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
