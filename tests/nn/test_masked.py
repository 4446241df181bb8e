"""Inputs of unequal size: each is what it is by itself, and pairs are what the original says."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.compat.networks import inputs
from widetail import nn

EXPECTED = json.loads((Path(__file__).parents[1] / "compat" / "neural_tangents.json").read_text())
LENGTHS = (2, 5, 5, 3)
ALONE = {
    "conv": (nn.Conv(3, bias_var=0.2), nn.Relu(), nn.Conv(3), nn.Erf(), nn.GlobalAvgPool()),
    "softmax": (nn.Conv(1), nn.Relu(), nn.SelfAttention(query_key_var=2.0), nn.Relu(), nn.GlobalAvgPool()),
    "linear": (nn.Conv(1, bias_var=0.1), nn.SelfAttention(weights="linear"), nn.Erf(), nn.GlobalSumPool()),
    "norm": (nn.Conv(3, bias_var=0.2), nn.LayerNorm("all", epsilon=0.3), nn.Relu(), nn.GlobalAvgPool()),
    "zeros": (nn.Conv(3, bias_var=0.2, padding=((1, 1),)), nn.Relu(), nn.Conv(3), nn.GlobalAvgPool()),
    "residual": (nn.Conv(3), nn.Residual(nn.Relu(), nn.Conv(3, bias_var=0.3)), nn.Relu(), nn.GlobalAvgPool()),
    "transpose": (nn.ConvTranspose(2, strides=2, padding="VALID"), nn.Relu(), nn.GlobalSumPool()),
}


@pytest.mark.parametrize(
    "name", ["softmax", *(pytest.param(n, marks=pytest.mark.slow) for n in ALONE if n != "softmax")]
)
def test_every_sequence_is_what_it_is_by_itself(name):
    rng = np.random.default_rng(3)
    sequences = [rng.normal(size=(length, 2)) for length in LENGTHS]
    found = nn.Masked(*ALONE[name]).kernel(nn.stack_unequal(sequences))
    plain = nn.Sequential(*ALONE[name])
    for i, j in ((0, 0), (1, 1), (2, 2), (3, 3), (1, 2)):
        expected = plain.kernel(sequences[i][None], None if i == j else sequences[j][None])
        np.testing.assert_allclose(found.nngp[i, j], expected.nngp[0, 0], rtol=1e-10)
        np.testing.assert_allclose(found.ntk[i, j], expected.ntk[0, 0], rtol=1e-10)


# the same networks in the words of neural-tangents, whose values are kept
ORIGINAL = {
    "stax.Conv(9, (3,), padding='SAME', b_std=0.2), stax.Relu()": (nn.Conv(3, bias_var=0.04), nn.Relu()),
    "stax.Dense(9, b_std=0.3), stax.LayerNorm(axis=(1, 2)), stax.Relu()": (
        nn.Conv(1, bias_var=0.09),
        nn.LayerNorm("all"),
        nn.Relu(),
    ),
    "stax.Conv(9, (3,), padding='SAME'), stax.Erf(), stax.AvgPool((2,), (2,), 'SAME')": (
        nn.Conv(3),
        nn.Erf(),
        nn.AvgPool(2, padding="SAME"),
    ),
}


@pytest.mark.parametrize(
    ("words", "layers"),
    [
        pytest.param(*case, marks=[] if "LayerNorm" in case[0] else [pytest.mark.slow], id=name)
        for name, case in zip(("conv", "norm", "pool"), ORIGINAL.items(), strict=True)
    ],
)
def test_pairs_are_what_the_original_says(words, layers):
    expected = EXPECTED[f"stax.serial({words}, stax.GlobalAvgPool(), stax.Dense(1)) masked"]
    x, new = (
        nn.stack_unequal([row[~np.any(row == 100.0, axis=1)] for row in rows]) for rows in inputs("sequences", True)
    )
    net = nn.Masked(*layers, nn.GlobalAvgPool())
    for other, name in ((None, "alone"), (new, "across")):
        found = net.kernel(x, other)
        for get in ("nngp", "ntk"):
            theirs = np.asarray(expected[name][get])
            np.testing.assert_allclose(getattr(found, get), theirs, rtol=0, atol=2e-7 * np.max(np.abs(theirs)))


def test_what_stands_where_nothing_is_does_not_matter():
    x = nn.stack_unequal([np.ones((2, 3, 1)), np.ones((3, 2, 1))])
    other = np.where(x[..., -1:] > 0, x, np.array([7.0, 0.0]))
    net = nn.Masked(nn.Conv(3, bias_var=0.1), nn.Relu(), nn.GlobalAvgPool())
    np.testing.assert_array_equal(net.kernel(x, get="nngp").nngp, net.kernel(other, get="nngp").nngp)


def test_an_input_without_any_position_is_zero():
    x = np.random.default_rng(0).normal(size=(3, 4, 3))
    x[..., -1] = [[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]]
    k = nn.Masked(*ALONE["softmax"]).kernel(x, get="nngp").nngp
    assert np.all(np.isfinite(k))
    assert np.all(k[1] == 0)
    assert k[0, 2] > 0


@pytest.mark.parametrize(
    ("net", "shape", "message"),
    [
        (nn.Masked(nn.Dense()), (3,), "must be the first layer and receive sequences"),
        (nn.Sequential(nn.Conv(1), nn.Masked(nn.Relu()), nn.Flatten()), (4, 3), "must be the first layer"),
        (nn.Masked(nn.Conv(1), nn.Flatten()), (4, 1), "others before it"),
        (nn.Sequential(nn.Conv(1), nn.DotGeneral(np.ones((3, 2))), nn.Flatten()), (4, 2), r"sizes \(3,\)"),
    ],
)
def test_what_does_not_fit(net, shape, message):
    with pytest.raises(ValueError, match=message):
        net.kernel(np.ones((2, *shape)))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [([], "at least one"), ([np.ones(3)], r"arrays\[0\]"), ([np.ones((2, 3)), np.ones((2, 4))], r"arrays\[1\]")],
)
def test_arrays_that_cannot_be_stacked(arrays, message):
    with pytest.raises(ValueError, match=message):
        nn.stack_unequal(arrays)


def test_dot_general_is_a_sum_over_positions():
    """One axis of two, and the constant's new axis at the end."""
    rng = np.random.default_rng(2)
    table, x = rng.normal(size=(4, 2)), rng.normal(size=(3, 4, 3, 2))
    net = nn.Sequential(nn.Conv(1, weight_var=2.0), nn.DotGeneral(table), nn.Flatten())
    mixed = np.einsum("npqc,pr->nqrc", x, table).reshape(3, -1)
    expected = 2.0 * mixed @ mixed.T / mixed.shape[1]
    np.testing.assert_allclose(net.kernel(x, get="nngp").nngp, expected, rtol=1e-12, atol=1e-12)
