"""Kernels of encoded rows against the same kernels of coordinates that are written out by hand."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from widetail import nn, tables
from widetail.files import from_config, to_config
from widetail.kernels import RBF, Anova, KernelValues, Linear

PLACES = (0, 1, 1, 1, 2)  # three groups of five features
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(9, 5))
GAPS = np.abs(RNG.normal(size=(9, 3))) * (RNG.random((9, 3)) < 0.5)
ROWS = np.concatenate([FEATURES, GAPS], axis=1)
RELEVANCES = np.array([0.5, 1.0, 2.0])


def written_out(weights):
    """Every row with its gaps in coordinates of its own, and the weights of all coordinates."""
    own = np.zeros((9, 9, 3))
    own[range(9), range(9)] = GAPS
    everything = np.concatenate([FEATURES, own.reshape(9, -1)], axis=1)
    return everything, np.concatenate([weights[list(PLACES)], np.tile(weights, 9)])


NETS = {
    "rbf": lambda weights: RBF(1 / np.sqrt(weights)),
    "linear": lambda weights: Linear(1.5),
    "relu": lambda weights: nn.mlp(2, "relu", weight_var=weights, bias_var=0.1),
    "erf": lambda weights: nn.mlp(1, "erf", weight_var=weights, bias_var=0.1),
}


@pytest.mark.parametrize("name", NETS)
def test_gaps_are_coordinates_that_no_other_row_shares(name):
    x, weights = written_out(RELEVANCES)
    # a network takes the mean over its inputs: over groups here
    factor = np.sqrt(x.shape[1] / 3) if name in ("relu", "erf") else 1.0
    expected = NETS[name](weights).kernel(factor * x, get="nngp").nngp
    kernel = tables.for_table(NETS[name](RELEVANCES), PLACES)
    found = kernel.kernel(ROWS, get="nngp").nngp
    assert_allclose(found, expected, rtol=1e-10)
    assert_allclose(kernel.kernel(ROWS[:4], ROWS[4:], get="nngp").nngp, expected[:4, 4:], rtol=1e-10)
    assert_allclose(kernel.diagonal(ROWS, get="nngp").nngp, np.diag(expected), rtol=1e-10)
    assert np.linalg.eigvalsh(found).min() > -1e-9


@pytest.mark.parametrize("gaps", [GAPS, 0 * GAPS], ids=["gaps", "no gaps"])
@pytest.mark.parametrize("name", ["linear", "relu", pytest.param("erf", marks=pytest.mark.slow)])
def test_numpy_is_what_the_engine_computes(name, gaps, monkeypatch):
    monkeypatch.setattr("widetail.kernels.engine._by_hand.TILE_NUMBERS", 8 * 8**2)  # two tiles
    kernel, rows = tables.for_table(NETS[name](RELEVANCES), PLACES), np.concatenate([FEATURES, gaps], axis=1)
    assert kernel.by_hand() is not None
    weights = np.random.default_rng(1).normal(size=(9, 9))
    found = kernel.kernel(rows, get="nngp").nngp, *jax.tree.leaves(kernel.pull_back(KernelValues(nngp=weights), rows))
    monkeypatch.setattr(tables.Grouped, "by_hand", lambda kernel: None)
    other = kernel.kernel(rows, get="nngp").nngp, *jax.tree.leaves(kernel.pull_back(KernelValues(nngp=weights), rows))
    for a, b in zip(found, other, strict=True):
        assert_allclose(a, b, rtol=1e-9, atol=1e-10 * np.max(np.abs(b)))


@pytest.mark.parametrize("order", [None, 1, 2])
@pytest.mark.parametrize("by_jax", [False, True])
def test_sums_over_groups(order, by_jax, monkeypatch):
    if by_jax:
        monkeypatch.setattr(Anova, "by_hand", lambda kernel: None)
    x, _ = written_out(np.ones(3))
    of_group = np.array([*PLACES, *np.tile(np.arange(3), 9)])
    squares = np.stack([np.sum((x[:, None] - x)[..., of_group == g] ** 2, axis=-1) for g in range(3)])
    lengths, parts = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.2, 0.1])
    terms = parts[:, None, None] * np.exp(-0.5 * squares / lengths[:, None, None] ** 2)
    pairs = terms[0] * terms[1] + terms[0] * terms[2] + terms[1] * terms[2]
    expected = {None: np.prod((1 + terms) / (1 + parts)[:, None, None], axis=0), 1: 1 + terms.sum(0)}
    expected[2] = expected[1] + 0.7 * pairs
    kernel = tables.for_table(Anova(lengths, parts, order, 0.7), PLACES)
    assert_allclose(kernel.kernel(ROWS).nngp, expected[order], rtol=1e-12)
    assert_allclose(kernel.kernel(ROWS[:3], ROWS[3:]).nngp, expected[order][:3, 3:], rtol=1e-12)
    weights = RNG.normal(size=(9, 9))
    weights += weights.T
    slope = kernel.pull_back(KernelValues(nngp=weights), ROWS).length_scale
    for place in range(3):
        step = np.eye(3)[place] * 1e-5
        ends = [
            np.vdot(weights, tables.for_table(Anova(lengths + s, parts, order, 0.7), PLACES).kernel(ROWS).nngp)
            for s in (step, -step)
        ]
        assert_allclose(slope[place], (ends[0] - ends[1]) / 2e-5, rtol=1e-6, atol=1e-8)


def test_files_and_messages():
    for net in (nn.mlp(1, "erf"), Anova(1.0, 0.1)):
        kernel = tables.for_table(net, PLACES)
        assert from_config(to_config(kernel)) == kernel
        with pytest.raises(ValueError, match="x1 must hold"):
            kernel.kernel(FEATURES)


def test_more_features_at_once_than_there_are_change_nothing_and_groups_are_of_features():
    """A file may say anything: an order of a billion would take forever, a group of that number all memory."""
    x = np.random.default_rng(0).normal(size=(4, 3))
    assert_allclose(Anova(order=10**9).kernel(x).nngp, Anova(order=3).kernel(x).nngp, rtol=1e-14)
    for wrong in ((0, 10**9), (0, -1), ()):
        with pytest.raises(ValueError, match="group of every feature"):
            Anova(places=wrong)
        with pytest.raises(ValueError, match="group of every feature"):
            tables.for_table(nn.mlp(1), wrong)
