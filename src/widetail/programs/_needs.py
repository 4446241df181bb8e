"""What the kernel of a program needs, found without computing a number."""

import functools
from typing import Any

import jax
import numpy as np

from widetail.programs._evaluation import Options, make_side
from widetail.programs._expressions import Decomposition
from widetail.programs._limit import Limit, TooManyVariablesError


@functools.lru_cache(maxsize=512)
def needs(program: Decomposition) -> Limit | None:
    """The limit of one input with itself, without numbers; None for programs that have to be simulated."""
    graph = program.graph
    found: list[Limit] = []

    def run(x: Any) -> Any:
        side = make_side(x, graph, {})
        variances = {name: random.var for name, random in graph.randoms.items()}
        limit = Limit((program, program), variances, (side, side), Options(order=2, degree=2), same=True)
        found.append(limit)
        return limit.readout()

    try:
        jax.eval_shape(run, jax.ShapeDtypeStruct((1, *graph.input_shape), np.float32))
    except TooManyVariablesError:
        return None
    return found[0]
