"""Second moments of a layer's features, between positions and between data points."""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from widetail.kernels import inner_products, middle_of, squared_distances


class Apart(NamedTuple):
    r"""How far an input is from another one, with more digits than are left of it in their three covariances.

    Large inputs, and inputs far from the origin, differ by little of what they are. All three go through linear maps as
    covariances do.

    Attributes:
        minus: $k_{11} + k_{22} - 2 k_{12}$, the squared distance of one to the other.
        plus: $k_{11} + k_{22} + 2 k_{12}$, that of one to the other's opposite.
        difference: $k_{11} - k_{22}$.
    """

    minus: Any
    plus: Any
    difference: Any

    @property
    def determinant(self) -> Any:
        """$k_{11} k_{22} - k_{12}^2$."""
        return 0.25 * (self.minus * self.plus - self.difference**2)


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
        apart: how far the two inputs are from each other, where a layer above asks for it; None elsewhere.
    """

    nngp: Any
    ntk: Any
    rank: int
    all_pairs: bool
    apart: Apart | None = None

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
    apart = _apart(k, nngp) if k.with_apart else None
    return Covariance(nngp, jnp.zeros_like(nngp) if k.with_ntk else None, rank, k.all_pairs, apart)


def _apart(k: Inputs, nngp: Float[Array, "..."]) -> Apart:
    features = k.x1.shape[-1]
    # The smaller of the two distances, from differences or sums of inputs; the larger has 4 |k12| more.
    is_opposite = nngp < 0
    nearest = _distances(k, jnp.where(is_opposite, -1, 1).astype(nngp.dtype)) / features
    minus, plus = nearest + jnp.where(is_opposite, -4 * nngp, 0), nearest + jnp.where(is_opposite, 0, 4 * nngp)
    return Apart(minus, plus, _differences(k, nngp.shape) / features)


def _differences(k: Inputs, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Squares of `x1` less those of `x2`, from their distances to the middle of all of them."""
    if k.x2 is None and not k.all_pairs:
        return jnp.zeros(shape, k.x1.dtype)
    flat = [x.reshape(-1, x.shape[-1]) for x in (k.x1, k.x1 if k.x2 is None else k.x2)]
    sides, middle = middle_of(*flat)

    def squares(x, side):  # less that of the middle
        far = side[:, None] * x - middle
        terms = far * (far + 2 * middle) * (1 if k.scale is None else k.scale**2)
        return jnp.moveaxis(jnp.sum(terms, axis=-1).reshape(-1, *k.x1.shape[1:-1]), 0, -1)

    covariance = Covariance(jax.ShapeDtypeStruct(shape, k.x1.dtype), None, k.x1.ndim - 2, k.all_pairs)
    first, second = covariance.align(*map(squares, flat, sides))
    return first - second


def _products(k: Inputs) -> Float[Array, "..."]:
    rank = k.x1.ndim - 2
    x1, x2 = k.x1, k.x1 if k.x2 is None else k.x2
    if k.with_apart and k.x2 is not None and not rank:
        return inner_products(x1, x2, 1.0 if k.scale is None else k.scale)
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


def _distances(k: Inputs, factor: Float[Array, "..."]) -> Float[Array, "..."]:
    """Squared distances of `x1` to `x2` times a factor for each pair, in the shape that their products have."""
    scale, features = 1.0 if k.scale is None else k.scale, k.x1.shape[-1]
    flat1 = k.x1.reshape(len(k.x1), -1, features)  # (n, positions, features)
    if k.x2 is None:
        if not k.all_pairs:
            return jnp.zeros(factor.shape, k.x1.dtype)
        factors = factor.reshape(flat1.shape[1], flat1.shape[1], -1)
        found = jax.vmap(lambda x, f: squared_distances(x, x, scale, f), (0, -1), -1)(flat1, factors)
        return found.reshape(factor.shape)
    if k.x1.ndim == 2:  # vectors
        return squared_distances(k.x1, k.x2, scale, factor)
    flat2 = k.x2.reshape(len(k.x2), -1, features)

    def at_positions(x1, x2, f):
        return squared_distances(x1, x2, scale, f)

    if k.all_pairs:  # every position of one with every position of the other
        at_positions = jax.vmap(jax.vmap(at_positions, (None, 1, 0)), (1, None, 0))
        factors = factor.reshape(flat1.shape[1], flat2.shape[1], len(k.x1), len(k.x2))
    else:
        at_positions = jax.vmap(at_positions, (1, 1, 0))
        factors = factor.reshape(flat1.shape[1], len(k.x1), len(k.x2))
    return at_positions(flat1, flat2, factors).reshape(factor.shape)
