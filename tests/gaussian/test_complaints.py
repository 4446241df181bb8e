"""Functions without Gaussian expectations, and others that look like them."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from widetail.gaussian import complaint

WRONG = {
    "NaN for some": jnp.log,
    "NaN for some real": jnp.sqrt,
    "not controlled": lambda z: jnp.exp(z**2),
    "a pole at 0,": lambda z: 1 / z,
    r"a pole at -0\.3,": lambda z: (z + 0.3) ** -2,
    r"a pole at 0\.7,": lambda z: jnp.abs(z - 0.7) ** -0.5,
    "a pole at": jnp.tan,
    "complex": lambda z: z + 1j,
    "entry by entry": jnp.sum,
    "one array": lambda z: (z, z),
    r"made of JAX operations \(jnp": np.tanh,
    "not np.tanh or math.tanh": math.tanh,
    "jnp.where, not if": lambda z: z if z > 0 else 0.0,
    "cannot be called on 1 arguments": lambda z, w: z * w,
}
RIGHT = [
    jnp.abs,
    jnp.round,
    jnp.exp,
    lambda z: jnp.exp(30 * z),
    lambda z: jnp.abs(z - 0.7) ** -0.4,
    lambda z: jnp.log(jnp.abs(z)),
    lambda z: jnp.sin(z) / z,
    lambda z: 1 / (1e-6 + (z - 0.2) ** 2),
    lambda z: jnp.sin(50 * z),
    lambda z: jnp.tanh(1e4 * z),
    lambda z: z > 0,
]


@pytest.mark.parametrize("said", WRONG)
def test_what_has_no_second_moment_or_is_no_function_of_entries(said):
    found = complaint(WRONG[said])
    assert found is not None
    assert re.search(said, found), found


def test_what_has_one():
    assert [complaint(fn) for fn in RIGHT] == [None] * len(RIGHT)


def test_functions_of_traced_numbers_are_taken_as_they_are():
    seen = []
    jax.jit(lambda t: seen.append(complaint(lambda z: jnp.log(z * t))) or t)(0.3)
    assert seen == [None]


def test_poles_that_arguments_may_keep_off():
    assert complaint(lambda z: 1 / z, reaches_poles=False) is None
