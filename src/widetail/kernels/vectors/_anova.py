"""A sum over features, pairs of features, and so on: functions that are mostly sums of functions of few inputs."""

import functools
import itertools
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from widetail.checks import as_parameter, check_count, check_number, check_places, check_variance
from widetail.files import savable
from widetail.kernels._values import CrossFn, Get, KernelValues, Rows, RowsFn
from widetail.kernels.engine._by_hand import ByHand
from widetail.kernels.vectors._anova_by_hand import AnovaByHand, group_distances
from widetail.kernels.vectors._vectors import VectorKernel


@savable("kernels.Anova")
class Anova(VectorKernel):
    r"""Functions of single features, of pairs of features, and so on, added up.

    With a Gaussian kernel $k_i$ per feature, $k_i(x, x') = \exp(-\tfrac12 (x_i - x'_i)^2 / \ell_i^2)$, and $a_i$ the
    variance of the part of feature $i$,

    $$k(x, x') = \prod_i \frac{1 + a_i k_i(x, x')}{1 + a_i} \quad\text{or, up to an order,}\quad
      1 + \sum_i a_i k_i + v \sum_{i<j} a_i a_j k_i k_j + v^2 \dots$$

    Small $a_i$ make a function that is nearly a sum of functions of one feature each, large ones the Gaussian kernel of
    all features at once. Ten features and a hundred rows are enough for the former, and far too few for the latter.

    Args:
        length_scale: $\ell$, a length per feature, or one for all.
        part_var: $a$, a variance per feature, or one for all.
        order: how many features may act together; None for any number, where each further one costs a factor $a_i$.
        interaction_var: $v$, what every further feature of a part costs, with an `order`.
        places: for rows of `TableEncoder`, the group of every feature: $(x_i - x'_i)^2$ is then the squared distance of
            all features of a group, and of the gaps behind the features, which no other row shares.

    Example:
        >>> import numpy as np
        >>> from widetail.kernels import Anova
        >>> x = np.array([[0.0, 0.0], [0.0, 3.0]])
        >>> Anova(order=1).kernel(x).nngp.round(3)  # the first feature is the same in both rows
        array([[3.   , 2.011],
               [2.011, 3.   ]])
    """

    per_feature: ClassVar[tuple[str, ...]] = ("length_scale", "part_var")

    length_scale: Any = eqx.field(default=1.0, converter=as_parameter)
    part_var: Any = eqx.field(default=1.0, converter=as_parameter)
    order: int | None = eqx.field(default=None, static=True)
    interaction_var: Any = eqx.field(default=1.0, converter=as_parameter)
    places: tuple[int, ...] | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        check_variance("length_scale", self.length_scale, positive=True, may_be_vector=True)
        check_variance("part_var", self.part_var, positive=True, may_be_vector=True)
        check_number("interaction_var", self.interaction_var, positive=True)
        if self.order is not None:
            check_count("order", self.order)
        if self.places is not None:
            check_places(self.places)

    def rows_fn(self, get: Get) -> RowsFn:
        """Scale the inputs."""
        return functools.partial(_rows, self)

    def cross_fn(self, get: Get) -> CrossFn:
        """One Gaussian kernel per feature, combined."""
        return functools.partial(_cross, self)

    def check_shape(self, name: str, input_shape: tuple[int, ...]) -> None:
        """Vectors; with places for gaps, features and a gap for each group of them."""
        if self.places is None:
            return super().check_shape(name, input_shape)
        groups = max(self.places) + 1
        if input_shape != (len(self.places) + groups,):
            raise ValueError(
                f"{name} must hold {len(self.places)} features and {groups} gaps, as TableEncoder makes; "
                f"got {input_shape}."
            )
        return super().check_shape(name, (groups,))

    def numbers_per_pair(self, input_shape: tuple[int, ...]) -> int:
        return input_shape[0]

    def by_hand(self) -> ByHand | None:
        """In NumPy, for the orders whose gradient is a short formula."""
        if self.order not in (None, 1, 2):
            return None
        return AnovaByHand(self.length_scale, self.part_var, self.order, self.interaction_var, self.places)

    def _combine(self, features: Any, parts: Any) -> Any:
        """The kernel from those of the single features, which are the last axis."""
        terms = parts * features
        if self.order is None:  # the derivative of a sum of logarithms compiles in half the time of a product's
            return jnp.exp(jnp.sum(jnp.log1p(terms) - jnp.log1p(parts), axis=-1))
        single, price = jnp.sum(terms, axis=-1), jnp.asarray(self.interaction_var, parts.dtype)
        if self.order == 1:
            return 1 + single
        if self.order == 2:
            return 1 + single + price * 0.5 * (single**2 - jnp.sum(terms**2, axis=-1))
        # sums over all sets of one, two, ... features, of which the next feature is a member or not
        most = min(self.order, parts.shape[-1])  # there are no larger sets
        sums = [jnp.ones((), parts.dtype)] + [jnp.zeros((), parts.dtype)] * most
        for feature in range(parts.shape[-1]):
            term = terms[..., feature]
            sums = [sums[0], *(here + term * below for below, here in itertools.pairwise(sums))]
        return sums[0] + sum(price**number * total for number, total in enumerate(sums[1:]))


@jax.jit
def _rows(kernel: Anova, x: Float[Array, "n d"]) -> Rows:
    features = x.shape[1] if kernel.places is None else max(kernel.places) + 1
    scaled = x / jnp.asarray(kernel.length_scale, x.dtype) if kernel.places is None else x
    parts = jnp.broadcast_to(jnp.asarray(kernel.part_var, x.dtype), (features,))
    diagonal = jnp.broadcast_to(kernel._combine(jnp.ones_like(parts), parts), x.shape[:1])
    return Rows(scaled, (), KernelValues(diagonal))


@jax.jit
def _cross(kernel: Anova, rows1: Rows, rows2: Rows) -> KernelValues:
    x1, x2 = rows1.inputs, rows2.inputs
    if kernel.places is None:
        squares = (x1[:, None] - x2[None]) ** 2
    else:
        squares = jnp.stack(group_distances(x1.T, x2.T, kernel.places), axis=-1)
        squares = squares / jnp.asarray(kernel.length_scale, x1.dtype) ** 2
    parts = jnp.broadcast_to(jnp.asarray(kernel.part_var, x1.dtype), squares.shape[-1:])
    return KernelValues(kernel._combine(jnp.exp(-0.5 * squares), parts))
