"""What importing the package does, and which names of JAX it uses."""

import doctest
import importlib
import json
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import widetail

SOURCE = Path(widetail.__file__).parent

COMPARE_CONFIGURATIONS = """
import json
import jax
before = {name: str(value) for name, value in jax.config.values.items()}
import widetail.estimators
after = {name: str(value) for name, value in jax.config.values.items()}
print(json.dumps({name: [before.get(name), after.get(name)] for name in before | after if
                  before.get(name) != after.get(name)}))
"""


def test_estimators_can_be_imported_first_and_importing_changes_no_setting_of_jax():
    process = subprocess.run([sys.executable, "-c", COMPARE_CONFIGURATIONS], capture_output=True, text=True, check=True)
    assert json.loads(process.stdout) == {}


IMPORT_EACH_FIRST = """
import importlib.util, pkgutil, sys
import widetail
names = [module.name for module in pkgutil.walk_packages(widetail.__path__, "widetail.")]
for name in names:
    if name.endswith("__main__") or (name == "widetail.compat.skpro" and not importlib.util.find_spec("skpro")):
        continue
    for loaded in [module for module in sys.modules if module.split(".")[0] == "widetail"]:
        del sys.modules[loaded]
    importlib.import_module(name)
print(len(names))
"""


@pytest.mark.slow
def test_every_module_can_be_imported_first():
    """Rooms import each other; whichever a user starts with, none finds another half made."""
    process = subprocess.run([sys.executable, "-c", IMPORT_EACH_FIRST], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-2000:]
    assert int(process.stdout) > 100


def test_an_experiment_can_be_imported_first():
    subprocess.run([sys.executable, "-c", "import widetail.experiments.ensembles"], capture_output=True, check=True)


def test_only_public_names_of_jax():
    private = re.compile(
        r"jax\._src|jax\.core|jax\.interpreters|from jax import (core|interpreters)\b|(import|from) jaxlib"
    )
    found = {
        str(path.relative_to(SOURCE)): match.group()
        for path in SOURCE.rglob("*.py")
        if (match := private.search(path.read_text()))
    }
    assert found == {}


def modules(package):
    return [f"widetail.{package}", *(f"widetail.{package}.{m.name}" for m in pkgutil.iter_modules([SOURCE / package]))]


@pytest.mark.parametrize("package", ["nn", "kernels", "programs"])
def test_examples_in_docstrings(package):
    results = [doctest.testmod(importlib.import_module(name)) for name in modules(package)]
    assert sum(result.failed for result in results) == 0
    assert sum(result.attempted for result in results) > 5


def test_names_are_loaded_when_they_are_used():
    assert {"nn", "ScaleMixture", "InverseGamma", "load"} <= set(dir(widetail))
    assert all(getattr(widetail, name) is not None for name in dir(widetail))
    with pytest.raises(AttributeError, match="'widetail' has no attribute 'Dense'"):
        widetail.Dense  # noqa: B018


def test_the_oldest_versions_that_are_tested_are_those_that_are_promised():
    root = Path(__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    required = {
        *project["dependencies"],
        *(line for name in ("cli", "plot", "distributed", "data") for line in extras[name]),
    }
    bounds = {re.sub(r"\[.*\]", "", line).replace(">=", "==") for line in required}
    pinned = {line for line in (root / "constraints-oldest.txt").read_text().splitlines() if not line.startswith("#")}
    assert pinned == bounds
