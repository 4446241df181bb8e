"""Kernels in NumPy, with their gradients, where both are short formulas: nothing to compile, for any shape of table.

Learning from a table asks for a few hundred kernels of a few hundred rows. Compiled for the shape of every table and
for every candidate, JAX spends longer on compiling than all of them take here.
"""

import abc
import itertools
from typing import Any

import equinox as eqx
import jax
import numpy as np

from widetail.kernels.engine._engine import aligned_empty, keep_freed_memory
from widetail.kernels.engine._tiles import Blocks, tiles_of
from widetail.numerics import in_parallel
from widetail.progress import Progress, reporter

# Numbers in one array of a tile: a few such arrays stay in the cache, and calls of NumPy cost little beside them.
TILE_NUMBERS = 160_000
# Compared with a multiplication inside of a matrix product.
OPERATIONS_PER_NUMBER = 50


class ByHand(abc.ABC):
    """A kernel of vectors in float64: what `Kernel.by_hand` gives where NumPy is at least as fast as the engine.

    Attributes:
        most_pairs: more pairs of rows than this are faster compiled, whatever compiling takes.
    """

    most_pairs: float = float("inf")

    def numbers_per_pair(self, features: int) -> int:
        """How many numbers there are at once for a pair of rows: tiles are smaller where there are many."""
        return features

    @abc.abstractmethod
    def side(self, x: np.ndarray) -> Any:
        """All that rows (n, d) contribute by themselves."""

    @abc.abstractmethod
    def diagonal(self, side: Any) -> np.ndarray:
        """The kernel of each row with itself, shape (n,)."""

    @abc.abstractmethod
    def values(self, side1: Any, side2: Any) -> np.ndarray:
        """The kernel, shape (n1, n2); a new array."""

    @abc.abstractmethod
    def gradient(self, side1: Any, side2: Any, weights: np.ndarray) -> list[Any]:
        """Derivatives of the sum of the kernel times `weights` (n1, n2) in the kernel's leaves, in their order."""


def is_for_numpy(x1: Any, x2: Any) -> bool:
    """Whether the inputs are what `ByHand` is for."""
    return all(x is None or (isinstance(x, np.ndarray) and x.dtype == np.float64 and x.ndim == 2) for x in (x1, x2))


def evaluate_by_hand(hand: ByHand, x1: np.ndarray, x2: np.ndarray | None, progress: Progress = False) -> np.ndarray:
    """The kernel of the rows of `x1` with those of `x2` (None: with itself)."""
    blocks1, blocks2, sides1, sides2 = _sides(hand, x1, x2)
    out = aligned_empty((blocks1.total, blocks2.total), np.float64)

    def tile(i: int, j: int) -> None:
        here, there = blocks1[i], blocks2[j]
        values = hand.values(sides1[i], sides2[j])
        if x2 is None and i == j:
            values = 0.5 * (values + values.T)  # products may round differently across the diagonal
            np.fill_diagonal(values, hand.diagonal(sides1[i]))
        out[here, there] = values
        if x2 is None and i != j:
            out[there, here] = values.T

    _run(tile, blocks1, blocks2, x1, symmetric=x2 is None, name="kernel", progress=progress)
    return out


def gradient_by_hand(
    hand: ByHand, weights: np.ndarray, x1: np.ndarray, x2: np.ndarray | None = None, progress: Progress = False
) -> list[Any]:
    """Derivatives of the sum of the kernel times `weights` in the kernel's leaves, in their order."""
    blocks1, blocks2, sides1, sides2 = _sides(hand, x1, x2)

    def tile(i: int, j: int) -> list[Any]:
        here, there = blocks1[i], blocks2[j]
        part = weights[here, there]
        if x2 is None and i != j:
            part = part + weights[there, here].T  # a tile stands for its mirror image too
        return hand.gradient(sides1[i], sides2[j], part)

    found = _run(tile, blocks1, blocks2, x1, symmetric=x2 is None, name="gradient", progress=progress)
    totals = [np.sum(terms, axis=0) for terms in zip(*found, strict=True)]
    return [total if np.ndim(total) else float(total) for total in totals]


def pull_back_by_hand(
    kernel: Any, hand: ByHand, weights: np.ndarray, x1: np.ndarray, x2: np.ndarray | None, progress: Progress = False
) -> Any:
    """The kernel with derivatives in place of its parameters; see `Kernel.pull_back`."""
    leaves = gradient_by_hand(hand, weights, x1, x2, progress)
    # a derivative may be negative, which no parameter may: put in without the checks of a new kernel
    return eqx.tree_at(lambda kernel: jax.tree.leaves(kernel), kernel, leaves)


def _sides(hand: ByHand, x1: np.ndarray, x2: np.ndarray | None) -> tuple[Blocks, Blocks, list[Any], list[Any]]:
    rows = max(8, int((TILE_NUMBERS / hand.numbers_per_pair(x1.shape[1])) ** 0.5))
    blocks1 = Blocks(len(x1), rows)
    sides1 = [hand.side(x1[blocks1[i]]) for i in range(len(blocks1))]
    if x2 is None:
        return blocks1, blocks1, sides1, sides1
    blocks2 = Blocks(len(x2), rows)
    return blocks1, blocks2, sides1, [hand.side(x2[blocks2[i]]) for i in range(len(blocks2))]


def _run(
    tile: Any, blocks1: Blocks, blocks2: Blocks, x: np.ndarray, *, symmetric: bool, name: str, progress: Progress
) -> list[Any]:
    tiles = list(tiles_of(range(len(blocks1)), range(len(blocks2)), symmetric=symmetric))
    report, done = reporter(progress, name), itertools.count(1)

    def run(where: tuple[int, int]) -> Any:
        found = tile(*where)
        report(next(done), len(tiles))
        return found

    keep_freed_memory()
    numbers = blocks1.total * blocks2.total * x.shape[1] // (2 if symmetric else 1)
    return in_parallel(run, tiles, OPERATIONS_PER_NUMBER * numbers)
