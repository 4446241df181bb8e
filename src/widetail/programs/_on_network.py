"""Programs on top of networks: what the layers of `nn` can do is done by them, the rest by a program."""

import dataclasses
import math
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from widetail import nn
from widetail.kernels import CrossFn, Get, Kernel, KernelValues, Rows, RowsFn, check_inputs
from widetail.numerics import is_traced
from widetail.programs._accuracy import evaluate, mean_of, settled
from widetail.programs._evaluation import Options
from widetail.programs._induction import Bilinear
from widetail.programs._limit import of_network
from widetail.programs._planning import needs, run_plan
from widetail.programs._program import Program
from widetail.programs._simulation import simulated

STATISTICS = "network"


class OnNetwork(Kernel):
    """A program whose Gaussian vectors to begin with are what a network makes, one per position; see `on_network`.

    Attributes:
        network: its output is Gaussian: it ends in random weights, or in a sum of such.
        program: its graph has `Given` statements, and no input matrices.
    """

    has_ntk: ClassVar[bool] = True

    network: nn.Layer
    program: Program
    positions: int = eqx.field(static=True)

    @property
    def options(self) -> Options:
        """Accuracy of the integrals of the program."""
        return self.program.options

    def with_options(self, **options: Any) -> "OnNetwork":
        """The same with another accuracy; see `Program.with_options`."""
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

    def rows_fn(self, get: Get) -> RowsFn:
        """Carry each input through both with itself."""

        def rows(x: Any) -> Rows:
            statistics, replicates = self.replicates_of_rows(x, get)
            return Rows(x, statistics, mean_of(replicates))

        return rows

    def cross_fn(self, get: Get) -> CrossFn:
        """Carry every pair of inputs through both."""
        return lambda rows1, rows2: mean_of(self.replicates_of_pairs(rows1, rows2, get))

    def replicates_of_rows(self, x: Any, get: Get) -> tuple[dict[str, Any], KernelValues]:
        """What is known of each row, and its kernels, once per replicate of quasi-Monte Carlo, or once."""
        k, statistics = self.network.propagate_rows_fn(True)(self._start(x, None, get))
        known = self._blocks(k, get)
        found, values = self._values((Rows(x, known, KernelValues()),), {}, get)
        return known | found | {STATISTICS: statistics}, values

    def replicates_of_pairs(self, rows1: Rows, rows2: Rows, get: Get) -> KernelValues:
        """The kernels of all pairs, once per replicate of quasi-Monte Carlo, or once."""
        first, second = rows1.statistics[STATISTICS], rows2.statistics[STATISTICS]
        k = self.network.propagate_cross_fn(True)(self._start(rows1.inputs, rows2.inputs, get), first, second)
        sides = [
            rows._replace(statistics={name: value for name, value in rows.statistics.items() if name != STATISTICS})
            for rows in (rows1, rows2)
        ]
        return self._values(tuple(sides), self._blocks(k, get), get)[1]

    def kernel(self, x1: Any, x2: Any = None, get: Get = "both", **options: Any) -> KernelValues:
        """The kernels between the rows of `x1` and of `x2`; see `Program.kernel`."""
        if is_traced(self, x1, x2):
            return super().kernel(x1, x2, get, **options)
        one: Any = self  # it has what `evaluate` asks of a program
        return evaluate(one, x1, x2, get, **options)

    def for_inputs(self, x1: Any, x2: Any = None, get: Get = "nngp", *, tell: bool = True) -> "OnNetwork":
        """With as many Hermite polynomials as these inputs take; see `Program.for_inputs`."""
        one: Any = self  # as above, and gives one of its kind
        found: Any = settled(one, *check_inputs(self, x1, x2), get, tell=tell)
        return found

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
            nngp, ntk = simulated(graphs, variances, inputs, self.options.samples, tangent=tangent, network=network)
            return {}, KernelValues(None if get == "ntk" else nngp, ntk)
        nngp, ntk, found = run_plan((decomposed,) * len(sides), self.options, tangent, variances, sides, pairs)
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
