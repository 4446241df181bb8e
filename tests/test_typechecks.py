"""The checks that every test runs under are there, and can be switched off as users have it."""

import beartype
import jaxtyping
import numpy as np
import pytest
from jaxtyping import Float

from tests.typechecks import jaxtyped
from widetail import nn
from widetail.gaussian import arc

check = jaxtyped(typechecker=beartype.beartype)


@check
def scaled(x: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n d"]:
    return x * weights[:, None]


@check
def doubled(count: int) -> str:
    return str(2 * count)


def test_types_and_axes_are_checked(monkeypatch):
    assert scaled(np.ones((3, 2)), np.ones(3)).shape == (3, 2)
    with pytest.raises(jaxtyping.TypeCheckError, match="weights"):
        scaled(np.ones((3, 2)), np.ones(2))
    assert doubled(2) == "4"
    with pytest.raises(jaxtyping.TypeCheckError, match="count"):
        doubled("a")
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    assert doubled("a") == "aa"


def test_the_library_is_under_them(pytestconfig):
    if not pytestconfig.getoption("--jaxtyping-packages"):
        pytest.skip("`make test` is without them; with TYPES=1 it has them")
    with pytest.raises(jaxtyping.TypeCheckError, match="width"):
        nn.mlp(1).at_width("wide")
    assert any(
        "jaxtyping" in vars(fn)["__wrapped__"].__globals__ for fn in vars(arc).values() if hasattr(fn, "__wrapped__")
    )
