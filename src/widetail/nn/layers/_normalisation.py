"""Layer normalisation and dropout."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from widetail.files import savable
from widetail.gaussian import norm_and_inverse
from widetail.nn._base import Leaf
from widetail.nn._covariance import Covariance
from widetail.nn._signal import Signal


@savable("nn.LayerNorm")
class LayerNorm(Leaf):
    r"""Subtract the mean of the features and divide by their standard deviation, at each position or over several.

    In the limit mean and variance are numbers: 0 and $k_{pp}$, so a covariance becomes a correlation.

    Args:
        over: axes of positions, counted from 0, whose features share one mean and one variance (in the limit the
            mean of $k_{pp}$ over them); "all" for every axis. By default each position has its own.
        epsilon: what is added to the variance.
    """

    over: tuple[int, ...] | Literal["all"] = eqx.field(static=True, default=())
    epsilon: float = eqx.field(static=True, default=0.0)
    is_elementwise = True

    def __check_init__(self):
        is_tuple = isinstance(self.over, tuple) and all(isinstance(a, int) and a >= 0 for a in self.over)
        if self.over != "all" and not is_tuple:
            raise ValueError(f"nn.LayerNorm: over must be a tuple of axes from 0 on, or 'all'; got {self.over!r}.")
        if isinstance(self.epsilon, bool) or not isinstance(self.epsilon, (int, float)) or not 0 <= self.epsilon < 1e9:
            raise ValueError(f"nn.LayerNorm: epsilon must be a number, 0 or more; got {self.epsilon!r}.")

    def _axes(self, rank: int) -> tuple[int, ...]:
        return tuple(range(rank)) if self.over == "all" else self.over

    def signal(self, signal: Signal) -> Signal:
        if not signal.is_gaussian:
            raise ValueError(
                f"nn.LayerNorm must act on the output of nn.Dense or nn.Conv; here it acts on {signal.source}, where "
                f"the mean of the features does not vanish in the limit and is not tracked"
            )
        if any(axis >= len(signal.space) for axis in self._axes(len(signal.space))):
            raise ValueError(f"nn.LayerNorm has over={self.over}, but it receives positions {signal.space}")
        return signal.replace()

    def limit_rows(self, k):
        variance = k.equal_positions().nngp
        shared = jnp.mean(variance, axis=self._axes(k.rank), keepdims=True)
        inverse = jnp.broadcast_to(norm_and_inverse(shared + self.epsilon)[1], variance.shape)
        return self.limit_cross(k, inverse, inverse), inverse

    def limit_cross(self, k, statistics1, statistics2):
        first, second = k.align(statistics1, statistics2)
        return k.map(lambda v: v * (first * second))

    def masked_factor(self, mask, statistics):
        # the variance was averaged over positions that are not there too
        share = jnp.mean(mask, axis=self._axes(mask.ndim - 1), keepdims=True)
        if not self.epsilon:
            return mask * jnp.sqrt(share)
        raised = statistics**-2  # the averaged variance and epsilon
        return mask * jnp.sqrt(raised / ((raised - self.epsilon) / jnp.where(share > 0, share, 1) + self.epsilon))

    def init(self, key, signal, parametrisation):
        return {}

    def apply(self, parameters, x, parametrisation, key):
        return self.apply_masked(parameters, x, jnp.ones(x.shape[:-1], x.dtype), parametrisation, key)

    def apply_masked(self, parameters, x, mask, parametrisation, key):
        axes = (*(axis + 1 for axis in self._axes(x.ndim - 2)), -1)
        mask = mask[..., None]
        share = jnp.mean(mask, axis=axes, keepdims=True)
        share = jnp.where(share > 0, share, 1)
        centred = mask * (x - jnp.mean(x, axis=axes, keepdims=True) / share)
        variance = jnp.mean(centred**2, axis=axes, keepdims=True) / share
        return centred * norm_and_inverse(variance + self.epsilon)[1]


@savable("nn.Dropout")
class Dropout(Leaf):
    """Multiply every feature by 0 with probability `rate` and by 1 / (1 - rate) otherwise.

    The limit is that of a network whose dropout is on, with masks drawn anew for every input: the
    kernel of an input with itself grows, that of two inputs does not change. (`kernel(x, x)` treats equal
    rows as two inputs; `kernel(x)` knows that its diagonal is one.) The finite network drops features
    only when `apply` gets a key.

    Args:
        rate: the probability of a zero, in [0, 1).
    """

    rate: float = eqx.field(static=True)
    is_elementwise = True

    def __check_init__(self):
        if isinstance(self.rate, bool) or not isinstance(self.rate, (int, float)) or not 0 <= self.rate < 1:
            raise ValueError(f"rate must be a number in [0, 1); got {self.rate!r}.")

    def signal(self, signal: Signal) -> Signal:
        if signal.multiple == 0 and self.rate > 0:
            raise ValueError(
                "nn.Dropout must come after the first nn.Dense or nn.Conv: a mask on the inputs themselves does not "
                "average out as the width grows"
            )
        return signal.replace(is_gaussian=signal.is_gaussian and self.rate == 0)

    def limit_rows(self, k):
        keep = 1 - self.rate
        equal = k.equal_positions().map(lambda v: v / keep)
        return (k.with_equal_positions(equal) if k.all_pairs and k.rank else equal), None

    def limit_cross(self, k: Covariance, statistics1, statistics2):
        return k

    def init(self, key, signal, parametrisation):
        return {}

    def apply(self, parameters, x, parametrisation, key):
        if key is None:
            return x
        kept = jax.random.bernoulli(key, 1 - self.rate, x.shape)
        return jnp.where(kept, x / (1 - self.rate), 0)
