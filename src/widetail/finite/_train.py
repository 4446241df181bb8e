"""Thousands of networks trained by gradient descent on all rows at once, as in the theorems."""

import dataclasses
import functools
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from widetail.checks import check_count, check_targets, two_dimensional
from widetail.finite._chunks import chunk_size, network_key
from widetail.finite._descent import (
    PLAIN,
    Optimiser,
    Training,
    check_losses,
    descend,
    row_losses,
    trainable_part,
)
from widetail.finite._draws import NetworkDraws, check_inputs, draw_scales, split_key
from widetail.finite._network import ScaledNetwork
from widetail.nn import Layer, Parametrisation
from widetail.priors import ScalePrior
from widetail.process import Layers, Readout
from widetail.progress import Progress, reporter

# The arrays of a chunk should fit into the cache of the processor.
CHUNK_BYTES = 64e6
STEPS_BETWEEN_LOOKS = 50


@dataclasses.dataclass(frozen=True, eq=False)
class TrainedDraws(NetworkDraws):
    """The values of many trained networks at m inputs.

    Attributes:
        losses: mean squared error of every network on the training rows at the end, shape (networks,).
        learning_rates: of every network, shape (networks,).
    """

    losses: Float[np.ndarray, " networks"]
    learning_rates: Float[np.ndarray, " networks"]


def train(
    net: Layer,
    prior: ScalePrior,
    x: Any,
    y: Any,
    x_new: Any,
    *,
    width: int,
    networks: int,
    key: PRNGKeyArray,
    layers: Layers = "all",
    steps: int = 1000,
    learning_rate: Any = None,
    optimiser: Optimiser = PLAIN,
    parametrisation: Parametrisation = "ntk",
    readout: Readout = "scaled",
    memory: float | None = None,
    progress: Progress = False,
) -> TrainedDraws:
    """Random networks trained on (x, y) by gradient descent on the mean squared error, evaluated at `x_new`.

    After `steps` small steps of size `learning_rate` the law of wide networks is close to
    `ScaleMixture(net, prior).trained(x, y, layers, steps * learning_rate, readout=readout)(x_new)`, and at the end of
    training to that of infinite time (theorems 3.2 and 3.3).

    Args:
        net, prior, x, y, x_new, width, networks, key, readout, progress: as in `train_readout`.
        layers: "all", or "readout", for which `train_readout` is exact.
        steps: number of steps, each on all rows.
        learning_rate: a number, or one for each network; by default the fastest that is safe for a wide network,
            which depends on its readout variance (see `stable_rates`).
        optimiser: what optax makes of the gradients *before* they are multiplied by the learning rate: nothing by
            default. `optax.trace(0.9)` is momentum, which reaches the end sooner, but with ten times the step: at a
            finite width that can be another end than the limit's, where plain descent agrees with it.
        parametrisation: "ntk" or "standard".
        memory: bytes that networks may take at once; 64 MB by default.

    Raises:
        DivergenceError: the loss of a network is NaN or infinite.

    Example:
        >>> import jax, numpy as np, widetail as wt
        >>> x = np.linspace(-1.0, 1.0, 4)[:, None]
        >>> draws = wt.finite.train(wt.nn.mlp(1, "erf"), wt.PointMass(1.0), x, np.sin(x[:, 0]), x, width=64, networks=3,
        ...                         steps=200, key=jax.random.key(0))
        >>> draws.values.shape, bool(np.all(draws.losses < 0.1))
        ((3, 4), True)
    """
    x, x_new = check_inputs("x", x), check_inputs("x_new", x_new)
    if x.shape[1:] != x_new.shape[1:]:
        raise ValueError(f"x and x_new must hold inputs of one shape; got {x.shape[1:]} and {x_new.shape[1:]}.")
    if layers not in get_args(Layers):
        raise ValueError(f"layers must be 'readout' or 'all'; got {layers!r}.")
    y = check_targets(x, y)
    targets = two_dimensional(y)
    steps = check_count("steps", steps, least=0)
    network = ScaledNetwork(net, width, outputs=targets.shape[1], parametrisation=parametrisation, readout=readout)
    scale_key, networks_key = split_key(key)
    scales = draw_scales(prior, scale_key, networks)
    rates = _rates(learning_rate, net, x, scales, layers, readout, parametrisation)
    size = chunk_size(network, x.shape[1:], len(x), copies=3.0, memory=CHUNK_BYTES if memory is None else memory)
    loop = _Loop(network, optimiser, layers, jnp.asarray(x, jnp.float32), jnp.asarray(targets, jnp.float32))
    report = reporter(progress, "training")
    size, count = min(size, len(scales)), len(scales)
    parts = []
    for start in range(0, count, size):
        numbers = np.minimum(np.arange(start, start + size), count - 1)
        keys = jax.vmap(lambda number: network_key(networks_key, number))(jnp.asarray(numbers, jnp.uint32))
        values, losses = loop.run(
            keys, scales[numbers], rates[numbers], steps, jnp.asarray(x_new, jnp.float32),
            lambda done, start=start: report(start * steps + done * size, count * max(steps, 1)),
        )  # fmt: skip
        kept = min(size, count - start)
        parts.append((values[:kept], losses[:kept]))
    report(count * max(steps, 1), count * max(steps, 1))
    values, losses = (np.concatenate(part).astype(np.float64) for part in zip(*parts, strict=True))
    return TrainedDraws(values[..., 0] if y.ndim == 1 else values, scales, losses, rates)


