"""Running layers one after the other, as compiled stages.

Outside of transformations the stages are called in turn: XLA, given a deep network in one piece, would
compute the first layers again for every use of their results. Inside a transformation everything ends up in
one piece; there, stages that look alike become the body of one `lax.scan`, which XLA leaves alone.
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp

from widetail.nn._base import Layer, Leaf, cross_stage, rows_stage
from widetail.nn.activations._activation import Activation
from widetail.numerics import is_traced

# Shorter runs are better unrolled: what XLA repeats then costs less than what a loop keeps in memory.
SHORTEST_SCAN = 8


class Stage:
    """Layers that are compiled together: leaves that act entry by entry, or one layer of any other kind.

    No more than one activation, so that its result is not computed again for every use in the next.
    """

    def __init__(self, layers: tuple[Layer, ...], all_pairs: bool):
        self.layers = layers
        self.all_pairs = all_pairs
        self.leaves, self.structure = jax.tree.flatten(layers)
        compiled = tuple(layer for layer in layers if isinstance(layer, Leaf))
        self.is_compiled = len(compiled) == len(layers)
        if self.is_compiled:
            self.rows, self.cross = rows_stage(compiled, all_pairs), cross_stage(compiled, all_pairs)
        else:
            (layer,) = layers
            self.rows, self.cross = layer.propagate_rows_fn(all_pairs), layer.propagate_cross_fn(all_pairs)

    def look(self) -> Any:
        """Equal for stages that differ in the values of their parameters only."""
        return self.structure, [jnp.shape(leaf) for leaf in self.leaves], self.all_pairs


class Chain:
    """A chain of layers, ready to take covariances through it."""

    def __init__(self, layers: tuple[Layer, ...], all_pairs: bool):
        self.stages = [Stage(*stage) for stage in _split(layers, all_pairs)]
        self.runs = [list(run) for _, run in itertools.groupby(self.stages, Stage.look)]

    def rows(self, k: Any) -> tuple[Any, tuple[Any, ...]]:
        """Each input with itself: the covariance after the chain, and per-row numbers for every stage."""
        statistics: list[Any] = []
        for run in self._runs_for(k):
            if len(run) == 1:
                k, found = run[0].rows(k)
                statistics.append(found)
                continue

            def body(k, leaves, stage=run[0]):
                layers = jax.tree.unflatten(stage.structure, leaves)
                return rows_stage(layers, stage.all_pairs)(k)

            k, stacked = _scan(body, k, _stack([stage.leaves for stage in run]))
            statistics += [jax.tree.map(lambda v, i=i: v[i], stacked) for i in range(len(run))]
        return k, tuple(statistics)

    def cross(self, k: Any, statistics1: tuple[Any, ...], statistics2: tuple[Any, ...]) -> Any:
        """Every pair of inputs: the covariance after the chain."""
        start = 0
        for run in self._runs_for(k):
            first = statistics1[start : start + len(run)]
            second = statistics2[start : start + len(run)]
            start += len(run)
            if len(run) == 1:
                k = run[0].cross(k, first[0], second[0])
                continue

            def body(k, step, stage=run[0]):
                leaves, first, second = step
                layers = jax.tree.unflatten(stage.structure, leaves)
                return cross_stage(layers, stage.all_pairs)(k, first, second), None

            steps = _stack([stage.leaves for stage in run]), _stack(first), _stack(second)
            k, _ = _scan(body, k, steps)
        return k

    def _runs_for(self, k: Any) -> list[list[Stage]]:
        """Runs to scan over inside a transformation; every stage by itself outside."""
        if not is_traced(k, [stage.leaves for stage in self.stages]):
            return [[stage] for stage in self.stages]
        runs = []
        for run in self.runs:
            # the first by itself: it may receive distances between inputs, which none of the others does
            can_scan = len(run) > SHORTEST_SCAN and run[0].is_compiled
            runs += [run[:1], run[1:]] if can_scan else [[stage] for stage in run]
        return runs


def _split(layers: tuple[Layer, ...], all_pairs: bool) -> list[tuple[tuple[Layer, ...], bool]]:
    """Cut a chain into stages; with each goes the form of the positions that the next one needs."""
    wanted = [all_pairs]
    for layer in reversed(layers):
        wanted.insert(0, layer.needs_all_pairs(wanted[0]))
    stages, start = [], 0
    for end, (layer, following) in enumerate(zip(layers, (*layers[1:], None), strict=True), 1):
        is_open = layer.is_elementwise and not isinstance(layer, Activation)
        if not (is_open and following is not None and following.is_elementwise):
            stages.append((layers[start:end], wanted[end]))
            start = end
    return stages


def _scan(body: Any, k: Any, steps: Any) -> Any:
    """A loop whose derivative keeps one covariance per step and computes the rest of the step again.

    Keeping everything takes several times the memory, and longer.
    """
    return jax.lax.scan(jax.checkpoint(body, prevent_cse=False), k, steps)


def _stack(trees: Any) -> Any:
    return jax.tree.map(lambda *values: jnp.stack([jnp.asarray(value) for value in values]), *trees)
