"""How an evaluation is cut into tiles."""

import dataclasses
import itertools
from collections.abc import Iterator

from widetail.numerics import cores

# Numbers in one array of a tile: a few such arrays per thread stay in the cache, and the work on one is
# long enough (about a millisecond) to hide the cost of calling compiled functions.
TILE_NUMBERS = 320_000
# Never a power of two: rows of a transposed tile would fall on the same cache lines when mirrored.
MAX_TILE_ROWS = 500
# Per-row statistics of a panel are computed once and kept while the panel's tiles are evaluated.
PANEL_BYTES = 64 << 20


def worker_count() -> int:
    """Threads for tiles: two per core, so that one computes while the other waits for its arrays or a lock."""
    return 2 * cores()


def tile_rows(numbers_per_pair: int, most: int) -> int:
    """Rows of a square tile. Small inputs get a size from a short ladder, so that few shapes are compiled."""
    rows = max(1, min(MAX_TILE_ROWS, int((TILE_NUMBERS / numbers_per_pair) ** 0.5)))
    ladder = [1, 2, 4, 8, 16, 32, 64, 128, 200]
    return next((size for size in ladder if most <= size < rows), rows)


@dataclasses.dataclass(frozen=True)
class Blocks:
    """The rows of one side, in blocks of `size` (the last one may be shorter)."""

    total: int
    size: int

    def __len__(self) -> int:
        return -(-self.total // self.size)

    def __getitem__(self, index: int) -> slice:
        return slice(index * self.size, min((index + 1) * self.size, self.total))

    def panels(self, blocks_per_panel: int) -> list[range]:
        """Consecutive blocks, grouped."""
        return [
            range(start, min(start + blocks_per_panel, len(self))) for start in range(0, len(self), blocks_per_panel)
        ]


def tiles_of(panel1: range, panel2: range, *, symmetric: bool) -> Iterator[tuple[int, int]]:
    """The (row block, column block) pairs to evaluate; the upper triangle only when symmetric."""
    return ((i, j) for i, j in itertools.product(panel1, panel2) if not symmetric or i <= j)
