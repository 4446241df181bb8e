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
    """How one expectation was computed, and how well.

    Attributes:
        variables: names of the two variables whose product it is of.
        dimensions: of the integral.
        method: "quadrature" or "quasi-Monte Carlo".
        error: largest estimated error over all pairs: a standard error for quasi-Monte Carlo, the difference to a rule
            with fewer nodes for quadrature.
        size: largest value over all pairs.
    """

    variables: tuple[str, str]
    dimensions: int
    method: str
    error: float
    size: float


@dataclasses.dataclass(frozen=True)
class GaussianLaw:
    """Jointly Gaussian arguments of two functions.

    Attributes:
        picks: which of the variables are the arguments of the first and of the second function.
        means: of every variable: an array over pairs, or None for zero.
        covariances: by row and column, the lower triangle; None for zero.
    """

    picks: tuple[tuple[int, ...], tuple[int, ...]]
    means: list[Any]
    covariances: list[list[Any]]


@dataclasses.dataclass(frozen=True)
class Options:
    """Accuracy of integrals without a closed form.

    Attributes:
        order: Hermite polynomials for functions of one variable.
        samples: points of quasi-Monte Carlo.
    """

    order: int = 64
    samples: int = 8192
