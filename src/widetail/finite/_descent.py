"""One step of gradient descent of one network, and checks for divergence."""

import dataclasses
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from widetail.finite._network import ScaledNetwork
from widetail.numerics import DivergenceError, namespace
from widetail.process import Layers

Loss = Literal["squared", "cross_entropy"]


@runtime_checkable
class Optimiser(Protocol):
    """What optax's gradient transformations are; stated here, so that importing this room does not import optax."""

    @property
    def init(self) -> Any:
        """`init(parameters) -> state`."""
        ...

    @property
    def update(self) -> Any:
        """`update(gradient, state, parameters) -> (direction, state)`."""
        ...


@dataclasses.dataclass(frozen=True)
class PlainDescent:
    """The gradient as it is; the step size is applied outside of the optimiser."""

    def init(self, parameters: Any) -> tuple[()]:
        """Nothing to remember."""
        return ()

    def update(self, gradient: Any, state: tuple[()], parameters: Any) -> tuple[Any, tuple[()]]:
        """The gradient."""
        return gradient, state


PLAIN = PlainDescent()


class Training(NamedTuple):
    """The state of training."""

    parameters: Any
    optimiser: Any


def trainable_part(parameters: Any, layers: Layers) -> Any:
    """The parameters that are trained."""
    return parameters if layers == "all" else {"readout": parameters["readout"]}


def row_losses(loss: Loss, f: Any, y: Any) -> Any:
    """The loss of every row: squared error summed over outputs, or minus the log probability of the class."""
    xp = namespace(f)
    if loss == "squared":
        return xp.sum((f - y) ** 2, axis=-1)
    f = f - xp.max(f, axis=-1, keepdims=True)
    return xp.log(xp.sum(xp.exp(f), axis=-1)) - xp.take_along_axis(f, y[:, None], axis=-1)[:, 0]


def descend(
    network: ScaledNetwork,
    optimiser: Optimiser,
    loss: Loss,
    layers: Layers,
    state: Training,
    scale: Any,
    rate: Any,
    x: Any,
    y: Any,
    weights: Any,
    key: Any = None,
) -> tuple[Training, Any]:
    """One step on the weighted mean loss of a batch; the new state, and the loss before the step.

    With layers="readout", `x` are features.
    """

    def mean_loss(parameters: Any) -> Any:
        h = network.features(parameters, x, key=key) if layers == "all" else x
        f = network.read_out(parameters, scale, h)
        # weights are whole numbers: 1 stands in for the weight of a batch that a member holds out altogether
        return jnp.sum(weights * row_losses(loss, f, y)) / jnp.maximum(jnp.sum(weights), 1)

    value, gradient = jax.value_and_grad(mean_loss)(state.parameters)
    with jax.numpy_dtype_promotion("standard"):  # optax is not written for the strict one
        updates, optimiser_state = optimiser.update(gradient, state.optimiser, state.parameters)
    parameters = jax.tree.map(lambda p, update: p - rate * update, state.parameters, updates)
    return Training(parameters, optimiser_state), value


def check_losses(losses: Any, scales: np.ndarray, rates: Any, when: str) -> None:
    """Raise where the loss of a network is not finite; `losses` is of shape (networks,)."""
    bad = np.flatnonzero(~np.isfinite(np.asarray(losses)))
    if not len(bad):
        return
    first = int(bad[0])
    rate = float(np.broadcast_to(np.asarray(rates), np.shape(scales))[first])
    raise DivergenceError(
        f"training diverged {when}: the loss of {len(bad)} of {len(scales)} networks is NaN or infinite; the first is "
        f"network {first}, with readout variance {scales[first]:.4g} and learning rate {rate:.3g}. Use a smaller "
        f"learning_rate, or inputs and targets of standard deviation 1."
    )
