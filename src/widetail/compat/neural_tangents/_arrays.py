"""Axes of covariance arrays as neural-tangents orders them: data points first, then every axis of positions twice."""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

Axes = int | Sequence[int]
Number = Any  # a Python or NumPy number, an array without axes, or what a transformation makes of one


def canonical_axes(axes: Axes, ndim: int) -> list[int]:
    """Axes counted from 0, each once, in order."""
    given = [axes] if isinstance(axes, (int, np.integer)) else list(axes)
    for axis in given:
        if not -ndim <= axis < ndim:
            raise IndexError(f"axis {axis} is out of bounds for an array with {ndim} axes.")
    return sorted({int(axis) % ndim for axis in given})


def unzip_axes(x: Any, start: int = 0) -> Any:
    """From (a, a', b, b', ...) after some axes to (a, b, ..., a', b', ...)."""
    end = x.ndim
    if (end - start) % 2:
        raise ValueError(f"pairs of axes are needed after axis {start} of shape {x.shape}.")
    order = [*range(start, end, 2), *range(start + 1, end, 2)]
    return jnp.transpose(x, (*range(start), *order))


def zip_axes(x: Any, start: int = 0) -> Any:
    """The inverse of `unzip_axes`."""
    end = x.ndim
    if (end - start) % 2:
        raise ValueError(f"pairs of axes are needed after axis {start} of shape {x.shape}.")
    half = (end - start) // 2
    order = [axis for i in range(half) for axis in (start + i, start + half + i)]
    return jnp.transpose(x, (*range(start), *order))


def make_2d(x: Any) -> Any:
    """A kernel (n, n', a, a', ...) as a matrix."""
    if x is None:
        return None
    x = unzip_axes(x)
    half = x.ndim // 2
    return x.reshape(math.prod(x.shape[:half]), math.prod(x.shape[half:]))


def spread(x: Any, batch: int, diagonal: bool) -> Any:
    """Positions first, data points last, as the layers of `nn` have them: (h, w, h', w', n, n')."""
    if not diagonal:
        x = unzip_axes(x, batch)
    return jnp.moveaxis(x, range(batch), range(-batch, 0))


def gather(x: Any, batch: int, diagonal: bool) -> Any:
    """The inverse of `spread`."""
    x = jnp.moveaxis(x, range(-batch, 0), range(batch))
    return x if diagonal else zip_axes(x, batch)


def variances(cov: Any, batch: int, diagonal: bool) -> Any:
    """Of each data point and position with itself: (n, h, w)."""
    x = spread(cov, batch, diagonal)
    rank = (x.ndim - batch) // (1 if diagonal else 2)
    if not diagonal and rank:
        space, ends = x.shape[:rank], x.shape[2 * rank :]
        flat = x.reshape(math.prod(space), math.prod(space), *ends)
        x = jnp.moveaxis(jnp.diagonal(flat), -1, 0).reshape(*space, *ends)
    if batch == 2:
        x = jnp.diagonal(x, axis1=-2, axis2=-1)
    return jnp.moveaxis(x, -1, 0)


def pairs(one: Any, other: Any, batch: int, diagonal: bool, join: Any) -> Any:
    """`join` of per-point numbers (n, h, w) of both sides, in the layout of a covariance."""
    other = one if other is None else other
    first = 2 - batch
    last = 1 if diagonal else one.ndim

    def beside(x, left: bool):
        shape = list(x.shape[:first])
        for size in x.shape[first:last]:
            shape += [size, 1] if left else [1, size]
        return x.reshape((*shape, *x.shape[last:]))

    return join(beside(one, True), beside(other, False))


def masked(x: Any, mask: Any) -> Any:
    """Zeros where the mask is True."""
    return x if x is None or mask is None else jnp.where(mask, jnp.zeros((), x.dtype), x)


def masked_mean(x: Any, axes: Sequence[int], mask: Any = None, keepdims: bool = False) -> Any:
    """The mean over what is not masked."""
    if mask is None:
        return jnp.mean(x, tuple(axes), keepdims=keepdims)
    kept = jnp.sum(~jnp.broadcast_to(mask, x.shape), axis=tuple(axes), keepdims=keepdims)
    return jnp.sum(masked(x, mask), axis=tuple(axes), keepdims=keepdims) / jnp.maximum(kept, 1).astype(x.dtype)


def canonical_index(index: Any, ndim: int) -> tuple[Any, ...]:
    """One entry per axis."""
    index = index if isinstance(index, tuple) else (index,)
    if any(one is Ellipsis for one in index):
        place = next(i for i, one in enumerate(index) if one is Ellipsis)
        missing = ndim - (len(index) - 1)
        index = (*index[:place], *(slice(None),) * missing, *index[place + 1 :])
    return (*index, *(slice(None),) * (ndim - len(index)))
