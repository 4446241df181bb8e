import pytest

from .local_server import local_server


@pytest.fixture
def server():
    with local_server() as behaviour:
        yield behaviour


@pytest.fixture
def empty_machine(monkeypatch, tmp_path):
    """No data folder, an empty cache; returns the cache."""
    monkeypatch.delenv("WIDETAIL_DATA", raising=False)
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(variable, "127.0.0.1")
    cache = tmp_path / "cache"
    monkeypatch.setattr("pooch.os_cache", lambda name: cache / name)
    return cache / "widetail"
