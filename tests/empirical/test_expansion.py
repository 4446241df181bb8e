"""Taylor series in the parameters, against polynomials whose series are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from widetail.empirical import linearize, taylor_expand


def cubic(params, x, power=1.0):
    return {"y": x * params["a"] ** 3 * power + params["b"]}


START, END = {"a": jnp.array(1.0), "b": jnp.array(0.5)}, {"a": jnp.array(1.5), "b": jnp.array(-1.0)}


@pytest.mark.parametrize(("degree", "factor"), [(0, 1.0), (1, 2.5), (2, 3.25), (3, 3.375), (5, 3.375)])
def test_a_cubic(degree, factor):
    found = taylor_expand(cubic, START, degree)(END, jnp.arange(3.0), power=2.0)["y"]
    assert_allclose(found, 2.0 * np.arange(3.0) * factor + (0.5 if degree == 0 else -1.0), rtol=1e-6)


def test_linear_models_and_their_slopes():
    line = linearize(lambda p, x: jnp.sin(p * x), jnp.array(0.3))
    x = jnp.array(2.0)
    assert_allclose(line(jnp.array(0.5), x), np.sin(0.6) + 2 * np.cos(0.6) * 0.2, rtol=1e-6)
    assert_allclose(jax.grad(line)(jnp.array(0.9), x), 2 * np.cos(0.6), rtol=1e-6)


def test_bad_degree():
    with pytest.raises(ValueError, match="degree"):
        taylor_expand(cubic, START, -1)
