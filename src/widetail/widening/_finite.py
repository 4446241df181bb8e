"""The user's own model at a width, with the parametrisation that the limit is of."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from widetail.widening._models import Built, Width


class FiniteModel(eqx.Module):
    """The user's model at one width: `init` draws its parameters, `apply` evaluates it.

    Parameters are a dictionary of standard normal arrays by path; `apply` multiplies each by the root of its variance
    over its fan-in (the parametrisation of the tangent kernel).

    Attributes:
        width: the width.
        deviations: by path, the standard deviation of the entries; parameters that are constants are not in it.
        of_whole_numbers: whether the model takes whole numbers, such as those of tokens.
    """

    width: Width = eqx.field(static=True)
    deviations: dict[str, float] = eqx.field(static=True)
    built: Built = eqx.field(static=True)
    constants: dict[str, Any]
    of_whole_numbers: bool = eqx.field(static=True, default=False)

    def init(self, key: Any, input_shape: tuple[int, ...] | None = None) -> dict[str, jax.Array]:
        """Draw parameters; `input_shape` is there for the sake of the interface of networks."""
        shapes = dict(zip(self.built.paths, (leaf.shape for leaf in self.built.leaves), strict=True))
        keys = jax.random.split(key, len(self.deviations))
        return {path: jax.random.normal(k, shapes[path]) for path, k in zip(self.deviations, keys, strict=True)}

    def model(self, parameters: dict[str, Any]) -> Any:
        """The user's own model with these parameters."""
        return self.built.rebuild(self._leaves(parameters, jnp.float32))

    def apply(self, parameters: dict[str, Any], x: Any, *, key: Any = None) -> jax.Array:
        """The model on a batch: (n, outputs)."""
        x = jnp.asarray(x)
        leaves = self._leaves(parameters, x.dtype)
        rows = x.astype(jnp.int32) if self.of_whole_numbers else x
        y = jax.vmap(lambda row: self.built.apply(leaves, row))(rows)
        return y.reshape(x.shape[0], -1)

    def _leaves(self, parameters: dict[str, Any], dtype: Any) -> list[Any]:
        found = []
        for path, leaf in zip(self.built.paths, self.built.leaves, strict=True):
            if path in self.deviations:
                found.append((parameters[path] * self.deviations[path]).astype(dtype))
            else:
                constant = np.broadcast_to(np.asarray(self.constants.get(path, 0.0)), leaf.shape)
                found.append(jnp.asarray(constant, dtype))
        return found


def fan_in(axes: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """How many summands a product with a parameter of this shape has."""
    return math.prod(shape[axis] for axis in axes)
