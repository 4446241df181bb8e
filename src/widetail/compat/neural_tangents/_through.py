"""A `Kernel` through a layer of `widetail.nn`."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from widetail import nn
from widetail.compat.neural_tangents._arrays import gather, spread
from widetail.compat.neural_tangents._kernel import Kernel


def rank_of(k: Kernel) -> int:
    """How many axes a position has."""
    return (k.nngp.ndim - 2) // (1 if k.diagonal_spatial else 2)


def through(layer: nn.Layer, k: Kernel) -> Kernel:
    """All four arrays through a layer that needs each row's own variances, such as an activation."""
    rank, diagonal, full = rank_of(k), k.diagonal_spatial, not k.diagonal_spatial
    rows_step, cross_step = layer.propagate_rows_fn(full), layer.propagate_cross_fn(full)

    def covariance(x: Any, ntk: Any, batch: int) -> nn.Covariance:
        lay = None if ntk is None else spread(ntk, batch, diagonal)
        return nn.Covariance(spread(x, batch, diagonal), lay, rank, full and rank > 0)

    def own(cov):
        """A set with itself, and the numbers of its rows."""
        if k.diagonal_batch:
            end, numbers = rows_step(covariance(cov, None, 1))
            return gather(end.nngp, 1, diagonal), numbers
        alone = jnp.moveaxis(jnp.diagonal(cov, axis1=0, axis2=1), -1, 0)
        _, numbers = rows_step(covariance(alone, None, 1))
        return gather(cross_step(covariance(cov, None, 2), numbers, numbers).nngp, 2, diagonal), numbers

    cov1, numbers1 = own(k.cov1)
    cov2, numbers2 = (None, numbers1) if k.cov2 is None else own(k.cov2)
    end = cross_step(covariance(k.nngp, k.ntk, 2), numbers1, numbers2)
    return k.replace(
        cov1=cov1,
        cov2=cov2,
        nngp=gather(end.nngp, 2, diagonal),
        ntk=None if k.ntk is None else gather(end.ntk, 2, diagonal),
    )


def linear_map(layer: nn.Layer, x: Any, batch: int, diagonal: bool) -> Any:
    """One array through a layer that treats every pair of inputs alike."""
    if x.ndim == batch:  # no positions, nothing to slide over
        return x
    flat = spread(x, batch, diagonal)
    rank = (x.ndim - batch) // (1 if diagonal else 2)
    step = layer.propagate_rows_fn(not diagonal)
    return gather(step(nn.Covariance(flat, None, rank, not diagonal and rank > 0))[0].nngp, batch, diagonal)


def mask_through(layer: nn.Layer, mask: Any, shape: Sequence[int], batch_axis: int, channel_axis: int) -> Any:
    """A mask of one feature, True where nothing is, by the rule that the layer has inside of `nn.Masked`."""
    ndim = len(shape)
    rows, channel = batch_axis % ndim, channel_axis % ndim
    wide = jnp.broadcast_to(mask, [1 if axis == channel else size for axis, size in enumerate(shape)])
    there = ~jnp.moveaxis(wide, (rows, channel), (-2, -1))[..., 0]
    after = layer.mask_after(there.astype(jnp.float32))
    assert after is not None
    return jnp.moveaxis(after[..., None] <= 0, (-2, -1), (rows, channel))
