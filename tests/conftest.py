"""Settings shared by every test: strict promotion, fixed keys, where the real data is."""

import gc
import importlib.metadata
import os
import platform
from pathlib import Path

import jax
import jaxtyping
import pytest
from hypothesis import settings

from tests import typechecks

jax.config.update("jax_numpy_dtype_promotion", "strict")

typechecks.install()

# Compiled functions and jaxprs are many objects and no garbage: looking through them again and again took a tenth of
# the time of the tests.
gc.set_threshold(200_000, 20, 100)

# Deadlines measure the machine and the compiler, not the code.
settings.register_profile("widetail", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("widetail")


# They begin first: whichever process began one of them last would work on it alone while the other has nothing to do.
LONGEST = ("tests/widening/", "tests/sparse/test_estimators.py")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_terminal_summary(terminalreporter):
    """Which versions were tested; a header would not be shown with -q."""
    packages = ("jax", "numpy", "scipy", "scikit-learn")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    terminalreporter.write_line(f"tested with Python {platform.python_version()}, {versions}")


@pytest.fixture
def key():
    return jax.random.key(0)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets; tests that need it are skipped where it is not."""
    folder = os.environ.get("WIDETAIL_DATA")
    if not folder:
        pytest.skip("WIDETAIL_DATA is not set: checks on real data are left out")
    return Path(folder).resolve()


@pytest.fixture
def as_users_call(monkeypatch):
    """Without the type checks that tests run under, so that wrong types reach the library's own messages."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
