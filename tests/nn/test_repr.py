"""A network prints as the code that makes it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from widetail import nn

from .zoo import EVERY, over


@over([case for case in EVERY if "aggregate" not in case.name])  # a graph is shown by its size
def test_evaluates_to_the_same_network(case):
    again = eval(repr(case.net), {"nn": nn, "jax": jax})
    assert repr(again) == repr(case.net)
    assert jax.tree.structure(again) == jax.tree.structure(case.net)
    for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(case.net), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (nn.Dense(), "nn.Dense()"),
        (nn.Dense(weight_var=jnp.float32(0.5)), "nn.Dense(weight_var=0.5)"),
        (nn.Dense(weight_var=np.array([1, 2])), "nn.Dense(weight_var=[1.0, 2.0])"),
        (nn.Dense(weight_var=np.ones(784)), "nn.Dense(weight_var=<784 numbers>)"),
        (nn.Conv((3, 1), strides=2, padding="VALID"), "nn.Conv(window=(3, 1), strides=2, padding='VALID')"),
        (nn.Elementwise(jnp.tanh), "nn.Elementwise(fn=jax.nn.tanh)"),
        (nn.Parallel(nn.Dense(), nn.Dense(), combine="concatenate"),
         "nn.Parallel(nn.Dense(), nn.Dense(), combine='concatenate')"),
    ],
)  # fmt: skip
def test_what_is_left_at_its_default_is_not_shown(layer, text):
    assert repr(layer) == text
