"""What an evaluation would take, told before it begins, and in which pieces it is done."""

import dataclasses
from typing import Any

import numpy as np

from widetail.empirical._methods import Way
from widetail.kernels import available_memory

# a tile's products are then long enough for a core, and its arrays still fit into the larger caches
TILE_NUMBERS = 2_000_000
MOST_ROWS = 256
WORKSPACE = 1 << 29  # bytes beside the result, unless the user says how many there may be


@dataclasses.dataclass(frozen=True)
class Cost:
    """What one way to compute a kernel takes.

    Attributes:
        flops: operations, counted from the model's own steps.
        workspace_bytes: memory beside the result, an estimate from above.
        rows_per_tile: rows of either side that are combined at a time.
        rows_held: prepared rows of the first side that are kept while all of the second pass by.
    """

    flops: float
    workspace_bytes: int
    rows_per_tile: int
    rows_held: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a kernel would be computed.

    Attributes:
        method: the cheapest way that fits, or the one that was asked for.
        costs: what each way would take, by name.
        output_bytes: memory of the result.
    """

    method: str
    costs: dict[str, Cost]
    output_bytes: int

    @property
    def flops(self) -> float:
        """Operations of the chosen way."""
        return self.costs[self.method].flops

    @property
    def workspace_bytes(self) -> int:
        """Memory of the chosen way beside the result."""
        return self.costs[self.method].workspace_bytes

    def __str__(self) -> str:
        others = ", ".join(f"{name} {cost.flops:.2g}" for name, cost in self.costs.items() if name != self.method)
        return (
            f"{self.method}: {self.flops:.2g} operations ({others}); {self.output_bytes / 1e9:.3g} GB for the result "
            f"and up to {self.workspace_bytes / 1e9:.3g} GB beside it"
        )


def make_plan(ways: dict[str, Way], rows1: int, rows2: int | None, method: str, max_memory: Any) -> Plan:
    """The costs of all `ways`, and the cheapest; `rows2` is None for a side with itself."""
    way = next(iter(ways.values()))
    itemsize = np.dtype(way.dtype).itemsize
    entries = int(np.prod(way.layout.kernel_shape, dtype=np.int64))
    output = rows1 * (rows1 if rows2 is None else rows2) * entries * itemsize
    workspace = _workspace(output, max_memory)
    costs = {name: cost_of(way, rows1, rows2, workspace) for name, way in ways.items()}
    chosen = method
    if method == "auto":
        fitting = {name: cost for name, cost in costs.items() if cost.workspace_bytes <= workspace} or costs
        chosen = min(fitting, key=lambda name: fitting[name].flops)
    return Plan(chosen, costs, output)


def _workspace(output: int, max_memory: Any) -> int:
    """Bytes that may be used beside the result."""
    is_number = isinstance(max_memory, (int, float)) and not isinstance(max_memory, bool)
    if max_memory is not None and not (is_number and max_memory > 0):
        raise ValueError(f"max_memory must be a positive number of bytes, such as 4e9, or None; got {max_memory!r}.")
    limit = available_memory() if max_memory is None else int(max_memory)
    if output > limit:
        raise MemoryError(
            f"The kernel needs {output / 1e9:.3g} GB, but {'only ' if max_memory is None else 'max_memory allows '}"
            f"{limit / 1e9:.3g} GB{' is free' if max_memory is None else ''}. Ask for outputs='mean' or 'each', for "
            f"fewer rows at a time, or for products with vectors (product)."
        )
    return limit - output if max_memory is not None else min(WORKSPACE, max(limit - output, 1))


def cost_of(way: Way, rows1: int, rows2: int | None, workspace: int) -> Cost:
    """Operations and memory of one way within a workspace; a tile of one row is the least there is."""
    itemsize = np.dtype(way.dtype).itemsize
    most = max(rows1, rows2 or 0)
    if rows2 is None:
        most = max(16, -(-rows1 // 4))  # smaller tiles leave more of the lower triangle undone

    def used(tile: int, held: int) -> int:
        passing = max(tile * way.passing_numbers, tile * tile * way.pair_numbers + tile * way.one_row_numbers)
        return itemsize * (passing + (held + tile) * way.row_numbers)

    tile = max(1, min(MOST_ROWS, most, int((TILE_NUMBERS / max(1, way.pair_numbers)) ** 0.5)))
    while tile > 1 and used(tile, tile) > workspace:
        tile = (tile + 1) // 2
    blocks = -(-rows1 // tile)
    beside = used(tile, 0)
    held = tile * max(1, min(blocks, (workspace - beside) // max(1, itemsize * way.row_numbers * tile)))
    panels = -(-rows1 // held)
    passes = rows1 + panels * rows2 if rows2 is not None else rows1 + (panels - 1) * rows1 / 2
    pairs = rows1 * rows2 if rows2 is not None else rows1 * (rows1 + tile) / 2
    return Cost(passes * way.row_flops + pairs * way.pair_flops, used(tile, held), tile, min(held, rows1))
