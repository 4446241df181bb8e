"""A kernel in tiles: rows are prepared once per panel, tiles combine them, memory is what the plan says."""

from typing import Any

import jax
import numpy as np

from widetail.empirical._methods import Way
from widetail.empirical._plan import Cost
from widetail.progress import Progress, reporter


def row_count(x: Any) -> int:
    """How many rows inputs have."""
    return jax.tree.leaves(x)[0].shape[0]


def take(x: Any, start: int, size: int) -> Any:
    """`size` rows from `start`, filled up with copies of the last row so that every block has one shape."""
    rows = np.minimum(np.arange(start, start + size), row_count(x) - 1)
    return jax.tree.map(lambda leaf: leaf[rows], x)


def evaluate(way: Way, cost: Cost, params: Any, x1: Any, x2: Any, get: str, progress: Progress = False) -> np.ndarray:
    """The kernel of `x1` with `x2` (None: with itself), shape (n1, n2, *layout.kernel_shape)."""
    layout, symmetric = way.layout, x2 is None
    second = x1 if symmetric else x2
    n1, n2, tile = row_count(x1), row_count(second), cost.rows_per_tile
    out: np.ndarray | None = None
    starts1, starts2 = range(0, n1, tile), range(0, n2, tile)
    report = reporter(progress, "kernel")
    total = sum(not symmetric or i <= j for i in starts1 for j in starts2)
    done = 0
    for first in range(0, n1, cost.rows_held):
        panel = {
            start: way.rows(params, take(x1, start, tile))
            for start in range(first, min(first + cost.rows_held, n1), tile)
        }
        for j in starts2:
            if symmetric and j < first:
                continue
            rows2 = panel[j] if symmetric and j in panel else way.rows(params, take(second, j, tile))
            for i, rows1 in panel.items():
                if symmetric and i > j:
                    continue
                values = way.block(params, rows1, rows2) if get == "ntk" else way.nngp(rows1, rows2)
                values = layout.restore(np.asarray(values))[: n1 - i, : n2 - j]
                if out is None:
                    out = np.empty((n1, n2, *layout.kernel_shape), values.dtype)
                out[i : i + tile, j : j + tile] = values
                if symmetric and i != j:
                    out[j : j + tile, i : i + tile] = _mirrored(values, layout)
                done += 1
                report(done, total)
    assert out is not None
    return out


def evaluate_diagonal(way: Way, cost: Cost, params: Any, x1: Any, x2: Any, get: str) -> np.ndarray:
    """Row i of `x1` with row i of `x2` (None: of `x1`), shape (n, *layout.kernel_shape)."""
    n, tile = row_count(x1), cost.rows_per_tile
    parts = []
    for start in range(0, n, tile):
        rows1 = way.rows(params, take(x1, start, tile))
        rows2 = rows1 if x2 is None else way.rows(params, take(x2, start, tile))
        values = way.aligned(params, rows1, rows2) if get == "ntk" else way.nngp_aligned(rows1, rows2)
        parts.append(way.layout.restore(np.asarray(values))[: n - start])
    return np.concatenate(parts)


def _mirrored(values: np.ndarray, layout: Any) -> np.ndarray:
    """The block on the other side of the diagonal: rows change places, and so do the two sides of every free axis."""
    order, axis = [1, 0], 2
    for kind in range(len(layout.shape)):
        if kind in layout.diagonal:
            order.append(axis)
            axis += 1
        elif kind in layout.free:
            order += [axis + 1, axis]
            axis += 2
    return values.transpose(order)
