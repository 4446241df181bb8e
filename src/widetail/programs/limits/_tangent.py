"""The tangent kernel of a program, by the same induction as its covariances.

With all parameters trained by gradient descent in the NTK parametrisation, the tangent of a pair of vectors is the
limit of the inner products of their gradients, per entry. A product with a matrix has the tangent var (E[h h'] +
tangent of h), which counts the matrix itself and what is below; for a function, tangents of its arguments are weighted
by E[d_i phi d_j phi']. This holds with shared matrices too (Yang, 2020, Tensor Programs II), because the readout is
independent of the body. Averages over the width contribute nothing: their gradients vanish with the width.
"""

from typing import Any

from widetail.programs.language._functions import piecewise_linear
from widetail.programs.limits import _one_variable as of_one
from widetail.programs.limits import _two_variables as of_two
from widetail.programs.limits._expressions import Atom, Part, independent_groups, product
from widetail.programs.limits._induction import Steps, Variable
from widetail.programs.limits._limit import Limit, one_function
from widetail.programs.limits._one_variable import Sum, scaled


class TangentLimit(Limit):
    """A limit that has the tangents of vectors as well."""

    def moment_tangent(self, a: Variable, b: Variable) -> Steps:
        """The tangent of two vectors of any kind, a sum."""
        a, b = min(a, b), max(a, b)
        key = ("moment tangent", a, b)
        if key not in self.found:
            self.found[key] = yield self._over_parts(a, b, self._product_tangent)
        return self.found[key]

    def _product_tangent(self, part1: Part, part2: Part) -> Steps:
        """The product rule over independent groups: the tangent of one times the moments of the others."""
        groups = independent_groups(self.graphs, part1.atoms, part2.atoms)
        terms: list[Any] = []
        for group in groups:
            found = (yield self._group_tangent(*group)) if all(group) else None
            for other in groups:
                if found and other is not group:
                    moment = yield self._group(*other)
                    found = None if moment is None else self._times(found, moment)
            terms += found or ()
        return tuple(terms) or None

    def _group_tangent(self, atoms1: tuple[Atom, ...], atoms2: tuple[Atom, ...]) -> Steps:
        """The sum over arguments of their tangents times E[d_i phi d_j psi] (Price's theorem)."""
        atom1, atom2 = product(atoms1), product(atoms2)
        is_pair = len(atom1.gaussians) == len(atom2.gaussians) == 1
        covariances = None if is_pair else (yield self._between(atom1, atom2))
        terms: list[Any] = []
        for i, g in enumerate(atom1.gaussians):
            for j, other in enumerate(atom2.gaussians):
                tangent = yield self.bilinear("tangent", (0, g), (self.second, other))
                if tangent is None:
                    continue
                if is_pair:
                    return (yield self._pair_tangent(atom1, atom2, tangent))
                first, second = (yield self.planar(0, atom1, slope=i)), (yield self.planar(1, atom2, slope=j))
                if self.same and (atom1.key, i) == (atom2.key, j):
                    slopes = self.recorder.call(of_two.second_moment, (), first)
                else:
                    is_same = atom1.expression == atom2.expression and i == j
                    slopes = self.recorder.call(of_two.product, (is_same, not self.same), covariances, first, second)
                terms += self._block(of_one.times, (), slopes, self.array(tangent))
        return tuple(terms) or None

    def _pair_tangent(self, atom1: Atom, atom2: Atom, tangent: Sum) -> Steps:
        if atom1.is_gaussian or atom2.is_gaussian:
            rows1, rows2 = (yield self.slope_of(0, atom1)), (yield self.slope_of(1, atom2))
            return tuple(scaled(tangent, 1.0, rows1=rows1, rows2=rows2))
        slopes = yield self._slopes_product(atom1, atom2)
        return self._block(of_one.times, (), slopes, self.array(tangent))

    def _slopes_product(self, atom1: Atom, atom2: Atom) -> Steps:
        """E[phi'(z) psi'(z')] of one variable each, an array."""
        cross, call = not self.same, self.recorder.call
        k = (yield self.covariance(atom1.gaussians[0], atom2.gaussians[0])) or ()
        activation1, activation2 = atom1.activation, atom2.activation
        centred = (yield self.mean(0, atom1.gaussians[0])) is None and (yield self.mean(1, atom2.gaussians[0])) is None
        if centred and activation1 is not None and activation1 == activation2:
            if self.same and atom1.key == atom2.key:
                return call(of_one.dual_at_equal, (activation1, True), (yield self.variance(0, atom1.gaussians[0])))
            first, second = (yield self.statistics(0, atom1)), (yield self.statistics(1, atom2))
            return call(of_one.dual_slope, (activation1, cross), k, first, second)
        forms = piecewise_linear(activation1), piecewise_linear(activation2)
        if centred and forms[0] and forms[1]:
            first, second = (yield self.statistics(0, atom1)), (yield self.statistics(1, atom2))
            return call(of_one.piecewise_slope, (*forms, cross), k, first, second)
        first, second = (yield self.hermite(0, atom1, slope=True)), (yield self.hermite(1, atom2, slope=True))
        if self.same and atom1.key == atom2.key:
            return call(of_one.second_moment, (), first)
        return call(of_one.mehler, (*one_function(atom1, atom2, 1), cross), k, first, second)
