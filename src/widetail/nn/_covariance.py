"""Second moments of a layer's features, between positions and between data points."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from widetail.kernels import squared_distances


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=("nngp", "ntk", "apart"), meta_fields=("rank", "all_pairs")
)
@dataclasses.dataclass(frozen=True)
class Covariance:
    r"""What one layer passes to the next in the infinite-width limit.

    The data-point axes come last, so that the innermost loop of every operation runs over pairs of data
    points: `(n1, n2)` for two sets of inputs, `(n,)` for each input with itself. Before them stand
    the positions of a sequence or an image, in one of two forms:

    - `all_pairs=False`: equal positions only, `(*space, ...)`; enough for a body that ends in Flatten;
    - `all_pairs=True`: every position with every other, `(*space, *space, ...)`; needed before pooling.

    Vectors have no positions; the two forms coincide.

    Attributes:
        nngp: $E[h_p(x)\, h_q(x')]$, one entry of the features at positions $p$ and $q$.
        ntk: the tangent kernel of everything below, or None when it was not asked for.
        rank: how many axes a position has: 0 for vectors, 1 for sequences, 2 for images, 3 for volumes.
        all_pairs: the form of the positions.
        apart: $(k_{11} + k_{22} - 2 k_{12},\, k_{11} + k_{22} + 2 k_{12})$, the squared distances of one input to the
            other and to its opposite, where a layer above wants them with more digits than are left of them in the
            three covariances; None elsewhere.
    """

    nngp: Any
    ntk: Any
    rank: int
    all_pairs: bool
    apart: Any = None

    def map(self, fn) -> "Covariance":
        """Apply one linear map to both kernels; distances are dropped."""
        return self.with_values(fn(self.nngp), None if self.ntk is None else fn(self.ntk))

    def map_all(self, fn) -> "Covariance":
        """Apply a linear map that is the same for an input with itself and for a pair, to the distances too."""
        return jax.tree.map(fn, self)

    def with_values(self, nngp, ntk, apart=None) -> "Covariance":
        """The same positions with new values."""
        return Covariance(nngp, ntk, self.rank, self.all_pairs, apart)

    def space_axes(self) -> list[tuple[int, ...]]:
        """Per axis of space, the array axes that a shift of both positions together moves."""
        if self.all_pairs:
            return [(axis, axis + self.rank) for axis in range(self.rank)]
        return [(axis,) for axis in range(self.rank)]

    def equal_positions(self) -> "Covariance":
        """Keep the pairs of equal positions only."""
        if not self.all_pairs:
            return self
        return dataclasses.replace(self.map_all(lambda v: _diagonal(v, self.rank)), all_pairs=False)

    def with_equal_positions(self, equal: "Covariance") -> "Covariance":
        """All pairs of positions, with the values of `equal` where the two are the same."""
        ntk = None if self.ntk is None else _set_diagonal(self.ntk, equal.ntk, self.rank)
        return self.with_values(_set_diagonal(self.nngp, equal.nngp, self.rank), ntk)

    def with_independent_positions(self) -> "Covariance":
        """All pairs of positions from those of equal ones: different positions have nothing in common."""
        if self.all_pairs or not self.rank:
            return self

        def spread(v):
            space, pairs = v.shape[: self.rank], v.shape[self.rank :]
            return _set_diagonal(jnp.zeros((*space, *space, *pairs), v.dtype), v, self.rank)

        return Covariance(spread(self.nngp), None if self.ntk is None else spread(self.ntk), self.rank, True)

    def align(
        self, first: Float[Array, "..."], second: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Shape per-row numbers `(..., *space, n)` of either side to broadcast against the kernels."""
        if self.all_pairs:  # axes counted from the end: numbers may have axes of their own in front
            first = jnp.expand_dims(first, tuple(range(-self.rank - 1, -1)))
            second = jnp.expand_dims(second, tuple(range(-2 * self.rank - 1, -self.rank - 1)))
        if self._is_cross:
            first, second = first[..., :, None], second[..., None, :]
        return first, second

    @property
    def _is_cross(self) -> bool:
        return self.nngp.ndim - self.rank * (1 + self.all_pairs) == 2


def _diagonal(k: Float[Array, "..."], rank: int) -> Float[Array, "..."]:
    space, pairs = k.shape[:rank], k.shape[2 * rank :]
    flat = k.reshape(math.prod(space), math.prod(space), *pairs)
    return jnp.moveaxis(jnp.diagonal(flat), -1, 0).reshape(*space, *pairs)


def _set_diagonal(k: Float[Array, "..."], values: Float[Array, "..."], rank: int) -> Float[Array, "..."]:
    space = k.shape[:rank]
    is_equal = jnp.eye(math.prod(space), dtype=bool).reshape(*space, *space, *(1,) * (k.ndim - 2 * rank))
    return jnp.where(is_equal, values.reshape(*space, *(1,) * rank, *values.shape[rank:]), k)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=("x1", "x2", "scale"),
    meta_fields=("all_pairs", "with_ntk", "with_apart"),
)
@dataclasses.dataclass(frozen=True)
class Inputs:
    """The covariance of two sets of inputs, not yet computed.

    The first compiled stage of a network resolves it, so that the product of the inputs, and the zeros
    that their tangent kernel starts from, are never written to memory by themselves.

    Attributes:
        x1: one side: (n1, *space, features).
        x2: the other side, or None for each row of `x1` with itself.
        scale: what every feature is multiplied by, shape (features,), or None.
        all_pairs: the form of the positions.
        with_ntk: whether a tangent kernel goes along.
        with_apart: whether distances go along.
    """

    x1: Any
    x2: Any
    scale: Any
    all_pairs: bool
    with_ntk: bool
    with_apart: bool


def resolve(k: Covariance | Inputs) -> Covariance:
    r"""A covariance as it is; that of inputs as $x_p \cdot x'_q$ / features."""
    if isinstance(k, Covariance):
        return k
    rank, features = k.x1.ndim - 2, k.x1.shape[-1]
    nngp = _products(k) / features
    apart = None
    if k.with_apart:
        # The smaller of the two distances, from differences or sums of inputs; the larger has 4 |k12| more.
        is_opposite = nngp < 0
        nearest = _distances(k, is_opposite) / features
        apart = nearest + jnp.where(is_opposite, -4 * nngp, 0), nearest + jnp.where(is_opposite, 0, 4 * nngp)
    return Covariance(nngp, jnp.zeros_like(nngp) if k.with_ntk else None, rank, k.all_pairs, apart)


def _products(k: Inputs) -> Float[Array, "..."]:
    rank = k.x1.ndim - 2
    x1, x2 = k.x1, k.x1 if k.x2 is None else k.x2
    if k.scale is not None:
        x1, x2 = x1 * k.scale, x2 * k.scale
    rows1, rows2 = jnp.moveaxis(x1, 0, -2), jnp.moveaxis(x2, 0, -2)  # (*space, n, features)
    if rank and not k.all_pairs and k.x2 is not None and x1.shape[-1] <= 4:
        # a product of a few channels at every position: far too small for a matrix product each
        terms = [rows1[..., :, None, c] * rows2[..., None, :, c] for c in range(x1.shape[-1])]
        return sum(terms[1:], terms[0])
    space = "abc"[:rank]
    other = "deg"[:rank] if k.all_pairs else space
    both = space + other if k.all_pairs else space
    sides = (f"{space}nf,{other}nf", "n") if k.x2 is None else (f"{space}nf,{other}mf", "nm")
    return jnp.einsum(f"{sides[0]}->{both}{sides[1]}", rows1, rows2)


def _distances(k: Inputs, is_opposite: Bool[Array, "..."]) -> Float[Array, "..."]:
    """Squared distances of `x1` to `x2`, or to minus `x2` for some pairs, in the shape that their products have."""
    scale, features = 1.0 if k.scale is None else k.scale, k.x1.shape[-1]
    flat1 = k.x1.reshape(len(k.x1), -1, features)  # (n, positions, features)
    if k.x2 is None:
        if not k.all_pairs:
            return jnp.zeros(is_opposite.shape, k.x1.dtype)
        signs = is_opposite.reshape(flat1.shape[1], flat1.shape[1], -1)
        found = jax.vmap(lambda x, s: squared_distances(x, x, scale, s), (0, -1), -1)(flat1, signs)
        return found.reshape(is_opposite.shape)
    flat2 = k.x2.reshape(len(k.x2), -1, features)

    def at_positions(x1, x2, s):
        return squared_distances(x1, x2, scale, s)

    if k.all_pairs:  # every position of one with every position of the other
        at_positions = jax.vmap(jax.vmap(at_positions, (None, 1, 0)), (1, None, 0))
        signs = is_opposite.reshape(flat1.shape[1], flat2.shape[1], len(k.x1), len(k.x2))
    else:
        at_positions = jax.vmap(at_positions, (1, 1, 0))
        signs = is_opposite.reshape(flat1.shape[1], len(k.x1), len(k.x2))
    return at_positions(flat1, flat2, signs).reshape(is_opposite.shape)
