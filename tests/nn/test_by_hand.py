"""Kernels and gradients in NumPy against the engine's, which JAX compiles and differentiates."""

import jax
import numpy as np
import pytest

from widetail import nn
from widetail.kernels import Anova, KernelValues, Linear, evaluate, evaluate_by_hand, evaluate_diagonal
from widetail.kernels.engine import pull_back, pull_back_by_hand

FEATURES = np.array([2.0, 0.1, 3.0, 1.0])
RNG = np.random.default_rng(0)
X, OTHERS = RNG.normal(size=(24, 4)), RNG.normal(size=(9, 4))
X[3], OTHERS[0], X[5] = X[4], X[0], -X[4]  # equal rows, and opposite ones
WEIGHTS = RNG.normal(size=(24, 24))

KERNELS = {
    "erf": nn.mlp(2, "erf", weight_var=FEATURES),
    "erf, deep, one variance": nn.mlp(3, "erf", weight_var=1.3),
    "relu": nn.mlp(2, "relu", weight_var=FEATURES),
    "relu without biases": nn.mlp(2, "relu", weight_var=FEATURES, bias_var=0.0),
    "relu, then erf": nn.Sequential(nn.Dense(bias_var=0.2), nn.Relu(), nn.Dense(weight_var=1.5), nn.Erf()),
    "rbf": nn.Sequential(nn.Dense(weight_var=FEATURES, bias_var=0.2), nn.Rbf(0.7)),
    "any features": Anova(FEATURES, FEATURES / 3),
    "pairs": Anova(FEATURES, 0.3, order=2, interaction_var=0.4),
    "single features": Anova(2.0, FEATURES, order=1),
    "linear": Linear(FEATURES, 0.3),
    "linear, one variance": Linear(0.4),
    "linear and relu": Linear(FEATURES, 0.3) + nn.mlp(1, "relu", weight_var=FEATURES),
}


# Between two sets of rows the same formulas are used: of every formula one kernel is enough.
QUICK_CROSS = ("relu", "erf", "rbf", "pairs")
CASES = [
    pytest.param(name, others, id=f"{name}-{kind}", marks=[pytest.mark.slow] if is_slow else [])
    for name in KERNELS
    for kind, others, is_slow in (("symmetric", None, False), ("cross", OTHERS, name not in QUICK_CROSS))
]


@pytest.mark.parametrize(("name", "others"), CASES)
def test_by_hand_is_what_the_engine_computes(name, others, monkeypatch):
    monkeypatch.setattr("widetail.kernels.engine._by_hand.TILE_NUMBERS", 4 * 10**2)  # several tiles
    kernel = KERNELS[name]
    hand, weights = kernel.by_hand(), WEIGHTS[:, : 24 if others is None else 9]
    values = evaluate(kernel, X, others, "nngp").nngp
    np.testing.assert_allclose(evaluate_by_hand(hand, X, others), values, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel.kernel(X, others, get="nngp").nngp, values, rtol=1e-12, atol=1e-14)
    found = pull_back_by_hand(kernel, hand, weights, X, others)
    expected = pull_back(kernel, KernelValues(weights), X, others, "nngp")
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-11 * np.max(np.abs(b)))


@pytest.mark.parametrize("name", KERNELS)
def test_diagonals(name):
    kernel = KERNELS[name]
    expected = evaluate_diagonal(kernel, X, "nngp").nngp
    np.testing.assert_allclose(kernel.diagonal(X, get="nngp").nngp, expected, rtol=1e-13)
    np.testing.assert_array_equal(np.diagonal(kernel.kernel(X, get="nngp").nngp), kernel.diagonal(X, get="nngp").nngp)


def test_a_row_of_zeros_without_biases():
    kernel, x = KERNELS["relu without biases"], np.zeros((2, 4))
    assert np.all(kernel.kernel(x, get="nngp").nngp == 0)
    pulled = kernel.pull_back(KernelValues(np.ones((2, 2))), x)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(pulled))


def test_what_is_not_written_down_is_left_to_the_engine():
    assert nn.Sequential(nn.Dense(), nn.Gelu()).by_hand() is None
    assert nn.Sequential(nn.Dense()).by_hand() is None
    assert nn.Sequential(nn.Dense(), nn.Rbf(), nn.Dense(), nn.Erf()).by_hand() is None
    assert Anova(order=3).by_hand() is None
    assert (Linear() + Anova(order=3)).by_hand() is None


def test_progress_of_tiles(monkeypatch):
    monkeypatch.setattr("widetail.kernels.engine._by_hand.TILE_NUMBERS", 4 * 10**2)
    counts = []
    KERNELS["pairs"].kernel(X, progress=lambda done, total: counts.append((done, total)))
    assert counts == [(i, 6) for i in range(1, 7)]
