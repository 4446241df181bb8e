"""Layers that join positions: pooling and flattening."""

import abc
import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp

from widetail.files import savable
from widetail.nn._base import LinearLeaf
from widetail.nn._covariance import Covariance
from widetail.nn._signal import Signal
from widetail.nn.layers._windows import (
    Padding,
    centre_mask,
    check_window,
    pad_window,
    per_axis,
    window_positions,
    window_sum,
)


class _Pool(LinearLeaf):
    window: eqx.AbstractVar[int | tuple[int, ...]]
    strides: eqx.AbstractVar[int | tuple[int, ...] | None]
    padding: eqx.AbstractVar[Padding]

    def __check_init__(self):
        check_window(self._name, self.window, self._strides, self.padding)

    @abc.abstractmethod
    def _factor(self, rank: int) -> float:
        """What a sum over a window is multiplied by."""

    @property
    def _name(self) -> str:
        return f"nn.{type(self).__name__}"

    @property
    def _strides(self) -> int | tuple[int, ...]:
        return self.window if self.strides is None else self.strides

    def needs_all_pairs(self, wanted: bool) -> bool:
        return True

    def signal(self, signal: Signal) -> Signal:
        space = window_positions(self._name, signal, self.window, self._strides, self.padding)
        return signal.replace(space=space)

    def _slide(self, x, first_axis: int, rank: int):
        """Sum over the window that starts at `first_axis`."""
        for axis in range(rank):
            window, stride = per_axis(self.window, rank)[axis], per_axis(self._strides, rank)[axis]
            axes = (first_axis + axis,)
            x = window_sum(pad_window(x, axes, window, stride, self.padding, axis), axes, window, stride)
        return self._factor(rank) * x

    def mask_after(self, mask):
        return centre_mask(mask, self.window, self._strides, self.padding)

    def limit(self, k: Covariance) -> Covariance:
        return k.map(lambda v: self._slide(self._slide(v, 0, k.rank), k.rank, k.rank))

    def init(self, key, signal, parametrisation):
        return {}

    def apply(self, parameters, x, parametrisation, key):
        return self._slide(x, 1, x.ndim - 2)


@savable("nn.AvgPool")
class AvgPool(_Pool):
    """The mean over a sliding window.

    Args:
        window: extent: an integer for every axis, or one per axis.
        strides: steps of the window; the window itself by default.
        padding: "VALID", "SAME" (zeros around, which count in the mean), "CIRCULAR", or zeros before and after along
            each axis, ((1, 1), (1, 1)).
    """

    window: int | tuple[int, ...] = eqx.field(static=True)
    strides: int | tuple[int, ...] | None = eqx.field(static=True, default=None)
    padding: Padding = eqx.field(static=True, default="VALID")

    def _factor(self, rank: int) -> float:
        return 1 / math.prod(per_axis(self.window, rank))


@savable("nn.SumPool")
class SumPool(_Pool):
    """The sum over a sliding window; arguments as in `AvgPool`."""

    window: int | tuple[int, ...] = eqx.field(static=True)
    strides: int | tuple[int, ...] | None = eqx.field(static=True, default=None)
    padding: Padding = eqx.field(static=True, default="VALID")

    def _factor(self, rank: int) -> float:
        return 1.0


class _GlobalPool(LinearLeaf):
    @abc.abstractmethod
    def _pool(self, x: jax.Array, axes: tuple[int, ...]) -> jax.Array:
        """Join the positions in these axes."""

    def needs_all_pairs(self, wanted: bool) -> bool:
        return True

    def signal(self, signal: Signal) -> Signal:
        if not signal.space:
            raise ValueError(f"nn.{type(self).__name__} expects sequences or images, but it receives vectors")
        return signal.replace(space=())

    def mask_after(self, mask):
        return None

    def limit(self, k: Covariance) -> Covariance:
        pooled = k.map(lambda v: self._pool(v, tuple(range(2 * k.rank))))
        return Covariance(pooled.nngp, pooled.ntk, 0, False)

    def init(self, key, signal, parametrisation):
        return {}

    def apply(self, parameters, x, parametrisation, key):
        return self._pool(x, tuple(range(1, x.ndim - 1)))


@savable("nn.GlobalAvgPool")
class GlobalAvgPool(_GlobalPool):
    """The mean over all positions: one vector per input."""

    def _pool(self, x, axes):
        return jnp.mean(x, axis=axes)

    def masked_factor(self, mask, statistics):
        return 1 / jnp.maximum(jnp.mean(mask, axis=tuple(range(mask.ndim - 1))), 1 / mask[..., 0].size)

    def apply_masked(self, parameters, x, mask, parametrisation, key):
        factor = self.masked_factor(jnp.moveaxis(mask, 0, -1), None)
        return self.apply(parameters, x, parametrisation, key) * factor[:, None]


@savable("nn.GlobalSumPool")
class GlobalSumPool(_GlobalPool):
    """The sum over all positions: one vector per input."""

    def _pool(self, x, axes):
        return jnp.sum(x, axis=axes)


@savable("nn.Flatten")
class Flatten(LinearLeaf):
    """All positions side by side in one vector: their covariances are averaged by the next weights."""

    def needs_distances(self, wanted: bool) -> bool:
        return wanted

    def needs_all_pairs(self, wanted: bool) -> bool:
        return False

    def signal(self, signal: Signal) -> Signal:
        features = None if signal.features is None else signal.features * signal.positions
        # entries of one position are alike, but different positions have different variances
        return signal.replace(
            space=(),
            features=features,
            multiple=signal.multiple * signal.positions,
            is_gaussian=signal.is_gaussian and signal.positions == 1,
        )

    def limit(self, k: Covariance) -> Covariance:
        k = k.equal_positions()
        flat = k.map_all(lambda v: jnp.mean(v, axis=tuple(range(k.rank))))
        return dataclasses.replace(flat, rank=0)

    def mask_after(self, mask):
        return None

    def init(self, key, signal, parametrisation):
        return {}

    def apply(self, parameters, x, parametrisation, key):
        return x.reshape(x.shape[0], -1)
