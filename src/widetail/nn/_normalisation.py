"""Layer normalisation and dropout."""

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
    r"""Subtract the mean of the features at each position and divide by their standard deviation.

    In the limit mean and variance are numbers: 0 and $k_{pp}$, so a covariance becomes a correlation.
    """

    is_elementwise = True

    def signal(self, signal: Signal) -> Signal:
        if not signal.is_gaussian:
            raise ValueError(
                f"nn.LayerNorm must act on the output of nn.Dense or nn.Conv; here it acts on {signal.source}, where "
                f"the mean of the features does not vanish in the limit and is not tracked"
            )
        return signal.replace()

    def limit_rows(self, k):
        inverse = norm_and_inverse(k.equal_positions().nngp)[1]
        return self.limit_cross(k, inverse, inverse), inverse

    def limit_cross(self, k, statistics1, statistics2):
        first, second = k.align(statistics1, statistics2)
        return k.map(lambda v: v * (first * second))

    def init(self, key, signal, parametrisation):
        return {}

    def apply(self, parameters, x, parametrisation, key):
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(centred**2, axis=-1, keepdims=True)
        return centred * norm_and_inverse(variance)[1]


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
