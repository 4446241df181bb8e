"""The infinite-width limit of a program: closed forms and Hermite series for its expectations, as a plan.

The limit is worked out without numbers: every computation is recorded, once, and carried out later, for as many tiles
as there are. Only what the readout needs is recorded.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from widetail.programs.language._functions import apply_function, piecewise_linear
from widetail.programs.limits import _one_variable as of_one
from widetail.programs.limits import _two_variables as of_two
from widetail.programs.limits._expressions import Atom, Decomposition, Part, independent_groups, product
from widetail.programs.limits._induction import Bilinear, Induction, Steps, Variable, run
from widetail.programs.limits._one_variable import Sum, scaled
from widetail.programs.limits._options import Options
from widetail.programs.limits._recorded import Recorder
from widetail.programs.statements import (
    Average,
    Given,
    Graph,
    InputFeature,
    InputProduct,
    Presence,
    ScalarFunction,
    Term,
)

# Longer sums are computed in pieces: every number of terms is compiled once.
MOST_TERMS = 12
ONE: Sum = (((), (), (), None),)


@dataclasses.dataclass
class Side:
    """One side of a pair of inputs.

    Attributes:
        x: inputs (n, *space, features), a slot.
        known: what has been found for each row by itself, by name: slots, or None for zero.
    """

    x: Any
    known: dict[str, Any]


def of_network(kind: Bilinear) -> str:
    """What is known of each row by itself of the network below a program, by its name."""
    return f"network {kind}"


class TooManyVariablesError(Exception):
    """A function of more than two dependent Gaussian variables, whose expectations have to be simulated."""


class Limit(Induction):
    """Covariances between variables on two sides, or (`same`) of each row with itself; both then count as side 0.

    Attributes:
        programs: of both sides.
        variances: of matrices and biases, slots.
        vectors: the names of input matrices that have a variance per feature.
        sides: inputs and what is known of each row, slots.
        recorder: where computations are written down.
        network: covariances and tangents between the two sides of what a network below makes, slots.
        asked: pairs of arguments of functions whose covariance was needed.
    """

    def __init__(
        self,
        programs: tuple[Decomposition, Decomposition],
        variances: dict[str, Any],
        vectors: frozenset[str],
        sides: tuple[Side, Side],
        options: Options,
        recorder: Recorder,
        *,
        same: bool,
        network: dict[str, Any] | None = None,
    ):
        super().__init__((programs[0].graph, programs[1].graph))
        self.programs = programs
        self.variances = variances
        self.vectors = vectors
        self.sides = sides
        self.options = options
        self.recorder = recorder
        self.same = same
        self.network = network or {}
        self.second = 0 if same else 1
        self.asked: set[tuple[int, int]] = set()
        self.products: dict[tuple[str, str], Sum | None] = {}
        self.grams: dict[tuple[Any, ...], Any] = {}
        self.alone: dict[int, Limit] = {}
        self.uses = tuple(_count_uses(graph) for graph in self.graphs)

    def readout(self, *, tangent: bool) -> tuple[Any, Any]:
        """The kernel, and the tangent kernel or None, slots."""
        ends = (0, self.graphs[0].output), (self.second, self.graphs[1].output)
        nngp, ntk = run(self.kernels(*ends, tangent=tangent))
        return self.array(nngp), self.array(ntk) if tangent else None

    def array(self, terms: Sum | None) -> Any:
        """A sum as an array, one entry per pair."""
        x1, x2 = self.sides[0].x, self.sides[1].x
        return self.recorder.call(of_one.total, (not self.same,), x1, x2, terms or ())

    def array_or_none(self, terms: Sum | None) -> Any:
        """The same; None for zero."""
        return None if terms is None else self.array(terms)

    def _block(self, fn: Callable[..., Any], fixed: tuple[Any, ...], *arguments: Any) -> Sum:
        """The result of a function of pairs, as a sum."""
        return (((), (), (), self.recorder.call(fn, fixed, *arguments)),)

    # What the induction asks for.

    def constant(self, side: int, value: float) -> Sum:
        return (((value,), (), (), None),)

    def combined(self, variable: Variable, parts: list[tuple[Term, Sum]]) -> Steps:
        side, index = variable
        terms: list[Any] = []
        for term, part in parts:
            rows = yield self._factors(side, () if term.scalar is None else (term.scalar,))
            if rows is not None:
                terms += scaled(part, term.number, **{("rows1", "rows2")[side]: rows})
        return self._collapse(terms, shared=self.uses[side][index] > 1)

    def added(self, first: Sum | None, second: Sum | None) -> Sum | None:
        return (*(first or ()), *(second or ())) or None

    def times_variance(self, name: str, part: Sum) -> Sum:
        return tuple(scaled(part, 1.0, numbers=(self.variances[name],)))

    def of_bias(self, name: str) -> Sum:
        return (((self.variances[name],), (), (), None),)

    def of_inputs(self, sides: tuple[int, int], one: InputProduct, other: InputProduct) -> Sum:
        variance = self.variances[one.matrix]
        is_vector = one.matrix in self.vectors
        key = (one.position, other.position, one.matrix if is_vector else None)
        if key not in self.grams:
            flat = [self._flat(side) for side in (0, 1)]
            weights = variance if is_vector else None
            self.grams[key] = self.recorder.call(
                of_one.gram, (not self.same,), *flat, one.position, other.position, weights
            )
        return ((() if is_vector else (variance,), (), (), self.grams[key]),)

    def of_network(self, kind: Bilinear, sides: tuple[int, int], one: Given, other: Given) -> Sum:
        between = self.sides[sides[0]].known if sides[0] == sides[1] else self.network
        return self._block(of_one.at_positions, (), between[of_network(kind)], one.position, other.position)

    def _flat(self, side: int) -> Any:
        """Inputs (n, positions, features)."""
        graph, x = self.graphs[side], self.sides[side].x
        key = ("inputs", x)
        if len(graph.input_shape) == 2 and not graph.masked:
            return x
        if key not in self.grams:
            self.grams[key] = self.recorder.call(of_one.features, (graph.masked,), x)
        return self.grams[key]

    def covariance(self, a: int, b: int) -> Steps:
        """Cov(a, b'), a sum."""
        return self.bilinear("covariance", (0, a), (self.second, b))

    def moment(self, a: Variable, b: Variable) -> Steps:
        """E[a b'], a sum."""
        a, b = min(a, b), max(a, b)
        key = ("moment", a, b)
        if key not in self.found:
            self.found[key] = yield self._over_parts(a, b, self._product)
        return self.found[key]

    def _over_parts(self, a: Variable, b: Variable, ask: Callable[[Part, Part], Steps]) -> Steps:
        """What is asked for each pair of summands of two vectors, added up."""
        terms: list[Any] = []
        for part1 in self.programs[a[0]].parts(a[1]):
            for part2 in self.programs[b[0]].parts(b[1]):
                rows1, rows2 = (yield self._factors(a[0], part1.scalars)), (yield self._factors(b[0], part2.scalars))
                if rows1 is None or rows2 is None:
                    continue
                found = yield ask(part1, part2)
                if found:
                    terms += scaled(found, part1.number * part2.number, rows1=rows1, rows2=rows2)
        return self._collapse(terms, shared=self.uses[a[0]][a[1]] > 1 or self.uses[b[0]][b[1]] > 1)

    def _product(self, part1: Part, part2: Part) -> Steps:
        """E[u v'] of two products of functions, the product over independent groups of them."""
        found = ONE
        for atoms1, atoms2 in independent_groups(self.graphs, part1.atoms, part2.atoms):
            value = yield self._group(atoms1, atoms2)
            if value is None:
                return None
            found = self._times(found, value)
        return found

    def _times(self, first: Sum, second: Sum) -> Sum:
        if len(first) * len(second) > MOST_TERMS:
            first, second = ((((), (), (), self.array(terms)),) for terms in (first, second))
        return tuple(
            (a1 + a2, b1 + b2, c1 + c2, self._times_blocks(k1, k2))
            for a1, b1, c1, k1 in first
            for a2, b2, c2, k2 in second
        )

    def _times_blocks(self, first: Any, second: Any) -> Any:
        if first is None or second is None:
            return second if first is None else first
        return self.recorder.call(of_one.times, (), first, second)

    def _group(self, atoms1: tuple[Atom, ...], atoms2: tuple[Atom, ...]) -> Steps:
        """The expectation of the product of functions, a sum; None for zero."""
        if not atoms2:
            mean = yield self._mean_of_product(0, atoms1)
            return None if mean is None else (((), (mean,), (), None),)
        if not atoms1:
            mean = yield self._mean_of_product(1, atoms2)
            return None if mean is None else (((), (), (mean,), None),)
        atom1, atom2 = product(atoms1), product(atoms2)
        key = (atom1.key, atom2.key)
        if self.same and (atom2.key, atom1.key) in self.products:
            return self.products[atom2.key, atom1.key]
        if key not in self.products:
            if len(atom1.gaussians) <= 1 and len(atom2.gaussians) <= 1:
                self.products[key] = yield self._pair(atom1, atom2)
            else:
                self.products[key] = yield self._several(atom1, atom2)
        return self.products[key]

    def _pair(self, atom1: Atom, atom2: Atom) -> Steps:
        """E[phi(z) psi(z')] of one variable each."""
        k = None
        if atom1.gaussians and atom2.gaussians:
            self._ask(atom1.gaussians[0], atom2.gaussians[0])
            k = yield self.covariance(atom1.gaussians[0], atom2.gaussians[0])
        if atom1.is_gaussian or atom2.is_gaussian or k is None:
            # E[phi psi'] = E[phi] E[psi] + k12 E[phi'] E[psi'] + ..., where one of them has no more terms
            mean1, mean2 = (yield self.mean_of(0, atom1)), (yield self.mean_of(1, atom2))
            terms: list[Any] = []
            if mean1 is not None and mean2 is not None:
                terms.append(((), (mean1,), (mean2,), None))
            if k:
                rows1, rows2 = (yield self.slope_of(0, atom1)), (yield self.slope_of(1, atom2))
                terms += scaled(k, 1.0, rows1=rows1, rows2=rows2)
            return tuple(terms) or None
        activation1, activation2 = atom1.activation, atom2.activation
        centred = (yield self.mean(0, atom1.gaussians[0])) is None and (yield self.mean(1, atom2.gaussians[0])) is None
        cross = not self.same
        if centred and activation1 is not None and activation1 == activation2:
            if self.same and atom1.key == atom2.key:
                variance = yield self.variance(0, atom1.gaussians[0])
                return self._block(of_one.dual_at_equal, (activation1, False), variance)
            first, second = (yield self.statistics(0, atom1)), (yield self.statistics(1, atom2))
            return self._block(of_one.dual, (activation1, cross), k, first, second)
        forms = piecewise_linear(activation1), piecewise_linear(activation2)
        if centred and forms[0] and forms[1]:
            first, second = (yield self.statistics(0, atom1)), (yield self.statistics(1, atom2))
            return self._block(of_one.piecewise_dual, (*forms, cross), k, first, second)
        first, second = (yield self.hermite(0, atom1)), (yield self.hermite(1, atom2))
        if self.same and atom1.key == atom2.key:
            return self._block(of_one.second_moment, (), first)
        return self._block(of_one.mehler, (*one_function(atom1, atom2), cross), k, first, second)

    def _several(self, atom1: Atom, atom2: Atom) -> Steps:
        """E[phi(z1, z2) psi(z1', z2')] of up to two variables each."""
        first, second = (yield self.planar(0, atom1)), (yield self.planar(1, atom2))
        if self.same and atom1.key == atom2.key:
            return self._block(of_two.second_moment, (), first)
        covariances = yield self._between(atom1, atom2)
        fixed = (atom1.expression == atom2.expression, not self.same)
        return self._block(of_two.product, fixed, covariances, first, second)

    def _between(self, atom1: Atom, atom2: Atom) -> Steps:
        """The covariances of the arguments of two functions: arrays, or None for zero."""
        rows = []
        for g in atom1.gaussians:
            row = []
            for other in atom2.gaussians:
                self._ask(g, other)
                terms = yield self.covariance(g, other)
                row.append(self.array(terms) if terms else None)
            rows.append(row)
        return rows

    def _ask(self, a: int, b: int) -> None:
        if self.graphs[0].lines[a].roots & self.graphs[1].lines[b].roots:
            self.asked.add((min(a, b), max(a, b)) if self.same else (a, b))

    def _collapse(self, terms: list[Any], *, shared: bool) -> Sum | None:
        """A sum that is used several times, or has many terms, becomes one array."""
        if not terms:
            return None
        if not shared and len(terms) <= MOST_TERMS:
            return tuple(terms)
        while len(terms) > 1:
            pieces = [terms[start : start + MOST_TERMS] for start in range(0, len(terms), MOST_TERMS)]
            terms = [((), (), (), self.array(tuple(piece))) for piece in pieces]
        return tuple(terms)

    # One side by itself. For pairs these are looked up: each row with itself was done before.

    def _row(self, side: int, key: str, make: Callable[["Limit"], Steps]) -> Steps:
        """What `make` finds for each row of one side by itself, once; kept under `key`."""
        known = self.sides[side].known
        if key not in known:
            # pairs may need what single inputs do not: means, where the two are independent
            known[key] = yield make(self if self.same else self._alone(side))
        return known[key]

    def _alone(self, side: int) -> "Limit":
        """The limit of one side, each row with itself."""
        if side not in self.alone:
            one, program = self.sides[side], self.programs[side]
            arguments = self.variances, self.vectors, (one, one), self.options, self.recorder
            self.alone[side] = type(self)((program, program), *arguments, same=True)
        return self.alone[side]

    def variance(self, side: int, g: int) -> Steps:
        """Var(g) per row."""

        def make(limit: Limit) -> Steps:
            return limit.array((yield limit.covariance(g, g)))

        return self._row(side, f"variance {g}", make)

    def row_covariance(self, side: int, a: int, b: int) -> Steps:
        """Cov(a, b) per row; None for zero."""
        a, b = sorted((a, b))

        def make(limit: Limit) -> Steps:
            return limit.array_or_none((yield limit.covariance(a, b)))

        return self._row(side, f"covariance {a} {b}", make)

    def mean(self, side: int, g: int) -> Steps:
        """E[g] per row, or None for zero."""

        def make(limit: Limit) -> Steps:
            return limit.array_or_none((yield limit.expectation((0, g))))

        return self._row(side, f"mean {g}", make)

    def _factors(self, side: int, indices: tuple[int, ...]) -> Steps:
        """The values of scalars; None when one of them is zero, so that what they multiply vanishes."""
        found = []
        for index in indices:
            found.append((yield self.scalar(side, index)))
        return None if any(value is None for value in found) else tuple(found)

    def _parameters(self, atom: Atom) -> Steps:
        """The values of the scalars that an atom has as parameters, of each row by itself."""
        found = []
        for index in atom.scalars:
            found.append(self._or_zeros((yield self.scalar(0, index))))
        return tuple(found)

    def _or_zeros(self, value: Any) -> Any:
        return self.recorder.call(of_one.zeros, (), self.sides[0].x) if value is None else value

    def scalar(self, side: int, index: int) -> Steps:
        """The value of a scalar per row; None where it is zero whatever the inputs are."""
        statement = self.graphs[side].lines[index].statement

        def make(limit: Limit) -> Steps:
            if isinstance(statement, Presence):
                return limit.recorder.call(of_one.feature, (), limit.sides[0].x, statement.position, -1)
            if isinstance(statement, InputFeature):
                x, place = limit.sides[0].x, (statement.position, statement.feature)
                return limit.recorder.call(of_one.feature, (), x, *place)
            if isinstance(statement, ScalarFunction):
                arguments = []
                for argument in statement.arguments:
                    arguments.append(limit._or_zeros((yield limit.scalar(0, argument))))
                return limit.recorder.call(apply_function, (statement.fn,), tuple(arguments))
            assert isinstance(statement, Average)
            return limit.array_or_none((yield limit._average(statement.vector)))

        return self._row(side, f"scalar {index}", make)

    def _average(self, vector: int) -> Steps:
        """E[h] of each row by itself, a sum."""
        factors = self.programs[0].factors(vector)
        if factors is not None:
            return (yield self.moment((0, factors[0]), (0, factors[1])))
        terms: list[Any] = []
        for part in self.programs[0].parts(vector):
            rows = yield self._factors(0, part.scalars)
            found = yield self._product(part, Part(1.0, (), ()))
            if rows is not None and found:
                terms += scaled(found, part.number, rows1=rows)
        return tuple(terms) or None

    def _mean_of_product(self, side: int, atoms: tuple[Atom, ...]) -> Steps:
        """The mean of a product of dependent functions per row; None for zero."""
        if len(atoms) != 2:
            return self.mean_of(side, product(atoms))

        def make(limit: Limit) -> Steps:  # as E[phi psi], which has more closed forms than E[(phi psi)]
            return limit.array_or_none((yield limit._group(atoms[:1], atoms[1:])))

        return self._row(side, f"mean of {atoms[0].key} {atoms[1].key}", make)

    def mean_of(self, side: int, atom: Atom) -> Steps:
        """E[phi] per row; None for zero."""
        if atom.is_gaussian:
            return self.mean(side, atom.gaussians[0])

        def make(limit: Limit) -> Steps:
            call = limit.recorder.call
            if len(atom.gaussians) > 1:
                return call(of_two.mean, (), (yield limit.planar(0, atom)))
            if not atom.gaussians:
                return call(of_one.constant, (atom.expression,), limit.sides[0].x, (yield limit._parameters(atom)))
            form = yield limit._centred_form(atom)
            if form:
                return call(of_one.piecewise_mean, (form,), (yield limit.statistics(0, atom)))
            return call(of_one.mean, (), (yield limit.hermite(0, atom)))

        return self._row(side, f"mean of {atom.key}", make)

    def slope_of(self, side: int, atom: Atom) -> Steps:
        """E[phi'] of a function of one variable: factors per row, none of them for one."""
        if atom.is_gaussian or not atom.gaussians:
            return ()

        def make(limit: Limit) -> Steps:
            form = yield limit._centred_form(atom)
            if form:
                return limit.recorder.call(of_one.piecewise_mean_slope, (form,), (yield limit.statistics(0, atom)))
            return limit.recorder.call(of_one.mean_slope, (), (yield limit.hermite(0, atom)))

        return ((yield self._row(side, f"slope of {atom.key}", make)),)

    def _centred_form(self, atom: Atom) -> Steps:
        """The numbers of a piecewise linear function of a variable with mean zero; None for anything else."""
        form = piecewise_linear(atom.activation)
        return form if form and (yield self.mean(0, atom.gaussians[0])) is None else None

    def statistics(self, side: int, atom: Atom) -> Steps:
        """What the closed form of an activation wants to know of each row."""

        def make(limit: Limit) -> Steps:
            variance = yield limit.variance(0, atom.gaussians[0])
            return limit.recorder.call(of_one.dual_statistics, (atom.activation,), variance)

        return self._row(side, f"statistics {atom.key}", make)

    def hermite(self, side: int, atom: Atom, *, slope: bool = False) -> Steps:
        """Hermite coefficients of a function of one variable, or of its derivative, per row."""

        def make(limit: Limit) -> Steps:
            g = atom.gaussians[0]
            variance, mean = (yield limit.variance(0, g)), (yield limit.mean(0, g))
            order = limit.options.times * max(limit.options.order, atom.least_order)
            fixed = (atom.expression, slope, order)
            return limit.recorder.call(of_one.hermite, fixed, mean, variance, (yield limit._parameters(atom)))

        return self._row(side, f"hermite {atom.key}{' slope' if slope else ''}", make)

    def planar(self, side: int, atom: Atom, *, slope: int | None = None) -> Steps:
        """Coefficients of a function of up to two variables, or of one of its derivatives, per row."""
        if len(atom.gaussians) > 2:
            raise TooManyVariablesError

        def make(limit: Limit) -> Steps:
            covariances, means = [], []
            for i, g in enumerate(atom.gaussians):
                row = []
                for other in atom.gaussians[: i + 1]:
                    limit._ask(other, g)
                    row.append((yield limit.row_covariance(0, g, other)))
                covariances.append(row)
                means.append((yield limit.mean(0, g)))
            covariances[0][0] = limit._or_zeros(covariances[0][0])
            fixed = (atom.expression, slope, limit.options.times * limit.options.degree)
            return limit.recorder.call(of_two.coefficients, fixed, means, covariances, (yield limit._parameters(atom)))

        return self._row(side, f"planar {atom.key}{'' if slope is None else f' slope {slope}'}", make)


def one_function(atom1: Atom, atom2: Atom, derivative: int = 0) -> tuple[float | None, bool]:
    """How fast squares of coefficients fall where a function is not smooth, and whether there is only one."""
    is_one = atom1.expression == atom2.expression
    return (of_one.breaks_of(atom1.expression, len(atom1.scalars)).decay(derivative) if is_one else None), is_one


def _count_uses(graph: Graph) -> list[int]:
    uses = [0] * len(graph.lines)
    for index in graph.needed():
        for used in graph.lines[index].statement.uses:
            uses[used] += 1
    return uses
