"""A sum over features, pairs of features, and so on: functions that are mostly sums of functions of few inputs."""

import functools
import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from widetail.checks import as_parameter, check_count, check_number, check_variance
from widetail.files import savable
from widetail.kernels._base import Kernel
from widetail.kernels._inputs import check_get, check_inputs
from widetail.kernels._values import CrossFn, Get, KernelValues, Rows, RowsFn
from widetail.kernels._vectors import check_vectors
from widetail.numerics import is_traced

# Of few rows NumPy has the kernel and its gradient before JAX has looked up its compiled functions, and without
# compiling any: learning from a hundred rows asks a thousand times.
FEW_PAIRS = 250 * 250


@savable("kernels.Anova")
class Anova(Kernel):
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

    def rows_fn(self, get: Get) -> RowsFn:
        """Scale the inputs."""
        return functools.partial(_rows, self)

    def cross_fn(self, get: Get) -> CrossFn:
        """One Gaussian kernel per feature, combined."""
        return functools.partial(_cross, self)

    def check_shape(self, name: str, input_shape: tuple[int, ...]) -> None:
        """Vectors only, with as many features as there are length scales and variances."""
        if self.places is None:
            return check_vectors(self, name, input_shape, "length_scale", "part_var")
        groups = max(self.places) + 1
        if input_shape != (len(self.places) + groups,):
            raise ValueError(
                f"{name} must hold {len(self.places)} features and {groups} gaps, as TableEncoder makes; "
                f"got {input_shape}."
            )
        return check_vectors(self, name, (groups,), "length_scale", "part_var")

    def numbers_per_pair(self, input_shape: tuple[int, ...]) -> int:
        """One for every feature."""
        return input_shape[0]

    def kernel(self, x1: Any, x2: Any = None, get: Get = "both", **options: Any) -> KernelValues:
        """As every kernel; of few pairs of rows by NumPy alone."""
        if is_traced(self, x1, x2) or not self._is_for_numpy(x1, x2):
            return super().kernel(x1, x2, get, **options)
        check_get(self, get)
        x1, x2 = check_inputs(self, x1, x2)
        return KernelValues(self._by_hand(x1, x2)[0])

    def pull_back(self, cotangent: KernelValues, x1: Any, x2: Any = None, *, progress: Any = False) -> "Anova":
        """As every kernel; of few pairs of rows by NumPy alone."""
        if is_traced(self) or not self._is_for_numpy(x1, x2) or cotangent.nngp is None or cotangent.ntk is not None:
            return super().pull_back(cotangent, x1, x2, progress=progress)  # type: ignore[return-value]
        x1, x2 = check_inputs(self, x1, x2)
        values, exponents, terms, parts = self._by_hand(x1, x2)
        weights = np.asarray(cotangent.nngp, np.float64)
        if weights.shape != values.shape:
            raise ValueError(f"cotangent.nngp must have the kernel's shape {values.shape}; got {weights.shape}.")
        by_price = 0.0
        if self.order is None:
            weighted, slopes = weights * values, terms / (1 + terms)
            by_part = np.tensordot(slopes, weighted, 2) / parts - np.sum(weighted) / (1 + parts)
            by_length = -2 * np.tensordot(slopes * exponents, weighted, 2)
        else:
            slopes = terms
            if self.order == 2:
                price, single = float(self.interaction_var), np.sum(terms, axis=0)
                by_price = 0.5 * float(np.vdot(weights, single**2 - np.sum(terms**2, axis=0)))
                slopes = terms * (1 + price * (single - terms))
            by_part = np.tensordot(slopes, weights, 2) / parts
            by_length = -2 * np.tensordot(slopes * exponents, weights, 2)
        by_length = by_length / np.broadcast_to(np.asarray(self.length_scale, np.float64), parts.shape)
        shared = [
            total if np.ndim(value) else float(np.sum(total))
            for total, value in ((by_length, self.length_scale), (by_part, self.part_var))
        ]
        # a derivative may be negative, which no parameter may: put in without the checks of a new kernel
        return eqx.tree_at(lambda kernel: jax.tree.leaves(kernel), self, [*shared, by_price])

    def _is_for_numpy(self, x1: Any, x2: Any) -> bool:
        others = x1 if x2 is None else x2
        return (
            isinstance(x1, np.ndarray)
            and isinstance(others, np.ndarray)
            and x1.dtype == others.dtype == np.float64
            and x1.ndim == others.ndim == 2
            and len(x1) * len(others) <= FEW_PAIRS
            and self.order in (None, 1, 2)
        )

    def _by_hand(self, x1: np.ndarray, x2: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """The kernel, and by feature: exponents and terms (d, n1, n2), and the variances of the parts (d,)."""
        others = x1 if x2 is None else x2
        lengths = np.asarray(self.length_scale, np.float64)
        if self.places is None:
            scaled1, scaled2 = (x1 / lengths).T, (others / lengths).T
            exponents = -0.5 * (scaled1[:, :, None] - scaled2[:, None]) ** 2
        else:
            exponents = -0.5 * np.stack(_group_distances(x1.T, others.T, self.places))
            exponents /= np.broadcast_to(lengths, len(exponents))[:, None, None] ** 2
            if x2 is None:  # a row's gaps are not away from themselves
                exponents[:, range(len(x1)), range(len(x1))] = 0.0
        parts = np.broadcast_to(np.asarray(self.part_var, np.float64), len(exponents))
        terms = parts[:, None, None] * np.exp(exponents)
        if self.order is None:
            values = np.prod((1 + terms) / (1 + parts)[:, None, None], axis=0)
        else:
            single = np.sum(terms, axis=0)
            values = 1 + single
            if self.order == 2:
                values += float(self.interaction_var) * 0.5 * (single**2 - np.sum(terms**2, axis=0))
        return values, exponents, terms, parts

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
        sums = [jnp.ones((), parts.dtype)] + [jnp.zeros((), parts.dtype)] * self.order
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
        squares = jnp.stack(_group_distances(x1.T, x2.T, kernel.places), axis=-1)
        squares = squares / jnp.asarray(kernel.length_scale, x1.dtype) ** 2
    parts = jnp.broadcast_to(jnp.asarray(kernel.part_var, x1.dtype), squares.shape[-1:])
    return KernelValues(kernel._combine(jnp.exp(-0.5 * squares), parts))


def _group_distances(x1: Any, x2: Any, places: tuple[int, ...]) -> list[Any]:
    """Squared distances (n1, n2) of every group, from the columns of rows that have features and then gaps."""
    known = len(places)
    squares: list[Any] = [0.0] * (max(places) + 1)
    for feature, group in enumerate(places):
        squares[group] = squares[group] + (x1[feature][:, None] - x2[feature]) ** 2
    return [total + (x1[known + g] ** 2)[:, None] + x2[known + g] ** 2 for g, total in enumerate(squares)]
