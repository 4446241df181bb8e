"""Sums of functions of few features in NumPy."""

from typing import Any

import numpy as np

from widetail.kernels.engine._by_hand import ByHand


class AnovaByHand(ByHand):
    """`Anova` of order 1, 2 or any.

    Args:
        length_scale, part_var, order, interaction_var, places: of the kernel.
    """

    def __init__(
        self,
        length_scale: Any,
        part_var: Any,
        order: int | None,
        interaction_var: Any,
        places: tuple[int, ...] | None = None,
    ):
        self.length_scale = np.asarray(length_scale, np.float64)
        self.part_var = np.asarray(part_var, np.float64)
        self.order = order
        self.price = float(interaction_var)
        self.places = places
        groups = [] if places is None else range(max(places) + 1)
        self.members = [np.flatnonzero(np.asarray(places) == group) for group in groups]

    def numbers_per_pair(self, features: int) -> int:
        """One for each group."""
        return len(self.members) or features

    def side(self, x: np.ndarray) -> np.ndarray:
        """The features, and gaps if there are any, in units of their length times the root of two; one a row."""
        lengths = self.length_scale
        if self.places is not None and lengths.ndim:
            lengths = lengths[[*self.places, *range(max(self.places) + 1)]]
        return np.ascontiguousarray((x / lengths).T) * np.sqrt(0.5)

    def diagonal(self, side: np.ndarray) -> np.ndarray:
        """What the kernel is where no feature differs."""
        parts = self._parts(side)
        return np.full(side.shape[1], self._combine(parts, parts)[0, 0])

    def values(self, side1: np.ndarray, side2: np.ndarray) -> np.ndarray:
        """One Gaussian kernel per feature, combined."""
        terms, _ = self._terms(side1, side2)
        return self._combine(terms, self._parts(side1))

    def gradient(self, side1: np.ndarray, side2: np.ndarray, weights: np.ndarray) -> list[Any]:
        """Derivatives in lengths, variances of the parts, and the price of acting together."""
        terms, exponents = self._terms(side1, side2)
        parts, by_price = self._parts(side1), 0.0
        at_rest: Any = 0.0  # what the denominators contribute
        if self.order is None:
            weights = weights * self._combine(terms, parts)
            at_rest = np.sum(weights) / (1 + parts[:, 0, 0])
            slopes = terms / (1 + terms)
        elif self.order == 1:
            slopes = terms
        else:
            single = np.sum(terms, axis=0)
            by_price = 0.5 * float(np.vdot(weights, single**2 - np.einsum("dij,dij->ij", terms, terms)))
            slopes = terms * (1 + self.price * (single - terms))
        flat = weights.ravel()
        by_part = slopes.reshape(len(slopes), -1) @ flat / parts[:, 0, 0] - at_rest
        slopes *= exponents
        by_length = -2 * (slopes.reshape(len(slopes), -1) @ flat) / self.length_scale
        return [
            total if value.ndim else np.sum(total)
            for total, value in ((by_length, self.length_scale), (by_part, self.part_var))
        ] + [by_price]

    def _parts(self, side: np.ndarray) -> np.ndarray:
        groups = len(side) if self.places is None else max(self.places) + 1
        return np.broadcast_to(self.part_var, groups)[:, None, None]

    def _terms(self, side1: np.ndarray, side2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Terms and exponents of every feature, shape (d, n1, n2)."""
        if self.places is None:
            exponents = side1[:, :, None] - side2[:, None]
            np.multiply(exponents, exponents, out=exponents)
        else:
            exponents = self._group_squares(side1, side2)
            if side1 is side2:  # a row's gaps are not away from themselves
                exponents[:, range(side1.shape[1]), range(side1.shape[1])] = 0.0
        np.negative(exponents, out=exponents)
        terms = np.exp(exponents)
        terms *= self._parts(side1)
        return terms, exponents

    def _group_squares(self, side1: np.ndarray, side2: np.ndarray) -> np.ndarray:
        """Squared distances of every group, shape (groups, n1, n2); of many features at once by a matrix product."""
        known = len(side1) - len(self.members)
        squares = np.empty((len(self.members), side1.shape[1], side2.shape[1]))
        gaps1, gaps2 = side1[known:] ** 2, side2[known:] ** 2
        has_gaps = np.any(gaps1, axis=1) | np.any(gaps2, axis=1)
        for group, (features, out) in enumerate(zip(self.members, squares, strict=True)):
            first, second, own1, own2 = side1[features], side2[features], gaps1[group], gaps2[group]
            if len(features) == 1:
                np.subtract(first[0][:, None], second[0], out=out)
                np.multiply(out, out, out=out)
            else:  # levels of a category, or points on a circle: they lie at the origin
                np.matmul(-2 * first.T, second, out=out)
                own1, own2 = own1 + np.sum(first**2, axis=0), own2 + np.sum(second**2, axis=0)
            if has_gaps[group] or len(features) > 1:
                out += own1[:, None]
                out += own2
                np.maximum(out, 0.0, out=out)
        return squares

    def _combine(self, terms: np.ndarray, parts: np.ndarray) -> np.ndarray:
        if self.order is None:
            values = np.ones(terms.shape[1:])
            for term, part in zip(terms, parts, strict=True):
                values *= (1 + term) / (1 + part)
            return values
        single = np.sum(terms, axis=0)
        if self.order == 1:
            return 1 + single
        return 1 + single + self.price * 0.5 * (single**2 - np.einsum("dij,dij->ij", terms, terms))


def group_distances(x1: Any, x2: Any, places: tuple[int, ...]) -> list[Any]:
    """Squared distances (n1, n2) of every group, from the columns of rows that have features and then gaps."""
    known = len(places)
    squares: list[Any] = [0.0] * (max(places) + 1)
    for feature, group in enumerate(places):
        squares[group] = squares[group] + (x1[feature][:, None] - x2[feature]) ** 2
    return [total + (x1[known + g] ** 2)[:, None] + x2[known + g] ** 2 for g, total in enumerate(squares)]
