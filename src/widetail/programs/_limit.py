"""The infinite-width limit of a program: means and covariances of its variables, by induction.

Two products with one matrix have the covariance var E[h h'], products with different matrices none, linear
combinations are bilinear (appendix A of the paper; Yang, 2019). Only what the readout needs is computed, once.
"""

from collections.abc import Callable, Generator
from typing import Any

import jax.numpy as jnp
import numpy as np

from widetail.programs import _integrals as integrals
from widetail.programs import _planar as planar
from widetail.programs._evaluation import Options, Side
from widetail.programs._expressions import Atom, Decomposition, Part, evaluate, independent_groups, product
from widetail.programs._functions import apply_function, piecewise_linear
from widetail.programs._integrals import Sum, multiply, scaled
from widetail.programs._statements import (
    Average,
    BiasVector,
    Constant,
    InputProduct,
    LinComb,
    MatMul,
    Presence,
    ScalarFunction,
)

Steps = Generator[Any, Any, Any]

# Longer sums are computed in pieces: every number of terms is compiled once.
MOST_TERMS = 12
ONE: Sum = (((), (), (), None),)


class TooManyVariablesError(Exception):
    """A function of more than two dependent Gaussian variables, whose expectations have to be simulated."""


class Limit:
    """Covariances between variables on two sides, or (`same`) of each row with itself."""

    def __init__(
        self,
        programs: tuple[Decomposition, Decomposition],
        variances: dict[str, Any],
        sides: tuple[Side, Side],
        options: Options,
        *,
        same: bool,
    ):
        self.programs = programs
        self.graphs = (programs[0].graph, programs[1].graph)
        self.sides = sides
        self.options = options
        self.same = same
        self.dtype = sides[0].x.dtype
        self.shape = (len(sides[0].x),) if same else (len(sides[0].x), len(sides[1].x))
        self.variances = {name: _cast(value, self.dtype) for name, value in variances.items()}
        self.asked: set[tuple[int, int]] = set()  # pairs of arguments of functions
        self.covariances: dict[tuple[int, int], Sum | None] = {}
        self.moments: dict[tuple[int, int], Sum | None] = {}
        self.products: dict[tuple[str, str], Sum | None] = {}
        self.grams: dict[tuple[Any, ...], Any] = {}
        self.uses = tuple(_count_uses(graph) for graph in self.graphs)

    def readout(self) -> Any:
        """The kernel: E[h h'] of the programs' outputs, an array."""
        found = self.run(self.moment(self.graphs[0].output, self.graphs[1].output))
        return self.array(found)

    @staticmethod
    def run(steps: Steps) -> Any:
        """Carry out steps that ask for other steps: recursion without Python's limit on its depth."""
        stack, value = [steps], None
        while stack:
            try:
                stack.append(stack[-1].send(value))
                value = None
            except StopIteration as end:
                stack.pop()
                value = end.value
        return value

    def array(self, terms: Sum | None) -> Any:
        """A sum as an array, one entry per pair."""
        return integrals.total(not self.same, self.shape, str(self.dtype), terms or ())

    # Pairs of G-variables.

    def covariance(self, a: int, b: int) -> Steps:
        """Cov(a, b'), a sum."""
        return (yield self._bilinear(a, b, self.covariances, self.covariance, self._covariance_of_roots))

    def _covariance_of_roots(self, a: int, b: int) -> Steps:
        one, other = self.graphs[0].lines[a].statement, self.graphs[1].lines[b].statement
        if isinstance(one, MatMul) and isinstance(other, MatMul):
            part = yield self.moment(one.vector, other.vector)
            return tuple(scaled(part, 1.0, numbers=(self.variances[one.matrix],))) if part else None
        if isinstance(one, InputProduct) and isinstance(other, InputProduct):
            return self._inputs(one, other)
        return (((self.variances[one.bias],), (), (), None),) if isinstance(one, BiasVector) else None

    def _bilinear(
        self,
        a: int,
        b: int,
        known: dict[tuple[int, int], Sum | None],
        ask: Callable[[int, int], Steps],
        of_roots: Callable[[int, int], Steps],
    ) -> Steps:
        """Something bilinear in two G-variables, that vanishes for independent ones, a sum.

        Args:
            a, b: the variables.
            known: what was found before.
            ask: the same of other variables.
            of_roots: the same of products with matrices and of biases.
        """
        if self.same and a > b:
            a, b = b, a
        if (a, b) not in known:
            first, second = self.graphs[0].lines[a], self.graphs[1].lines[b]
            found: Sum | None = None
            if not first.roots & second.roots:
                pass
            elif isinstance(first.statement, LinComb):
                shared = self.uses[0][a] > 1
                found = yield self._combination(0, first.statement, lambda term: ask(term, b), shared=shared)
            elif isinstance(second.statement, LinComb):
                shared = self.uses[1][b] > 1
                found = yield self._combination(1, second.statement, lambda term: ask(a, term), shared=shared)
            else:
                found = yield of_roots(a, b)
            known[a, b] = found
        return known[a, b]

    def _combination(self, side: int, statement: LinComb, ask: Callable[[int], Steps], *, shared: bool) -> Steps:
        """The linear combination of what is asked for each of its variables, a sum."""
        terms: list[Any] = []
        for term in statement.terms:
            part = yield ask(term.variable)
            rows = yield self._factors(side, () if term.scalar is None else (term.scalar,))
            if part and rows is not None:
                terms += scaled(part, term.number, **{("rows1", "rows2")[side]: rows})
        return self._collapse(terms, shared=shared)

    def _inputs(self, one: InputProduct, other: InputProduct) -> Sum:
        var = self.variances[one.matrix]
        is_vector = np.ndim(var) == 1
        key = (one.position, other.position, one.matrix if is_vector else None)
        if key not in self.grams:
            x1, x2 = self.sides[0].x, self.sides[1].x
            weights = var if is_vector else None
            self.grams[key] = integrals.gram(not self.same, x1, x2, one.position, other.position, weights)
        return ((() if is_vector else (var,), (), (), self.grams[key]),)

    # Pairs of vectors of any kind.

    def moment(self, a: int, b: int) -> Steps:
        """E[a b'], a sum."""
        if self.same and a > b:
            a, b = b, a
        key = (a, b)
        if key in self.moments:
            return self.moments[key]
        self.moments[key] = yield self._over_parts(a, b, self._product)
        return self.moments[key]

    def _over_parts(self, a: int, b: int, ask: Callable[[Part, Part], Steps]) -> Steps:
        """What is asked for each pair of summands of two vectors, added up."""
        terms: list[Any] = []
        for part1 in self.programs[0].parts(a):
            for part2 in self.programs[1].parts(b):
                rows1, rows2 = (yield self._factors(0, part1.scalars)), (yield self._factors(1, part2.scalars))
                if rows1 is None or rows2 is None:
                    continue
                found = yield ask(part1, part2)
                if found:
                    terms += scaled(found, part1.number * part2.number, rows1=rows1, rows2=rows2)
        return self._collapse(terms, shared=self.uses[0][a] > 1 or self.uses[1][b] > 1)

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
        return tuple(multiply(first, second))

    def _group(self, atoms1: tuple[Atom, ...], atoms2: tuple[Atom, ...]) -> Steps:
        """The expectation of the product of functions, a sum; None for zero."""
        if not atoms2:
            mean = yield self._mean_of(0, atoms1)
            return None if mean is None else (((), (mean,), (), None),)
        if not atoms1:
            mean = yield self._mean_of(1, atoms2)
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
            mean1, slope1 = yield self.mean_and_slope(0, atom1)
            mean2, slope2 = yield self.mean_and_slope(1, atom2)
            terms: list[Any] = []
            if mean1 is not None and mean2 is not None:
                terms.append(((), (mean1,), (mean2,), None))
            if k:
                rows1, rows2 = (() if slope is None else (slope,) for slope in (slope1, slope2))
                terms += scaled(k, 1.0, rows1=rows1, rows2=rows2)
            return tuple(terms) or None
        activation1, activation2 = atom1.activation, atom2.activation
        centred = (yield self.mean(0, atom1.gaussians[0])) is None and (yield self.mean(1, atom2.gaussians[0])) is None
        cross = not self.same
        if centred and activation1 is not None and activation1 == activation2:
            first, second = (yield self.statistics(0, atom1)), (yield self.statistics(1, atom2))
            if self.same and atom1.key == atom2.key:
                block = integrals.dual_at_equal(activation1, False, (yield self.variance(0, atom1.gaussians[0])))
            else:
                block = integrals.dual(activation1, cross, k, first, second)
            return (((), (), (), block),)
        forms = piecewise_linear(activation1), piecewise_linear(activation2)
        if centred and forms[0] and forms[1]:
            first, second = (yield self.statistics(0, atom1)), (yield self.statistics(1, atom2))
            return (((), (), (), integrals.piecewise_dual(*forms, cross, k, first, second)),)
        first, second = (yield self.hermite(0, atom1)), (yield self.hermite(1, atom2))
        if self.same and atom1.key == atom2.key:
            return (((), (), (), integrals.second_moment(first)),)
        block = integrals.mehler(atom1.expression == atom2.expression, cross, k, first, second)
        return (((), (), (), block),)

    def _several(self, atom1: Atom, atom2: Atom) -> Steps:
        """E[phi(z1, z2) psi(z1', z2')] of up to two variables each."""
        first, second = (yield self.planar(0, atom1)), (yield self.planar(1, atom2))
        if self.same and atom1.key == atom2.key:
            return (((), (), (), planar.second_moment(first)),)
        covariances = yield self._between(atom1, atom2)
        block = planar.product(atom1.expression == atom2.expression, not self.same, covariances, first, second)
        return (((), (), (), block),)

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

    def _expand(self, side: int, value: Any) -> Any:
        return value if self.same else value[:, None] if side == 0 else value[None, :]

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

    # One side by itself. In the other mode these are looked up: each row with itself is done first.

    def _row(self, side: int, key: str, make: Callable[[], Steps], ask: Callable[["Limit"], Steps]) -> Steps:
        known = self.sides[side].known
        if key not in known:
            if self.same:
                known[key] = yield make()
            else:  # two inputs may ask for what neither needs for itself: means, where they turn out independent
                alone = self._alone(side)
                known[key] = alone.run(ask(alone))
        return known[key]

    def _alone(self, side: int) -> "Limit":
        """The limit of one side, each row with itself."""
        one = self.sides[side]
        programs = (self.programs[side], self.programs[side])
        return Limit(programs, self.variances, (one, one), self.options, same=True)

    def variance(self, side: int, g: int) -> Steps:
        """Var(g) per row."""

        def make() -> Steps:
            return self.array((yield self.covariance(g, g)))

        return (yield self._row(side, f"variance {g}", make, lambda limit: limit.variance(0, g)))

    def row_covariance(self, side: int, a: int, b: int) -> Steps:
        """Cov(a, b) per row; None where it is zero for all programs of this shape."""
        a, b = sorted((a, b))

        def make() -> Steps:
            found = yield self.covariance(a, b)
            return None if found is None else self.array(found)

        return (yield self._row(side, f"covariance {a} {b}", make, lambda limit: limit.row_covariance(0, a, b)))

    def mean(self, side: int, g: int) -> Steps:
        """E[g] per row, or None for zero."""

        def make() -> Steps:
            statement = self.graphs[side].lines[g].statement
            if isinstance(statement, Constant):
                return jnp.full(self.shape, statement.value, self.dtype) if statement.value else None
            if not isinstance(statement, LinComb):
                return None
            terms = []
            for term in statement.terms:
                part = yield self.mean(side, term.variable)
                rows = yield self._factors(side, () if term.scalar is None else (term.scalar,))
                if part is not None and rows is not None:
                    terms.append(((_number(term.number, self.dtype),), (part, *rows), (), None))
            return self.array(tuple(terms)) if terms else None

        return (yield self._row(side, f"mean {g}", make, lambda limit: limit.mean(0, g)))

    def _factors(self, side: int, indices: tuple[int, ...]) -> Steps:
        """The values of scalars; None when one of them is zero, so that what they multiply vanishes."""
        found = []
        for index in indices:
            found.append((yield self.scalar(side, index)))
        return None if any(value is None for value in found) else tuple(found)

    def _parameters(self, side: int, atom: Atom) -> Steps:
        """The values of the scalars that an atom has as parameters."""
        found = []
        for index in atom.scalars:
            found.append((yield self.scalar(side, index)))
        return tuple(self._or_zeros(value) for value in found)

    def _or_zeros(self, value: Any) -> Any:
        return jnp.zeros(self.shape[:1], self.dtype) if value is None else value

    def scalar(self, side: int, index: int) -> Steps:
        """The value of a scalar per row; None where it is zero whatever the inputs are."""

        def make() -> Steps:
            statement = self.graphs[side].lines[index].statement
            if isinstance(statement, Presence):
                return self.sides[side].present[:, statement.position]
            if isinstance(statement, ScalarFunction):
                arguments = []
                for argument in statement.arguments:
                    arguments.append(self._or_zeros((yield self.scalar(side, argument))))
                return apply_function(statement.fn, tuple(arguments))
            assert isinstance(statement, Average)
            found = yield self._average(side, statement.vector)
            return None if found is None else self.array(found)

        return (yield self._row(side, f"scalar {index}", make, lambda limit: limit.scalar(0, index)))

    def _average(self, side: int, vector: int) -> Steps:
        """E[h] per row, a sum."""
        factors = self.programs[side].factors(vector)
        if factors is not None:
            return (yield self.moment(*factors))
        terms: list[Any] = []
        for part in self.programs[side].parts(vector):
            rows = yield self._factors(side, part.scalars)
            found = yield self._product(part, Part(1.0, (), ()))
            if rows is not None and found:
                terms += scaled(found, part.number, rows1=rows)
        return tuple(terms) or None

    def _mean_of(self, side: int, atoms: tuple[Atom, ...]) -> Steps:
        """The mean of a product of dependent functions per row; None for zero."""
        if len(atoms) != 2:
            return (yield self.mean_and_slope(side, product(atoms)))[0]

        def make() -> Steps:  # as E[phi psi], which has more closed forms than E[(phi psi)]
            found = yield self._group(atoms[:1], atoms[1:])
            return None if found is None else self.array(found)

        key = f"mean of {atoms[0].key} {atoms[1].key}"
        return (yield self._row(side, key, make, lambda limit: limit._mean_of(0, atoms)))

    def mean_and_slope(self, side: int, atom: Atom) -> Steps:
        """E[phi] and E[phi'] per row; the mean is None for zero, the slope for one."""
        if atom.is_gaussian:
            return (yield self.mean(side, atom.gaussians[0])), None

        def make() -> Steps:
            if len(atom.gaussians) > 1:
                return (yield self.planar(side, atom))["value"][0, 0], None
            if not atom.gaussians:
                like = jnp.zeros(self.shape, self.dtype)
                return evaluate(atom.expression, (), (yield self._parameters(side, atom)), like), None
            g = atom.gaussians[0]
            form = piecewise_linear(atom.activation)
            if form and (yield self.mean(side, g)) is None:
                norm, _ = yield self.statistics(side, atom)
                flat = jnp.full(self.shape, form[1], self.dtype)
                return (form[0] * np.sqrt(2 / np.pi)).astype(self.dtype) * norm, flat
            return integrals.mean_and_slope((yield self.hermite(side, atom)))

        ask: Callable[[Limit], Steps] = lambda limit: limit.mean_and_slope(0, atom)  # noqa: E731
        return (yield self._row(side, f"mean and slope {atom.key}", make, ask))

    def statistics(self, side: int, atom: Atom) -> Steps:
        """What the closed form of an activation wants to know of each row."""

        def make() -> Steps:
            return integrals.dual_statistics(atom.activation, (yield self.variance(side, atom.gaussians[0])))

        return (yield self._row(side, f"statistics {atom.key}", make, lambda limit: limit.statistics(0, atom)))

    def hermite(self, side: int, atom: Atom, *, slope: bool = False) -> Steps:
        """Hermite coefficients of a function of one variable, or of its derivative, per row."""

        def make() -> Steps:
            g = atom.gaussians[0]
            variance, mean = (yield self.variance(side, g)), (yield self.mean(side, g))
            scalars = yield self._parameters(side, atom)
            order = max(self.options.order, atom.least_order)
            return integrals.hermite(atom.expression, slope, order, mean, variance, scalars)

        ask: Callable[[Limit], Steps] = lambda limit: limit.hermite(0, atom, slope=slope)  # noqa: E731
        return (yield self._row(side, f"hermite {atom.key}{' slope' if slope else ''}", make, ask))

    def planar(self, side: int, atom: Atom, *, slope: int | None = None) -> Steps:
        """Coefficients of a function of up to two variables, or of one of its derivatives, per row."""
        if len(atom.gaussians) > 2:
            raise TooManyVariablesError

        def make() -> Steps:
            covariances, means = [], []
            for i, g in enumerate(atom.gaussians):
                row = []
                for other in atom.gaussians[: i + 1]:
                    self._ask(other, g)
                    row.append((yield self.row_covariance(side, g, other)))
                covariances.append(row)
                means.append((yield self.mean(side, g)))
            covariances[0][0] = self._or_zeros(covariances[0][0])
            scalars = yield self._parameters(side, atom)
            return planar.coefficients(atom.expression, slope, self.options.degree, means, covariances, scalars)

        ask: Callable[[Limit], Steps] = lambda limit: limit.planar(0, atom, slope=slope)  # noqa: E731
        return (yield self._row(side, f"planar {atom.key}{'' if slope is None else f' slope {slope}'}", make, ask))


def _number(value: float, dtype: Any) -> Any:
    return np.asarray(value, dtype)


def _cast(value: Any, dtype: Any) -> Any:
    """A variance in the precision of the inputs; traced ones stay traced."""
    return jnp.asarray(value, dtype) if isinstance(value, jnp.ndarray) else np.asarray(value, dtype)


def _count_uses(graph: Any) -> list[int]:
    uses = [0] * len(graph.lines)
    for index in graph.needed():
        for used in graph.used_by(graph.lines[index].statement):
            uses[used] += 1
    return uses
