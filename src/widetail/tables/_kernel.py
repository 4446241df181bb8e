"""Kernels of encoded tables: a relevance for every group of features, and gaps that no other row shares."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from widetail.files import savable
from widetail.kernels import Anova, CrossFn, Get, Kernel, KernelValues, Rows, RowsFn
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

    @property
    def has_ntk(self) -> bool:  # type: ignore[override]
        """As the network."""
        return self.net.has_ntk

    @property
    def groups(self) -> int:
        """How many there are."""
        return max(self.places) + 1

    def _inner(self) -> tuple[Kernel, float]:
        """The network of all coordinates of a pair, and what they are multiplied by."""
        everywhere = np.array([*self.places, *range(self.groups), *range(self.groups)])

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


def _both(x: Any, known: int) -> tuple[Any, Any]:
    """Rows as the first of a pair and as the second: their gaps are in coordinates of their own."""
    features, gaps = x[:, :known], x[:, known:]
    none = jnp.zeros_like(gaps)
    return jnp.concatenate([features, gaps, none], axis=1), jnp.concatenate([features, none, gaps], axis=1)
