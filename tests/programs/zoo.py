"""The programs of the library, with inputs."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from widetail import programs


class Case(NamedTuple):
    name: str
    program: Any
    x: np.ndarray

    def inputs(self, dtype=np.float64):
        """The inputs, the first one again, and zeros."""
        return np.concatenate([self.x, self.x[:1], np.zeros_like(self.x[:1])]).astype(dtype)


_rng = np.random.default_rng(0)
VECTORS = _rng.normal(size=(5, 4))
SEQUENCES = _rng.normal(size=(5, 4, 3))
IMAGES = _rng.normal(size=(5, 3, 3, 2))
SHORT = _rng.normal(size=(5, 2, 3))
RAGGED = [_rng.normal(size=(length, 3)) for length in (2, 4, 1, 4, 3)]

CASES = [
    Case("mlp", programs.mlp, VECTORS),
    Case("resnet", programs.resnet, VECTORS),
    Case("tied_mlp", programs.tied_mlp, VECTORS),
    Case("layer_norm_mlp", programs.layer_norm_mlp, VECTORS),
    Case("rnn", programs.rnn, SEQUENCES),
    Case("packed_rnn", programs.packed_rnn, programs.pack(RAGGED)),
    Case("averaged_rnn", programs.averaged_rnn, SEQUENCES),
    Case("cnn_1d", programs.cnn, SEQUENCES),
    Case("cnn_2d", programs.cnn, IMAGES),
    Case("graph_convolution", programs.graph_convolution, SEQUENCES),
    Case("self_attention", programs.self_attention, SEQUENCES),
    Case("multi_head_attention", programs.self_attention(heads=3), SEQUENCES),
    Case("transformer", programs.transformer, SEQUENCES),
]
# from the third step on by quasi-Monte Carlo
GRU = Case("gru", programs.gru.with_options(samples=2048), _rng.normal(size=(5, 3, 3)))


def over(cases, slow=()):
    """Run a test on every case, by name; on those that take the way of another one only with the slow tests."""
    names = {case.name for case in slow}
    marks = [[pytest.mark.slow] if case.name in names else [] for case in cases]
    return pytest.mark.parametrize(
        "case", [pytest.param(case, id=case.name, marks=mark) for case, mark in zip(cases, marks, strict=True)]
    )


def named(name):
    return next(case for case in CASES if case.name == name)
