"""A finite network with a readout variance of its own."""

from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from widetail.nn import FiniteNetwork, Layer, Parameters, Parametrisation
from widetail.process import Readout

Scale = Any  # the readout variance of one network: a number


class ScaledNetwork(eqx.Module):
    r"""A network of finite width whose readout weights have variance $\beta$.

    Args:
        body: a network of `widetail.nn`.
        width: entries (channels) of each hidden layer.
        outputs: how many functions the readout gives; they share $\beta$.
        parametrisation: "ntk" or "standard", as in `Layer.at_width`.
        readout: "scaled" for weights $\sqrt\beta\,u$ of which u is trained (the tangent kernel is
            $\beta\bar\Theta$), or "direct" for weights $v \sim N(0, \beta)$ trained themselves (it is
            $\bar K + \beta\,\bar\Theta_{\mathrm{hidden}}$). The same functions at initialisation.

    Example:
        >>> import jax
        >>> from widetail import finite, nn
        >>> network = finite.ScaledNetwork(nn.mlp(2, "erf"), width=64)
        >>> params = network.init(jax.random.key(0), (3,), 4.0)
        >>> network.apply(params, 4.0, jax.numpy.ones((5, 3))).shape
        (5, 1)
    """

    network: FiniteNetwork
    readout: Readout = eqx.field(static=True)

    def __init__(
        self,
        body: Layer,
        width: int,
        *,
        outputs: int = 1,
        parametrisation: Parametrisation = "ntk",
        readout: Readout = "scaled",
    ):
        if not isinstance(body, Layer):
            raise ValueError(f"net must be a network of widetail.nn, such as wt.nn.mlp(2); got {body!r}.")
        if readout not in get_args(Readout):
            raise ValueError(f"readout must be 'scaled' or 'direct'; got {readout!r}.")
        self.network = body.at_width(width, outputs=outputs, parametrisation=parametrisation)
        self.readout = readout

    # Compiled functions take networks as constants, not as arguments: what is known to be zero, such as the variance
    # of a bias, decides which parameters there are. Hence equality by value, also of arrays.

    def _identity(self) -> tuple[Any, ...]:
        leaves, structure = jax.tree.flatten(self)
        return (structure, *((np.shape(leaf), np.asarray(leaf).tobytes()) for leaf in leaves))

    def __hash__(self) -> int:
        return hash(self._identity())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScaledNetwork) and self._identity() == other._identity()

    def init(self, key: PRNGKeyArray, input_shape: tuple[int, ...], scale: Scale) -> Parameters:
        """Draw the parameters of a network of readout variance `scale`, for inputs of shape (n, *input_shape)."""
        parameters = self.network.init(key, input_shape)
        if self.readout == "direct":
            readout = parameters["readout"]
            parameters = parameters | {"readout": readout * _root(scale, readout)}
        return parameters

    def features(
        self, parameters: Parameters, x: Float[Array | np.ndarray, "n *shape"], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, "n features"]:
        """What the readout sees, shape (n, features)."""
        return self.network.features(parameters, x, key=key)

    def read_out(self, parameters: Parameters, scale: Scale, h: Float[Array, "n features"]) -> Float[Array, "n out"]:
        """The output for features that `features` gave, shape (n, outputs)."""
        f = self.network.read_out(parameters, h)
        return f * _root(scale, f) if self.readout == "scaled" else f

    def apply(
        self,
        parameters: Parameters,
        scale: Scale,
        x: Float[Array | np.ndarray, "n *shape"],
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "n out"]:
        """The network on a batch, shape (n, outputs). `key` switches dropout on."""
        return self.read_out(parameters, scale, self.features(parameters, x, key=key))

    def tangent_kernel(
        self,
        parameters: Parameters,
        scale: Scale,
        x1: Float[Array | np.ndarray, "n *shape"],
        x2: Float[Array | np.ndarray, "m *shape"] | None = None,
    ) -> Float[Array, "n m"]:
        """Inner products of the gradients of the first output in all parameters: the network's own NTK.

        Holds the gradients of all rows: (n + m) times the number of parameters.
        """

        def gradients(x: Any) -> list[Array]:
            jacobian = jax.jacrev(lambda p: self.apply(p, scale, x)[:, 0])(parameters)
            return [leaf.reshape(len(x), -1) for leaf in jax.tree.leaves(jacobian)]

        first = gradients(jnp.asarray(x1))
        second = first if x2 is None else gradients(jnp.asarray(x2))
        parts = [a @ b.T for a, b in zip(first, second, strict=True)]
        return sum(parts[1:], parts[0])


def _root(scale: Scale, like: Array) -> Array:
    return jnp.sqrt(jnp.asarray(scale, like.dtype))
