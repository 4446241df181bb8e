"""The first rows of a stream, kept until there are enough of them to learn a kernel from once and for all."""

import dataclasses

import numpy as np

from widetail.files import savable

# A row at a time would learn the kernel anew with every row.
GROWTH = 1.1


@savable("estimators.FirstRows")
@dataclasses.dataclass(frozen=True, eq=False)
class FirstRows:
    """Rows of a stream as they came.

    Attributes:
        x: inputs, rows first, in their own units.
        y: targets, or numbers of classes.
        counts: how often each row was observed, shape (n,).
        learned_from: how many of them there were when the kernel was learned last.
    """

    x: np.ndarray
    y: np.ndarray
    counts: np.ndarray
    learned_from: int

    def __post_init__(self) -> None:
        if not len(self.x) == len(self.y) == len(self.counts) or not 0 < self.learned_from <= len(self.x):
            raise ValueError(f"{len(self.x)} inputs, {len(self.y)} targets, learned from {self.learned_from} of them")
        if self.counts.ndim != 1 or not np.all(self.counts > 0) or not np.all(np.isfinite(self.x)):
            raise ValueError("first rows must be finite, and each observed")

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, counts: np.ndarray) -> "FirstRows":
        """Rows from which the kernel was just learned."""
        return cls(x, y, counts, len(x))

    def followed_by(self, x: np.ndarray, y: np.ndarray, counts: np.ndarray) -> "FirstRows":
        """These and more."""
        x, y, counts = (np.concatenate(pair) for pair in ((self.x, x), (self.y, y), (self.counts, counts)))
        return FirstRows(x, y, counts, self.learned_from)

    @property
    def have_grown(self) -> bool:
        """Whether there are so many more rows that a kernel is worth being learned anew."""
        return len(self.x) >= GROWTH * self.learned_from
