"""Every row of the translation table from neural-tangents, against what neural-tangents computed."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import widetail as wt
from tests.documentation.references import HERE, data, rows
from widetail import nn

EXPECTED = json.loads((HERE / "neural_tangents.json").read_text())
ROWS = list(rows())
# their quadrature of order 40 on a grid, and their expansion of the square root at equal inputs, are what differs
LOOSE = {"ElementwiseNumerical": 2e-6}


def test_the_page_has_a_reference_for_every_row():
    assert len(ROWS) >= 20
    assert {left for left, _ in ROWS} == set(EXPECTED)


@pytest.mark.parametrize(("left", "right"), ROWS)
def test_row(left, right):
    names = {"nn": nn, "wt": wt, "tanh": jnp.tanh, "net": eval(ROWS[0][1], {"nn": nn})}
    x, names["new"], names["y"] = data(left)
    names["x"] = x
    made = eval(right, names)
    tolerance = next((value for word, value in LOOSE.items() if word in left), 2e-8)
    if isinstance(made, nn.Layer):
        k = made.kernel(x)
        assert_allclose(k.nngp, EXPECTED[left]["nngp"], rtol=tolerance, atol=tolerance)
        assert_allclose(k.ntk, EXPECTED[left]["ntk"], rtol=tolerance, atol=tolerance)
    else:
        assert_allclose(np.asarray(made), EXPECTED[left], rtol=tolerance, atol=tolerance)
