"""The covariance of a network's outputs given its body, for as many bodies as wanted."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from widetail.checks import check_count
from widetail.finite._draws import check_inputs
from widetail.nn import Activation, Dense, Layer, Sequential
from widetail.progress import Progress, reporter

NORMALS_PER_CHUNK = 4_000_000


def body_covariances(
    net: Layer, x: Any, *, width: int, networks: int, seed: int = 0, progress: Progress = False
) -> Float[np.ndarray, "networks m m"]:
    r"""$H H^\top / N$ of random bodies at the rows of `x`: what the limit's $\bar K$ is at a finite width.

    Given the body, the outputs of a network of readout variance $\beta$ are normal with covariance $\beta$ times
    this. Averaging over bodies what is known given each of them shows the law at a finite width far more
    precisely than outputs of networks do.

    Only for networks of Dense layers and activations. Of the weights between two hidden layers only their
    products with the m features are drawn, N m normal numbers of the right covariance instead of N^2: the law is
    exactly that of `sample`, at a fraction of its cost. In float64.

    Args:
        net: a Sequential of Dense layers and activations.
        x: inputs, shape (m, features).
        width: N.
        networks: how many bodies.
        seed: of NumPy's generator.
        progress: True for a bar on a terminal, or a function of (networks done, all of them).

    Example:
        >>> import numpy as np
        >>> from widetail import finite, nn
        >>> net, x = nn.mlp(2, "erf"), np.array([[0.5], [1.0]])
        >>> k = finite.body_covariances(net, x, width=64, networks=4000)
        >>> bool(np.allclose(k.mean(0), net.kernel(x).nngp, rtol=0.03))
        True
    """
    x = check_inputs("x", x).astype(np.float64)
    width, networks = check_count("width", width), check_count("networks", networks)
    layers = net.layers if isinstance(net, Sequential) else (net,)
    if x.ndim != 2 or not all(isinstance(layer, (Dense, Activation)) for layer in layers):
        raise ValueError(f"net must be a Sequential of Dense layers and activations on vectors; got {net!r}.")
    net.output_signal(x.shape[1:])
    rng = np.random.default_rng(seed)
    size = max(1, NORMALS_PER_CHUNK // (width * len(x)))
    report = reporter(progress, f"width {width}")
    parts = []
    for start in range(0, networks, size):
        report(start, networks)
        h = np.broadcast_to(x, (min(size, networks - start), *x.shape))
        for layer in layers:
            h = _dense(layer, h, width, rng) if isinstance(layer, Dense) else _activate(layer, h)
        parts.append(h @ np.swapaxes(h, 1, 2) / h.shape[-1])
    report(networks, networks)
    return np.concatenate(parts)


def _dense(layer: Dense, h: np.ndarray, width: int, rng: np.random.Generator) -> np.ndarray:
    """Pre-activations: independent over the width, normal with the covariance that the features give."""
    weighted = h * np.sqrt(np.asarray(layer.weight_var, np.float64))  # one variance for all, or one per input feature
    covariance = weighted @ np.swapaxes(weighted, 1, 2) / h.shape[-1] + float(layer.bias_var)
    values, vectors = np.linalg.eigh(covariance)  # not Cholesky: with few features the matrix is singular
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return root @ rng.standard_normal((len(h), h.shape[1], width))


def _activate(layer: Layer, h: np.ndarray) -> np.ndarray:
    assert isinstance(layer, Activation)
    with jax.enable_x64(True):
        return np.asarray(layer.function(jax.numpy.asarray(h)))
