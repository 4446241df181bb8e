"""What an evaluation of a limit is given, and what it writes down."""

import dataclasses
from typing import Any

from widetail.programs._statements import Graph


@dataclasses.dataclass
class Side:
    """One side of a kernel evaluation.

    Attributes:
        x: inputs (n, positions, features).
        present: flags (n, positions), or None.
        known: what has been found for each row by itself, by name.
    """

    x: Any
    present: Any
    known: dict[str, Any]


def make_side(x: Any, graph: Graph, known: dict[str, Any]) -> Side:
    """Inputs (n, *space, features) as the limit wants them."""
    flat = x.reshape(len(x), -1, x.shape[-1])
    if not graph.masked:
        return Side(flat, None, known)
    return Side(flat[..., :-1], flat[..., -1], known)


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """How a kernel was computed, and how well.

    Attributes:
        pairs: whether pairs of inputs are meant, or each input with itself.
        method: "closed forms", "Hermite series" or "quasi-Monte Carlo".
        error: largest estimated error of the kernel: its distance from that with twice the polynomials for Hermite
            series, a standard error over scrambled repetitions for quasi-Monte Carlo; with an allowance for rounding.
        size: largest value of the kernel.
    """

    pairs: bool
    method: str
    error: float
    size: float


@dataclasses.dataclass(frozen=True)
class Options:
    """Accuracy of integrals without a closed form.

    Attributes:
        order: Hermite polynomials for functions of one variable.
        degree: of Hermite polynomials for functions of two variables: those below it are used.
        samples: points of quasi-Monte Carlo.
    """

    order: int = 64
    degree: int = 24
    samples: int = 8192

    def finer(self) -> "Options":
        """Twice the polynomials."""
        return dataclasses.replace(self, order=2 * self.order, degree=2 * self.degree)
