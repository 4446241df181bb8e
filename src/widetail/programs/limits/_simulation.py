"""The limit of programs with functions of more Gaussian variables than quadrature can do.

A pair of inputs is followed through the program on quasi-random points. A Gaussian variable is drawn given those before
it, with the covariances that the induction gives, and expectations of products are averages over the
points. Every vector is evaluated once, so the cost grows with the square of the number of statements, not with the size
of the functions they make together.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from widetail.gaussian import norm_and_inverse, what_is_left
from widetail.programs.language._functions import apply_function
from widetail.programs.limits._induction import Bilinear, Induction, Steps, Variable, run
from widetail.programs.statements import (
    Average,
    Constant,
    Given,
    Graph,
    InputFeature,
    InputProduct,
    LinComb,
    MatMul,
    Nonlin,
    Presence,
    ScalarFunction,
    Term,
)

REPLICATES = 8
# Numbers of one vector, for a row and some others, that are followed at a time.
NUMBERS_AT_ONCE = 2**16


def simulated(
    graphs: tuple[Graph, ...],
    variances: dict[str, Any],
    inputs: tuple[Any, ...],
    samples: int,
    *,
    tangent: bool,
    network: tuple[dict[Bilinear, Any], ...] = (),
) -> tuple[Any, Any]:
    """The kernel, and the tangent kernel or None, of all pairs of rows of two sides, or of each row of one.

    Args:
        graphs: the program of each side.
        variances: of matrices and biases.
        inputs: (n, *space, features), two for pairs, one for every row with itself.
        samples: points, divided among the replicates.
        tangent: whether the tangent kernel is wanted.
        network: covariances and tangents of what a network below makes: of each side's rows with themselves, (n,
            positions, positions), and of all pairs, (n1, n2, positions, positions); empty where there is none.

    Returns:
        Each with an axis for the replicates in front.
    """
    return _replicates(graphs, samples, tangent, variances, inputs, network or ({},) * 3)


def drawn_variables(graph: Graph) -> list[int]:
    """The G-variables whose values are needed, in the order in which they are drawn."""
    lines = graph.lines
    found = set(lines[graph.output].support)
    for index in graph.needed():
        statement = lines[index].statement
        if lines[index].kind == "H":
            found |= set(lines[index].support)
        elif isinstance(statement, (MatMul, Average)):
            found |= set(lines[statement.vector].support)
    return sorted(found)


@functools.lru_cache(maxsize=16)
def _normal_points(dimensions: int, samples: int) -> np.ndarray:
    """Standard normal points: (replicates, count, dimensions)."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    power = int(np.log2(max(2, samples // REPLICATES)))
    generators = np.random.default_rng(20220425).spawn(REPLICATES)
    draws = [qmc.Sobol(dimensions, scramble=True, rng=rng).random_base2(power) for rng in generators]
    return ndtri(np.clip(np.stack(draws), 1e-16, 1 - 1e-16))


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _replicates(
    graphs: tuple[Graph, ...], samples: int, tangent: bool, variances: dict[str, Any], inputs: Any, network: Any
) -> tuple[Any, Any]:
    """Both kernels, once per replicate."""
    dtype = inputs[0].dtype
    sides = tuple(_Rows(*_divided(graph, x), own) for graph, x, own in zip(graphs, inputs, network, strict=False))
    # for one side as for two, so that an input has the same kernel with itself as with its copy
    dimensions = 2 * max(1, *(len(drawn_variables(graph)) for graph in graphs))
    points = jnp.asarray(_normal_points(dimensions, samples), dtype)
    variances = {name: jnp.asarray(value, dtype) for name, value in variances.items()}

    @jax.checkpoint
    def follow(points: Any, *rows: _Rows) -> tuple[Any, Any]:
        simulation = _Simulation(graphs, variances, rows, points)
        ends = (0, graphs[0].output), (len(graphs) - 1, graphs[-1].output)
        nngp, ntk = run(simulation.kernels(*ends, tangent=tangent))
        like = jnp.zeros(len(rows[-1].x), points.dtype)
        return _or_zero(nngp, like), _or_zero(ntk, like) if tangent else None

    size = max(1, NUMBERS_AT_ONCE // points.shape[1])
    if len(sides) == 1:
        return jax.lax.map(lambda points: _in_pieces(functools.partial(follow, points), size, sides[0]), points)

    def one_row(points: Any, row: _Rows, pairs: Any) -> tuple[Any, Any]:
        row = jax.tree.map(lambda values: values[None], row)
        return _in_pieces(functools.partial(follow, points, row), size, sides[1]._replace(pairs=pairs))

    def all_rows(points: Any) -> tuple[Any, Any]:
        return jax.lax.map(lambda each: one_row(points, *each), (sides[0], network[2]))

    return jax.lax.map(all_rows, points)


class _Rows(NamedTuple):
    """Rows of one side.

    Attributes:
        x: features (rows, positions, features).
        present: flags (rows, positions), or None.
        own: covariances and tangents of what a network below makes, of each row with itself.
        pairs: the same of the row on the first side with each of these.
    """

    x: Any
    present: Any
    own: dict[Bilinear, Any]
    pairs: Any = None


def _divided(graph: Graph, x: Any) -> tuple[Any, Any]:
    """Features (n, positions, features), and flags of presence (n, positions) or None."""
    flat = x.reshape(len(x), -1, x.shape[-1])
    return (flat[..., :-1], flat[..., -1]) if graph.masked else (flat, None)


def _in_pieces(fn: Callable[[Any], Any], size: int, rows: _Rows) -> Any:
    """What a function gives for some rows at a time, put together."""
    count = len(rows.x)
    size = min(size, count)
    missing = -count % size

    def pieces(values: Any) -> Any:
        padded = jnp.concatenate([values, jnp.broadcast_to(values[:1], (missing, *values.shape[1:]))])
        return padded.reshape(-1, size, *values.shape[1:])

    found = jax.lax.map(fn, jax.tree.map(pieces, rows))
    return jax.tree.map(lambda values: values.reshape(-1, *values.shape[2:])[:count], found)


class _Simulation(Induction):
    """Vectors of one row of the first side (if there are two) and of some rows of the last, at some points.

    Numbers are arrays (rows,), or (1,) where they are the same for all.
    """

    def __init__(self, graphs: tuple[Graph, ...], variances: dict[str, Any], sides: tuple[_Rows, ...], points: Any):
        super().__init__(graphs)
        self.variances = variances
        self.sides = sides
        self.points = points
        self.values: tuple[dict[int, Any], ...] = tuple({} for _ in sides)  # (rows, points), of scalars (rows, 1)
        self.slopes: dict[Any, Any] = {}
        self.multiplied: dict[str, list[Any]] = {}  # the vectors that a matrix was multiplied with
        self.grams = {}
        drawn = [drawn_variables(graph) for graph in graphs]
        self.factors = _factors(graphs, drawn, points)
        for side, graph in enumerate(graphs):
            for index in graph.needed():
                found = self._draw(side, index) if index in drawn[side] else self._follow(side, index)
                if found is not None:
                    # otherwise it would be computed again wherever it is used
                    self.values[side][index] = jax.lax.optimization_barrier(found)

    def _draw(self, side: int, index: int) -> Any:
        """Values of a G-variable, given those that it depends on and that were drawn before."""
        variable = (side, index)
        line = self.line(variable)
        self._multiply(side, line.statement)
        x = self.sides[side].x
        mean = _or_zero(run(self.expectation(variable)), jnp.zeros(len(x), x.dtype))[:, None]
        if not line.roots:  # a constant, put together from constants
            return mean
        factor = self.factors[min(line.roots)]
        covariances = [run(self.bilinear("covariance", other, variable)) for other in (*factor.variables, variable)]
        return mean + factor.draw(variable, covariances[:-1], covariances[-1])

    def _follow(self, side: int, index: int) -> Any:
        """Values of anything else; None of G-variables that are only parts of others."""
        line, values = self.graphs[side].lines[index], self.values[side]
        statement = line.statement
        x, present = self.sides[side].x, self.sides[side].present
        if isinstance(statement, Constant):
            return jnp.full((len(x), 1), statement.value, x.dtype)
        if isinstance(statement, Presence):
            return present[:, statement.position, None]
        if isinstance(statement, InputFeature):
            return x[:, statement.position, statement.feature, None]
        if isinstance(statement, Average):
            return jnp.mean(self._at_all_points(side, values[statement.vector]), axis=1, keepdims=True)
        if isinstance(statement, (Nonlin, ScalarFunction)):
            arguments = jnp.broadcast_arrays(*(values[argument] for argument in statement.arguments))
            return apply_function(statement.fn, tuple(arguments))
        if isinstance(statement, LinComb) and line.kind == "H":
            return sum(self._factor(side, term) * values[term.variable] for term in statement.terms)
        self._multiply(side, statement)
        return None

    def _multiply(self, side: int, statement: Any) -> None:
        """Find the moments of a vector with all that the same matrix was multiplied with, many at a time."""
        if not isinstance(statement, MatMul):
            return
        others = self.multiplied.setdefault(statement.matrix, [])
        new = (side, statement.vector)
        if new in others:
            return
        others.append(new)
        mine = self._at_all_points(side, self.values[side][statement.vector])
        for one in range(side + 1):
            # those of two G-variables are known exactly
            asked = [
                other for other in others if other[0] == one and "H" in (self.line(other).kind, self.line(new).kind)
            ]
            if not asked:
                continue
            theirs = jnp.stack([self._at_all_points(one, self.values[one][index]) for _, index in asked])
            if one == side:
                found = jnp.einsum("krp,rp->kr", theirs, mine)
            else:  # the first side is one row
                found = jnp.einsum("kp,rp->kr", theirs[:, 0], mine)
            for other, moment in zip(asked, found / len(self.points), strict=True):
                self.found["moment", min(other, new), max(other, new)] = moment

    def _at_all_points(self, side: int, values: Any) -> Any:
        return jnp.broadcast_to(values, (len(self.sides[side].x), len(self.points)))

    def _factor(self, side: int, term: Any) -> Any:
        """The factor of a summand, (rows, 1) or (1,)."""
        number = jnp.asarray([term.number], self.points.dtype)
        return number if term.scalar is None else number * self.values[side][term.scalar]

    # What the induction asks for.

    def constant(self, side: int, value: float) -> Any:
        return jnp.full(1, value, self.points.dtype)

    def combined(self, variable: Variable, parts: list[tuple[Term, Any]]) -> Any:
        return sum(self._factor(variable[0], term)[..., 0] * part for term, part in parts)

    def added(self, first: Any, second: Any) -> Any:
        return first if second is None else second if first is None else first + second

    def times_variance(self, name: str, part: Any) -> Any:
        return self.variances[name] * part

    def of_inputs(self, sides: tuple[int, int], one: InputProduct, other: InputProduct) -> Any:
        return self._gram(one.matrix, *sides)[one.position, other.position]

    def of_bias(self, name: str) -> Any:
        return self.variances[name][None]

    def of_network(self, kind: Bilinear, sides: tuple[int, int], one: Given, other: Given) -> Any:
        rows = self.sides[sides[1]]
        block = (rows.own if sides[0] == sides[1] else rows.pairs)[kind]
        return block[:, one.position, other.position]

    def _gram(self, matrix: str, side: int, other: int) -> Any:
        """Covariances of the products of an input matrix: (positions, positions, rows)."""
        key = (matrix, side, other)
        if key not in self.grams:
            first, second = self.sides[side].x * self.variances[matrix], self.sides[other].x
            features = first.shape[-1]
            if side == other:
                found = jnp.einsum("rpf,rqf->pqr", first, second)
            else:  # the first side is one row
                found = jnp.einsum("pf,rqf->pqr", first[0], second)
            self.grams[key] = jax.lax.optimization_barrier(found / features)
        return self.grams[key]

    def moment(self, a: Variable, b: Variable) -> Steps:
        a, b = min(a, b), max(a, b)
        key = ("moment", a, b)
        if key not in self.found:
            if self.line(a).kind == self.line(b).kind == "G":
                means = (yield self.expectation(a)), (yield self.expectation(b))
                product = None if means[0] is None or means[1] is None else means[0] * means[1]
                self.found[key] = self.added(product, (yield self.bilinear("covariance", a, b)))
            else:
                self.found[key] = jnp.mean(self.values[a[0]][a[1]] * self.values[b[0]][b[1]], axis=1)
        return self.found[key]

    def moment_tangent(self, a: Variable, b: Variable) -> Steps:
        a, b = min(a, b), max(a, b)
        key = ("moment_tangent", a, b)
        if key not in self.found:
            like, is_zero, rows = jnp.zeros(len(self.sides[-1].x), self.points.dtype), True, []
            for g in self.line(a).support:
                row = []
                for other in self.line(b).support:
                    tangent = yield self.bilinear("tangent", (a[0], g), (b[0], other))
                    is_zero = is_zero and tangent is None
                    row.append(_or_zero(tangent, like))
                rows.append(row)
            self.found[key] = None
            if not is_zero:
                tangents = jnp.stack([jnp.stack(row) for row in rows])
                products = jnp.einsum("irp,jrp->ijr", *_same_rows(self._slopes(a), self._slopes(b)))
                self.found[key] = jnp.sum(tangents * products, axis=(0, 1)) / len(self.points)
        return self.found[key]

    def _slopes(self, variable: Any) -> Any:
        """The derivatives of a vector in the Gaussian variables of its support: (variables, rows, points)."""
        if variable not in self.slopes:
            side, line = variable[0], self.line(variable)
            shape = (len(line.support), len(self.sides[side].x), len(self.points))
            if line.kind == "G":
                found = jnp.ones(shape, self.points.dtype)
            else:
                found = jnp.zeros(shape, self.points.dtype)
                for argument, slope in self._own_slopes(side, line.statement):
                    places = np.searchsorted(line.support, self.graphs[side].lines[argument].support)
                    found = found.at[places].add(slope * self._slopes((side, argument)))
            self.slopes[variable] = jax.lax.optimization_barrier(found)
        return self.slopes[variable]

    def _own_slopes(self, side: int, statement: Any) -> list[tuple[int, Any]]:
        """The vectors that a statement uses, and its derivatives in each, (rows, points)."""
        if isinstance(statement, LinComb):
            return [(term.variable, self._factor(side, term)) for term in statement.terms]
        values = [self._at_all_points(side, self.values[side][argument]) for argument in statement.arguments]
        slopes = jax.grad(lambda values: jnp.sum(apply_function(statement.fn, values)))(tuple(values))
        lines = self.graphs[side].lines
        return [it for it in zip(statement.arguments, slopes, strict=True) if lines[it[0]].support]


class _Factor:
    """A triangular factor of the covariance of the variables of a family, of which some are drawn by now.

    Its shape is that of all of them from the start: arrays that grow would have to be compiled in every size.
    """

    def __init__(self, columns: Any):
        self.columns = columns  # standard normal values: (variables, points)
        self.variables: list[Any] = []
        self.matrix = jnp.zeros((1, len(columns), len(columns)), columns.dtype)

    def draw(self, variable: Any, covariances: list[Any], variance: Any) -> Any:
        """Values (rows, points) of a variable, from its covariances with those before (None for zero)."""
        place, size = len(self.variables), len(self.columns)
        if len(variance) > len(self.matrix):  # the first of the second side: from here on every row is on its own
            self.matrix = jnp.broadcast_to(self.matrix, (len(variance), size, size))
        like = jnp.zeros(len(self.matrix), self.columns.dtype)
        against = jnp.stack([_or_zero(value, like) for value in covariances] + [like] * (size - place), axis=-1)
        row = self._solve(against) if place else against
        deviation, _ = norm_and_inverse(what_is_left(like + variance, jnp.sum(row**2, axis=-1)))
        row = row.at[:, place].set(deviation)
        self.matrix = self.matrix.at[:, place].set(row)
        self.variables.append(variable)
        return row @ self.columns

    def _solve(self, against: Any) -> Any:
        """Forward substitution; a variable that is not drawn, or added nothing to those before, has no coefficient."""
        pivots = jnp.diagonal(self.matrix, axis1=1, axis2=2)
        huge = jnp.where(pivots == 0, jnp.finfo(pivots.dtype).max ** 0.5, 0)
        factor = self.matrix + huge[:, :, None] * jnp.eye(pivots.shape[1], dtype=pivots.dtype)
        return jax.lax.linalg.triangular_solve(factor, against[..., None], left_side=True, lower=True)[..., 0]


def _factors(graphs: tuple[Graph, ...], drawn: list[list[int]], points: Any) -> dict[str, _Factor]:
    """By root, the factor of the variables that may depend on it; those of other factors are independent of them."""
    parents: dict[str, str] = {}

    def find(root: str) -> str:
        while parents.setdefault(root, root) != root:
            root = parents[root]
        return root

    variables = [graph.lines[index] for graph, indices in zip(graphs, drawn, strict=True) for index in indices]
    for line in variables:
        for root in line.roots:
            parents[find(root)] = find(min(line.roots))
    columns: dict[str, list[int]] = {}
    for column, line in enumerate(variables):
        if line.roots:
            columns.setdefault(find(min(line.roots)), []).append(column)
    factors = {family: _Factor(points[:, np.asarray(places)].T) for family, places in columns.items()}
    return {root: factors[find(root)] for root in list(parents)}


def _or_zero(value: Any, like: Any) -> Any:
    return like if value is None else like + value


def _same_rows(first: Any, second: Any) -> tuple[Any, Any]:
    """Both with as many rows as the one that has more."""
    rows = max(first.shape[1], second.shape[1])
    return tuple(jnp.broadcast_to(values, (len(values), rows, values.shape[2])) for values in (first, second))  # type: ignore[return-value]
