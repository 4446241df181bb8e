"""What the kernel of a program needs, found without computing a number."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail.programs._evaluation import Options, make_side
from widetail.programs._expressions import Decomposition
from widetail.programs._limit import Limit


class Needs(Limit):
    """A limit without integrals, which remembers what was asked for."""

    def _integrate(self, *arguments: Any, **options: Any) -> Any:
        return jnp.zeros(self.shape, self.dtype)


@functools.lru_cache(maxsize=512)
def needs(program: Decomposition) -> Needs:
    """The limit of one input with itself, without numbers."""
    graph = program.graph
    found: list[Needs] = []

    def run(x: Any) -> Any:
        side = make_side(x, graph, {})
        variances = {name: random.var for name, random in graph.randoms.items()}
        limit = Needs((program, program), variances, (side, side), Options(order=2), same=True)
        found.append(limit)
        return limit.readout()

    jax.eval_shape(run, jax.ShapeDtypeStruct((1, *graph.input_shape), np.float32))
    return found[0]
