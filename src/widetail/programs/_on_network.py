"""Programs on top of networks: what the layers of `nn` can do is done by them, the rest by a program."""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from widetail import nn
from widetail.kernels import Get, KernelValues, Rows
from widetail.programs._program import Program
from widetail.programs.limits._accuracy import KernelOfIntegrals
from widetail.programs.limits._induction import Bilinear
from widetail.programs.limits._limit import of_network
from widetail.programs.limits._options import Options
from widetail.programs.limits._plans import needs, run_plan
from widetail.programs.limits._simulation import simulated

STATISTICS = "network"


class OnNetwork(KernelOfIntegrals):
    """A program whose Gaussian vectors to begin with are what a network makes, one per position; see `on_network`.

    Attributes:
        network: its output is Gaussian: it ends in random weights, or in a sum of such.
        program: its graph has `Given` statements, and no input matrices.
    """

    network: nn.Layer
    program: Program
    positions: int = eqx.field(static=True)

    @property
    def integrals(self) -> Options:
        return self.program.options

    def with_options(self, **options: Any) -> "OnNetwork":
        return dataclasses.replace(self, program=self.program.with_options(**options))

    def check_shape(self, name: str, input_shape: tuple[int, ...]) -> None:
        """Follow the shape through the network."""
        space = self.network.signal(nn.Signal.of_input(input_shape)).space
        if math.prod(space) != self.positions:
            raise ValueError(
                f"{name} of shape (n, {', '.join(map(str, input_shape))}) does not fit: the network makes positions "
                f"{space} of it, and the program takes {self.positions}."
            )

    def numbers_per_pair(self, input_shape: tuple[int, ...]) -> int:
        """What the layers carry, all pairs of positions, and the program."""
        own = math.prod(input_shape[:-1]) ** (2 if self.network.needs_all_pairs(True) else 1)
        return max(own, 2 * self.positions**2) + self.program.numbers_per_pair((self.positions, 1))

    def replicates_of_rows(self, x: Any, get: Get) -> tuple[dict[str, Any], KernelValues]:
        k, statistics = self.network.propagate_rows_fn(True)(self._start(x, None, get))
        known = self._blocks(k, get)
        found, values = self._values((Rows(x, known, KernelValues()),), {}, get)
        return known | found | {STATISTICS: statistics}, values

    def replicates_of_pairs(self, rows1: Rows, rows2: Rows, get: Get) -> KernelValues:
        first, second = rows1.statistics[STATISTICS], rows2.statistics[STATISTICS]
        k = self.network.propagate_cross_fn(True)(self._start(rows1.inputs, rows2.inputs, get), first, second)
        sides = [
            rows._replace(statistics={name: value for name, value in rows.statistics.items() if name != STATISTICS})
            for rows in (rows1, rows2)
        ]
        return self._values(tuple(sides), self._blocks(k, get), get)[1]

    def __repr__(self) -> str:
        return f"{self.program} on {self.network}"

    def _start(self, x1: Any, x2: Any, get: Get) -> Any:
        return self.network.start_fn(get, all_pairs=True)(x1, x2)

    def _blocks(self, k: nn.Covariance, get: Get) -> dict[str, Any]:
        """By name, covariances and tangents (positions, positions, ...)."""
        kinds: dict[Bilinear, Any] = {"covariance": k.nngp}
        if get != "nngp":
            kinds["tangent"] = k.ntk
        rank = 2 * k.rank
        return {
            of_network(kind): jnp.reshape(v, (self.positions, self.positions, *v.shape[rank:]))
            for kind, v in kinds.items()
        }

    def _values(self, sides: tuple[Rows, ...], pairs: dict[str, Any], get: Get) -> tuple[dict[str, Any], KernelValues]:
        shape, program = (self.positions, 1), self.program
        decomposed = program.decomposed(shape)
        variances, tangent = program.variances_of(decomposed.graph), get != "nngp"
        if needs(decomposed) is None:
            kinds: tuple[Bilinear, ...] = ("covariance", "tangent") if tangent else ("covariance",)
            blocks = [*(rows.statistics for rows in sides), pairs] if pairs else [sides[0].statistics]
            network: tuple[dict[Bilinear, Any], ...] = tuple(
                {kind: jnp.moveaxis(block[of_network(kind)], (0, 1), (-2, -1)) for kind in kinds} for block in blocks
            )
            inputs = tuple(jnp.zeros((len(rows.inputs), *shape), rows.inputs.dtype) for rows in sides)
            graphs = (decomposed.graph,) * len(sides)
            nngp, ntk = simulated(graphs, variances, inputs, self.integrals.samples, tangent=tangent, network=network)
            return {}, KernelValues(None if get == "ntk" else nngp, ntk)
        nngp, ntk, found = run_plan((decomposed,) * len(sides), self.integrals, tangent, variances, sides, pairs)
        return found, KernelValues(None if get == "ntk" else nngp, ntk)


def on_network(network: nn.Layer, program: Program, input_shape: tuple[int, ...]) -> OnNetwork:
    """A program on top of a network: its `Given` statements are the Gaussian vectors that the network makes.

    Args:
        network: layers that end in random weights, or in a sum of such; their output may have positions.
        program: made by `from_graph` for inputs of shape (positions, 1); without input matrices.
        input_shape: shape of one input of the network.

    Example:
        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> from widetail import nn, programs
        >>> from widetail.programs import statements as st
        >>> graph = st.Graph((1, 1))
        >>> first = graph.add(st.Given(0))
        >>> graph.output = graph.add(st.Nonlin(jnp.tanh, (first,)))
        >>> program = programs.from_graph(lambda shape: graph, (1, 1))
        >>> network = nn.Sequential(nn.Dense(), nn.Relu(), nn.Dense())
        >>> programs.on_network(network, program, (3,)).kernel(np.eye(3)).ntk.shape
        (3, 3)
    """
    signal = network.signal(nn.Signal.of_input(input_shape))
    if not signal.is_gaussian:
        raise ValueError(f"network must end in random weights, so that its output is Gaussian; got {network}.")
    found = OnNetwork(network, program, math.prod(signal.space))
    program.check_shape("input_shape", (found.positions, 1))
    return found
