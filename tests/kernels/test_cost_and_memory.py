"""Estimates before a run, and the refusal to start one that cannot fit."""

import numpy as np
import pytest

from widetail import nn
from widetail.kernels import RBF, Cost
from widetail.kernels.engine import _memory

NET = nn.Sequential(nn.Dense(weight_var=1.5, bias_var=0.1), nn.Relu())


def test_cost_of_a_shape():
    cost = NET.cost((3000, 4))
    assert isinstance(cost, Cost)
    assert cost.output_bytes == 2 * 3000 * 3000 * 8
    assert cost.tiles == 6 * 7 // 2
    assert cost.seconds > 0
    assert cost.workspace_bytes > 0
    assert "0.144 GB for the result" in str(cost)
    assert "21 tiles" in str(cost)


def test_cost_of_arrays():
    x = np.zeros((600, 4), np.float32)
    assert NET.cost(x, get="nngp").output_bytes == 600 * 600 * 4
    cross = NET.cost(x, x[:10])
    assert cross.output_bytes == 2 * 600 * 10 * 4
    assert cross.tiles == 2
    assert RBF().cost(x).output_bytes == 600 * 600 * 4


def test_what_cannot_fit_is_refused_with_the_numbers_and_the_ways_out():
    with pytest.raises(MemoryError) as caught:
        NET.kernel(np.zeros((1000, 2)), max_memory=1e7)
    message = str(caught.value)
    assert message.startswith(
        "A 1000 x 1000 kernel (nngp and ntk, float64) needs 0.016 GB, but max_memory allows 0.01 GB."
    )
    for way in ("get='nngp'", "float32", "blocks of rows", "sparse"):
        assert way in message


def test_ways_out_that_are_already_taken_are_not_offered():
    with pytest.raises(MemoryError) as caught:
        NET.kernel(np.zeros((1000, 2), np.float32), get="nngp", max_memory=1e6)
    assert "(nngp, float32) needs 0.004 GB" in str(caught.value)
    assert "get='nngp'" not in str(caught.value)
    assert "use float32" not in str(caught.value)


def test_free_memory_is_the_limit_by_default(monkeypatch):
    monkeypatch.setattr(_memory, "available_memory", lambda: 1_000_000)
    with pytest.raises(MemoryError, match=r"needs 0\.016 GB, but only 0\.001 GB is free"):
        NET.kernel(np.zeros((1000, 2)))


def test_the_limit_itself_still_fits():
    assert NET.kernel(np.zeros((10, 2)), max_memory=2 * 10 * 10 * 8).nngp.shape == (10, 10)


def test_free_memory_of_this_machine_is_plausible():
    assert 1e6 < _memory.available_memory() < 1e15
