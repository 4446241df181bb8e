"""Kernels of encoded tables: a relevance for every group of features, and gaps that no other row shares."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from widetail.checks import check_places
from widetail.files import savable
from widetail.kernels import Anova, ByHand, CrossFn, Get, Kernel, KernelValues, Rows, RowsFn
from widetail.nn import Layer


def for_table(net: Kernel, places: tuple[int, ...]) -> Kernel:
    """The network or kernel on encoded rows.

    Args:
        net: of as many features as there are groups; its vectors have an entry for each of them.
        places: the group of every feature (`TableEncoder.places_`).

    Example:
        >>> import numpy as np, widetail as wt
        >>> from widetail import tables
        >>> encoder = wt.TableEncoder().fit(np.array([[0.0], [1.0], [np.nan]]))
        >>> kernel = tables.for_table(wt.kernels.RBF(), encoder.places_)
        >>> kernel.kernel(encoder.transform([[0.0], [np.nan]])).nngp.round(3)  # what is not known is its own
        array([[1.   , 0.368],
               [0.368, 1.   ]])
    """
    return dataclasses.replace(net, places=places) if isinstance(net, Anova) else Grouped(net, places)


@savable("tables.Grouped")
class Grouped(Kernel):
    """A network or kernel of groups of features, with gaps.

    Rows hold features and then a gap per group. In a pair of rows the gaps of the one stand in other coordinates than
    those of the other: they add to the squared length of a row and to its distance from every other one, and to no
    product. All features of a group, and its gap, have the parameter of the group. A network, which takes the mean over
    its inputs, takes it over groups.

    Args:
        net: what a row's groups go into.
        places: the group of every feature.
    """

    net: Kernel
    places: tuple[int, ...] = eqx.field(static=True)

    def __check_init__(self):
        check_places(self.places)

    @property
    def has_ntk(self) -> bool:  # type: ignore[override]
        """As the network."""
        return self.net.has_ntk

    @property
    def groups(self) -> int:
        """How many there are."""
        return max(self.places) + 1

    @property
    def _everywhere(self) -> np.ndarray:
        """The group of every coordinate of a pair: features, gaps of the first row, gaps of the second."""
        return np.array([*self.places, *range(self.groups), *range(self.groups)])

    def _inner(self) -> tuple[Kernel, float]:
        """The network of all coordinates of a pair, and what they are multiplied by."""
        everywhere = self._everywhere

        def spread(leaf: Any) -> Any:
            return leaf[everywhere] if jnp.ndim(leaf) == 1 else leaf

        is_mean = isinstance(self.net, Layer)
        return jax.tree.map(spread, self.net), float(np.sqrt(len(everywhere) / self.groups)) if is_mean else 1.0

    def rows_fn(self, get: Get) -> RowsFn:
        """Every row as the first of a pair, and as the second."""
        net, factor = self._inner()
        prepare, known = net.rows_fn(get), len(self.places)

        def rows(x: Any) -> Rows:
            first, second = (prepare(side) for side in _both(factor * x, known))
            return Rows(x, (first, second), first.diagonal)

        return rows

    def cross_fn(self, get: Get) -> CrossFn:
        """The network on pairs."""
        cross = self._inner()[0].cross_fn(get)

        def pairs(rows1: Rows, rows2: Rows) -> KernelValues:
            return cross(rows1.statistics[0], rows2.statistics[1])

        return pairs

    def for_inputs(self, x1: Any, x2: Any = None, get: Get = "nngp", *, tell: bool = True) -> Kernel:
        """The network as accurate as it needs to be."""
        net, factor = self._inner()
        first, second = (None if x is None else _both(factor * x, len(self.places))[0] for x in (x1, x2))
        found = net.for_inputs(first, second, get, tell=tell)
        leaves, structure = jax.tree.leaves(self.net), jax.tree.structure(found)
        return dataclasses.replace(self, net=jax.tree.unflatten(structure, leaves))

    def check_shape(self, name: str, input_shape: tuple[int, ...]) -> None:
        """Features and gaps."""
        expected = len(self.places) + self.groups
        if input_shape != (expected,):
            raise ValueError(
                f"{name} must hold rows of TableEncoder.transform, shape (n, {expected}); got {input_shape}."
            )
        self._inner()[0].check_shape(name, (expected + self.groups,))

    def numbers_per_pair(self, input_shape: tuple[int, ...]) -> int:
        """As the network."""
        return self.net.numbers_per_pair((len(self.places) + 2 * self.groups,))

    def by_hand(self) -> ByHand | None:
        """In NumPy, where the network is."""
        net, factor = self._inner()
        inner = net.by_hand()
        return None if inner is None else GroupedByHand(inner, factor, len(self.places), self._everywhere)


class _Side(NamedTuple):
    """Rows as the first of a pair and as the second, for the network; one and the same where nothing is missing."""

    first: Any
    second: Any


class GroupedByHand(ByHand):
    """`Grouped` in NumPy.

    Args:
        net: the network of all coordinates of a pair.
        factor: what rows are multiplied by.
        known: how many features there are, which gaps come after.
        everywhere: the group of every coordinate.
    """

    def __init__(self, net: ByHand, factor: float, known: int, everywhere: np.ndarray):
        self.net, self.factor, self.known, self.everywhere = net, factor, known, everywhere
        self.most_pairs = net.most_pairs

    def numbers_per_pair(self, features: int) -> int:
        """As the network of the groups, whose products over features are of matrices."""
        return self.net.numbers_per_pair(int(np.max(self.everywhere)) + 1)

    def side(self, x: np.ndarray) -> _Side:
        """Those of the network."""
        first, second = _both(self.factor * x, self.known, np)
        side = self.net.side(first)
        return _Side(side, self.net.side(second) if np.any(x[:, self.known :]) else side)

    def diagonal(self, side: _Side) -> np.ndarray:
        """Of a row with itself, whose gaps are the same."""
        return self.net.diagonal(side.first)

    def values(self, side1: _Side, side2: _Side) -> np.ndarray:
        """The network on pairs."""
        return self.net.values(side1.first, side2.second)

    def gradient(self, side1: _Side, side2: _Side, weights: np.ndarray) -> list[Any]:
        """Derivatives in the parameters of the groups."""
        if side1 is side2 and side1.first is not side1.second:
            own = np.diag(np.diagonal(weights))  # of a row with itself
            parts = [(side1.second, weights - own), (side1.first, own)]
        else:
            parts = [(side2.second, weights)]
        found = [self.net.gradient(side1.first, second, part) for second, part in parts]
        return [self._by_group(sum(leaves)) for leaves in zip(*found, strict=True)]

    def _by_group(self, leaf: Any) -> Any:
        return np.bincount(self.everywhere, weights=leaf) if np.ndim(leaf) else leaf


def _both(x: Any, known: int, arrays: Any = jnp) -> tuple[Any, Any]:
    """Rows as the first of a pair and as the second: their gaps are in coordinates of their own."""
    features, gaps = x[:, :known], x[:, known:]
    none = arrays.zeros_like(gaps)
    return arrays.concatenate([features, gaps, none], axis=1), arrays.concatenate([features, none, gaps], axis=1)
