"""Networks at initialisation, and with a readout trained by the exact flow."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from widetail.checks import check_targets, two_dimensional
from widetail.finite._chunks import chunk_size, over_chunks
from widetail.finite._draws import NetworkDraws, check_inputs, draw_scales, split_key
from widetail.finite._network import ScaledNetwork
from widetail.nn import Layer
from widetail.priors import ScalePrior
from widetail.process import Readout
from widetail.progress import Progress


def sample(
    net: Layer,
    prior: ScalePrior,
    x: Any,
    *,
    width: int,
    networks: int,
    key: PRNGKeyArray,
    memory: float | None = None,
    progress: Progress = False,
) -> NetworkDraws:
    """Random networks, each with a readout variance from the prior, evaluated at the rows of `x`.

    As the width grows their law approaches `ScaleMixture(net, prior).prior(x)` (theorem 3.1).

    Args:
        net: the body; the readout is implied.
        prior: prior of the readout variance.
        x: inputs, rows first, (m, *shape).
        width: entries of each hidden layer.
        networks: how many.
        key: random key; the same key gives the same networks whatever `memory` is.
        memory: bytes that the networks may take at once; 256 MB by default.
        progress: True for a bar on a terminal, or a function of (networks done, all of them).

    Example:
        >>> import jax, numpy as np, widetail as wt
        >>> x = np.linspace(-1.0, 1.0, 3)[:, None]
        >>> draws = wt.finite.sample(wt.nn.mlp(2, "erf"), wt.InverseGamma(2.0, 2.0), x, width=32, networks=100,
        ...                          key=jax.random.key(0))
        >>> draws.values.shape, draws.scales.shape
        ((100, 3), (100,))
    """
    x = check_inputs("x", x)
    network = ScaledNetwork(net, width)
    scale_key, networks_key = split_key(key)
    scales = draw_scales(prior, scale_key, networks)
    inputs = jnp.asarray(x, jnp.float32)
    values = over_chunks(
        lambda keys, chunk: _outputs(network, keys, chunk, inputs)[..., 0],
        networks_key,
        scales,
        chunk_size(network, x.shape[1:], len(x), memory=memory),
        progress=progress,
        label="networks",
    )
    return NetworkDraws(np.asarray(values, np.float64), scales)


@functools.partial(jax.jit, static_argnums=0)
def _outputs(network: ScaledNetwork, keys: Any, scales: Any, x: Any) -> Any:
    return jax.vmap(lambda key, scale: network.apply(network.init(key, x.shape[1:], scale), scale, x))(keys, scales)


def train_readout(
    net: Layer,
    prior: ScalePrior,
    x: Any,
    y: Any,
    x_new: Any,
    *,
    width: int,
    networks: int,
    key: PRNGKeyArray,
    time: float | Sequence[float] = math.inf,
    readout: Readout = "scaled",
    memory: float | None = None,
    progress: Progress = False,
) -> NetworkDraws:
    r"""Random networks whose readout is trained on (x, y) by gradient flow, evaluated at the rows of `x_new`.

    The body stays as it was drawn, so the flow is linear and solved exactly: with the features H of a network,
    $M = H H^\top / N$ and residual $r = y - f_0(x)$, the output is
    $f_0(x_*) + M_* M^{-1} (I - e^{-2 \beta t M / n})\, r$, without $\beta$ in the exponent for readout="direct".
    The loss is the mean over the rows of the squared error. As the width grows the law approaches
    `ScaleMixture(net, prior).trained(x, y, "readout", time, readout=readout)(x_new)` (theorem 3.2).

    Args:
        net, prior, width, networks, key, memory, progress: as in `sample`.
        x: inputs to train on, (n, *shape).
        y: targets, shape (n,) or (n, outputs).
        x_new: inputs to evaluate at, (m, *shape).
        time: training time, `inf` for the end of training; several times give values of shape
            (times, networks, m[, outputs]) of the same networks.
        readout: "scaled" or "direct"; different speeds, the same end.

    Example:
        >>> import jax, numpy as np, widetail as wt
        >>> x = np.linspace(-1.0, 1.0, 5)[:, None]
        >>> draws = wt.finite.train_readout(wt.nn.mlp(1, "relu"), wt.InverseGamma(2.0, 2.0), x, x[:, 0] ** 2, x,
        ...                                 width=64, networks=10, key=jax.random.key(0))
        >>> bool(np.allclose(draws.values, x[:, 0] ** 2, atol=1e-2))  # fitted
        True
    """
    x, x_new = check_inputs("x", x), check_inputs("x_new", x_new)
    if x.shape[1:] != x_new.shape[1:]:
        raise ValueError(f"x and x_new must hold inputs of one shape; got {x.shape[1:]} and {x_new.shape[1:]}.")
    y = check_targets(x, y)
    times = np.atleast_1d(np.asarray(time, dtype=np.float64))
    if times.ndim != 1 or not np.all(times >= 0):
        raise ValueError(f"time must be zero or more, a number or a sequence of them; got {time!r}.")
    targets = two_dimensional(y)
    network = ScaledNetwork(net, width, outputs=targets.shape[1], readout=readout)
    scale_key, networks_key = split_key(key)
    scales = draw_scales(prior, scale_key, networks)
    inputs = jnp.asarray(np.concatenate([x, x_new]), jnp.float32)

    def trained(keys: Any, chunk: Any) -> np.ndarray:
        features, start = (np.asarray(part, np.float64) for part in _features(network, keys, chunk, inputs))
        speeds = np.asarray(chunk, np.float64) if readout == "scaled" else np.ones(len(chunk))
        return np.moveaxis(_flow(features, start, targets, times, speeds), 0, 1)

    # features in double precision beside the network itself
    size = chunk_size(network, x.shape[1:], len(inputs), copies=2.0, memory=memory)
    values = over_chunks(trained, networks_key, scales, size, progress=progress, label="readouts")
    values = np.moveaxis(values, 1, 0)
    values = values[..., 0] if y.ndim == 1 else values
    return NetworkDraws(values if np.ndim(time) else values[0], scales)


@functools.partial(jax.jit, static_argnums=0)
def _features(network: ScaledNetwork, keys: Any, scales: Any, x: Any) -> Any:
    def one(key: Any, scale: Any) -> Any:
        parameters = network.init(key, x.shape[1:], scale)
        h = network.features(parameters, x)
        return h, network.read_out(parameters, scale, h)

    return jax.vmap(one)(keys, scales)


# Eigenvalues below this share of the largest are rounding of features in single precision; nothing is learned there.
RANK_TOLERANCE = 1e-12


def _flow(h: np.ndarray, start: np.ndarray, y: np.ndarray, times: np.ndarray, speeds: np.ndarray) -> np.ndarray:
    """Outputs at the rows behind the first n of every network, shape (times, networks, m, outputs).

    Args:
        h: features, (networks, n + m, N).
        start: outputs at time zero, (networks, n + m, outputs).
        y: targets, (n, outputs).
        times: training times.
        speeds: what the tangent kernel is multiplied by, (networks,).
    """
    n = len(y)
    train, test = h[:, :n], h[:, n:]
    tangent = train @ np.swapaxes(train, 1, 2) / h.shape[-1]
    cross = test @ np.swapaxes(train, 1, 2) / h.shape[-1]
    values, vectors = np.linalg.eigh(tangent)
    inside = values > RANK_TOLERANCE * values[:, -1:]
    values = np.where(inside, values, 1.0)
    residual = np.swapaxes(vectors, 1, 2) @ (y - start[:, :n])
    directions = cross @ vectors
    results = []
    for time in times:
        decay = np.expm1(-2 / n * speeds[:, None] * values * time) if math.isfinite(time) else -1.0
        learned = np.where(inside, -decay / values, 0.0)
        results.append(start[:, n:] + directions @ (learned[..., None] * residual))
    return np.stack(results)
