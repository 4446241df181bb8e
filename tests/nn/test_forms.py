"""Which covariances between positions a body needs: equal ones, or all pairs."""

import jax
import numpy as np
import pytest

from widetail import nn

from .zoo import COMPOSITIONS, IMAGE, over

conv, relu, dense = nn.Conv(3, weight_var=1.5, bias_var=0.1), nn.Relu(), nn.Dense(weight_var=1.2)
FORMS = [
    (nn.Sequential(conv, relu, nn.Flatten()), False),
    (nn.Sequential(conv, relu, nn.Flatten(), dense, relu), False),
    (nn.Sequential(conv, relu, nn.GlobalAvgPool()), True),
    (nn.Sequential(conv, relu, nn.GlobalAvgPool(), dense, relu), True),
    (nn.Sequential(conv, relu, nn.AvgPool(2), nn.Flatten()), True),
    (nn.Sequential(conv, relu, nn.SumPool(2), conv, relu, nn.Flatten()), True),
    (nn.Sequential(conv, relu, nn.AvgPool(1), nn.Flatten()), True),
    (nn.Sequential(nn.Conv(3, strides=2, padding="VALID"), relu, nn.Flatten()), False),
    (nn.Sequential(nn.Conv(2, strides=2, padding="CIRCULAR"), relu, nn.Flatten()), False),
    (nn.Sequential(conv, nn.Residual(relu, conv), relu, nn.Flatten()), False),
    (nn.Sequential(conv, nn.Residual(relu, conv), relu, nn.GlobalAvgPool()), True),
    (nn.Sequential(conv, nn.Residual(relu, nn.SelfAttention()), relu, nn.Flatten()), True),
    (nn.Sequential(conv, relu, nn.SelfAttention(), relu, nn.Flatten()), True),
    (nn.Sequential(nn.Parallel(conv, nn.Sequential(conv, relu, conv)), relu, nn.Flatten()), False),
    (nn.Sequential(nn.Parallel(conv, nn.Sequential(conv, relu, nn.SelfAttention())), relu, nn.Flatten()), True),
    (nn.Sequential(conv, nn.LayerNorm(), relu, nn.Dropout(0.1), nn.Flatten()), False),
]


@pytest.mark.parametrize(("net", "all_pairs"), FORMS, ids=[repr(net) for net, _ in FORMS])
def test_form_of_the_inputs(net, all_pairs):
    assert net.needs_all_pairs(False) is all_pairs
    assert net.numbers_per_pair((6, 5, 2)) == (900 if all_pairs else 30)


def test_the_pooled_half_only_needs_all_pairs_below_the_pool():
    """Above the last pooling, equal positions are enough."""
    net = nn.Sequential(conv, relu, nn.AvgPool(2), conv, relu, nn.Flatten())
    text = nn.summary(net, (6, 6, 1))
    forms = [next((form for form in ("all pairs", "equal", "none") if form in line), "") for line in text.splitlines()]
    assert forms[1:] == ["all pairs", "all pairs", "equal", "equal", "equal", "none", "none"]


@pytest.mark.parametrize("name", ["conv_valid_strides", "conv_residual"])
def test_equal_positions_are_the_diagonal_of_all_pairs(name):
    """The cheap form against the full one, forced by pooling over windows of one position."""
    case = next(case for case in COMPOSITIONS if case.name == name)
    x = case.inputs()
    layers = case.net.layers[:-1]
    cheap = nn.Sequential(*layers, nn.Flatten()).kernel(x)
    full = nn.Sequential(*layers, nn.AvgPool(1), nn.Flatten()).kernel(x)
    for k, other in zip(cheap, full, strict=True):
        np.testing.assert_allclose(other, k, rtol=1e-13, atol=1e-14)


def test_pooling_everything_is_global_pooling():
    x = np.random.default_rng(0).normal(size=(3, *IMAGE))
    window = nn.Sequential(conv, relu, nn.AvgPool(IMAGE[:2]), nn.Flatten()).kernel(x)
    whole = nn.Sequential(conv, relu, nn.GlobalAvgPool()).kernel(x)
    total = nn.Sequential(conv, relu, nn.SumPool(IMAGE[:2]), nn.Flatten()).kernel(x)
    for a, b, c in zip(window, whole, total, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
        np.testing.assert_allclose(c, b * 12**2, rtol=1e-13)


def test_a_convolution_over_one_position_is_dense():
    x = np.random.default_rng(0).normal(size=(4, 3))
    flat = nn.Sequential(dense, relu).kernel(x)
    for window, padding in ((1, "SAME"), (1, "VALID"), (1, "CIRCULAR")):
        net = nn.Sequential(nn.Conv(window, weight_var=1.2, padding=padding), relu, nn.Flatten())
        for k, other in zip(flat, net.kernel(x[:, None, None, :]), strict=True):
            np.testing.assert_allclose(other, k, rtol=1e-13)


SUMMARY = """
layer                                            output           positions  numbers per pair
nn.Conv(window=3, weight_var=1.5, bias_var=0.1)  4 x 3, width     equal                    12
nn.Residual                                      4 x 3, width     equal                    12
  nn.Relu()                                      4 x 3, width     equal                    12
  nn.Conv(window=3, weight_var=1.5, bias_var=0.1)  4 x 3, width   equal                    12
nn.Parallel, concatenate                         4 x 3, 2 x width equal                    12
  nn.Relu()                                      4 x 3, width     equal                    12
  nn.Erf()                                       4 x 3, width     equal                    12
nn.Flatten()                                     24 x width       none                      1
readout                                          1                none                      1
"""


def test_summary():
    branches = nn.Parallel(relu, nn.Erf(), combine="concatenate")
    text = nn.summary(nn.Sequential(conv, nn.Residual(relu, conv), branches, nn.Flatten()), IMAGE)
    assert [line.split() for line in text.splitlines()] == [line.split() for line in SUMMARY.strip().splitlines()]
    assert len({len(line) for line in text.splitlines()}) == 1, "columns are aligned"


@over(COMPOSITIONS)
def test_summary_of_every_network(case):
    assert "readout" in nn.summary(case.net, case.shape)


def test_summary_accepts_a_traced_parameter():
    def shown(weight_var):
        assert "traced" in nn.summary(nn.Sequential(nn.Dense(weight_var=weight_var), relu), (3,))
        return weight_var

    jax.jit(shown)(1.0)
