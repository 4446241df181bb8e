import jaxtyping
import pytest


@pytest.fixture
def as_users_have_it(monkeypatch):
    """Without the types that tests check, which would refuse before our own messages."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