def stable_rates(
    net: Layer, x: Any, scales: Any, *, layers: Layers = "all", readout: Readout = "scaled", share: float = 0.8
) -> Float[np.ndarray, " networks"]:
    """Learning rates for networks of the given readout variances, from the largest eigenvalue of their wide limit.

    Gradient descent on the mean squared error of n rows is stable below n / (largest eigenvalue of the tangent
    kernel), and the tangent kernel depends on the readout variance: one rate for all networks would be the one
    that the largest variance of a heavy-tailed prior allows.

    Args:
        net: the body, in NTK parametrisation.
        x: training inputs, rows first.
        scales: readout variances.
        layers: "all" or "readout".
        readout: "scaled" or "direct".
        share: fraction of n / (2 x eigenvalue), the rate that removes the error along its eigenvector at once.
    """
    scales = np.asarray(scales, np.float64)
    values = net.kernel(np.asarray(x, np.float64), get="nngp" if layers == "readout" else "both")
    nngp = np.asarray(values.nngp, np.float64)
    hidden = np.zeros_like(nngp) if layers == "readout" else np.asarray(values.ntk, np.float64) - nngp
    if readout == "scaled":
        largest = scales * np.linalg.eigvalsh(nngp + hidden)[-1]
    else:
        largest = np.array([np.linalg.eigvalsh(nngp + scale * hidden)[-1] for scale in scales])
    return share * len(nngp) / (2 * largest)


def _rates(rate: Any, net: Layer, x: Any, scales: Any, layers: Any, readout: Any, parametrisation: Any) -> np.ndarray:
    if rate is None:
        if parametrisation != "ntk":
            raise ValueError(
                "learning_rate must be given for parametrisation='standard': how fast it may be depends on the width; "
                "start from the one of the NTK parametrisation divided by the width."
            )
        return stable_rates(net, x, scales, layers=layers, readout=readout)
    rates = np.asarray(rate, np.float64)
    if rates.shape not in ((), scales.shape) or not np.all(np.isfinite(rates) & (rates > 0)):
        raise ValueError(f"learning_rate must be positive: a number, or one for each of {len(scales)} networks.")
    return np.broadcast_to(rates, scales.shape).copy()


@dataclasses.dataclass(frozen=True, eq=False)
class _Loop:
    """Training of a chunk of networks."""

    network: ScaledNetwork
    optimiser: Optimiser
    layers: Layers
    x: Any
    y: Any

    def run(
        self, keys: Any, scales: np.ndarray, rates: np.ndarray, steps: int, x_new: Any, report: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Values at `x_new` and the last losses."""
        scale, rate = jnp.asarray(scales, jnp.float32), jnp.asarray(rates, jnp.float32)
        options = (self.optimiser, self.layers)
        parameters, inputs, state = _start(self.network, *options, keys, scale, self.x)
        for start in range(0, steps, STEPS_BETWEEN_LOOKS):
            count = min(STEPS_BETWEEN_LOOKS, steps - start)
            state, losses = _steps(self.network, *options, state, scale, rate, inputs, self.y, count)
            check_losses(losses, scales, rates, f"within {start + count} steps")
            report(start + count)
        values, losses = _finish(self.network, self.layers, parameters, state, scale, inputs, self.y, x_new)
        check_losses(losses, scales, rates, f"within {steps} steps")
        return np.asarray(values), np.asarray(losses)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _start(network: ScaledNetwork, optimiser: Any, layers: Layers, keys: Any, scales: Any, x: Any) -> Any:
    parameters = jax.vmap(lambda key, scale: network.init(key, x.shape[1:], scale))(keys, scales)
    if layers == "all":
        inputs = jnp.broadcast_to(x, (len(keys), *x.shape))
    else:
        inputs = jax.vmap(lambda p: network.features(p, x))(parameters)
    trained = trainable_part(parameters, layers)
    return parameters if layers == "readout" else None, inputs, Training(trained, jax.vmap(optimiser.init)(trained))


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 8), donate_argnums=3)
def _steps(
    network: ScaledNetwork,
    optimiser: Any,
    layers: Layers,
    state: Any,
    scales: Any,
    rates: Any,
    x: Any,
    y: Any,
    count: int,
) -> Any:
    ones = jnp.ones(len(y), y.dtype)

    def one(state: Any, scale: Any, rate: Any, x: Any) -> Any:
        return descend(network, optimiser, "squared", layers, state, scale, rate, x, y, ones)

    def body(state: Any, _: Any) -> Any:
        return jax.vmap(one)(state, scales, rates, x)

    state, losses = jax.lax.scan(body, state, length=count)
    return state, losses[-1]


@functools.partial(jax.jit, static_argnums=(0, 1))
def _finish(
    network: ScaledNetwork, layers: Layers, parameters: Any, state: Any, scales: Any, x: Any, y: Any, x_new: Any
) -> Any:
    def one(parameters: Any, trained: Any, scale: Any, x: Any) -> Any:
        if layers == "all":
            f, values = network.apply(trained, scale, x), network.apply(trained, scale, x_new)
        else:
            f = network.read_out(trained, scale, x)
            values = network.read_out(trained, scale, network.features(parameters, x_new))
        return values, jnp.mean(row_losses("squared", f, y))

    return jax.vmap(one)(parameters, state.parameters, scales, x)
