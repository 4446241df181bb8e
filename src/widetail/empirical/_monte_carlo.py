"""Kernels of wide networks as means over random finite ones."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from widetail.checks import check_count
from widetail.empirical._kernel import EmpiricalKernel
from widetail.empirical._outputs import Layout
from widetail.kernels import Get


class MonteCarlo(NamedTuple):
    """Mean kernels of random networks, with the standard errors of these means.

    Attributes:
        nngp: products of outputs, shape (n1, n2, ...) as `EmpiricalKernel.nngp` has them; None when not asked for.
        ntk: the tangent kernel; None when not asked for.
        nngp_error, ntk_error: standard error of every entry.
        networks: how many networks were drawn.
    """

    nngp: Any
    ntk: Any
    nngp_error: Any
    ntk_error: Any
    networks: int


class _Mean:
    """Mean and standard error of arrays that come one by one."""

    def __init__(self) -> None:
        self.count, self.mean, self.squares = 0, np.zeros(()), np.zeros(())

    def add(self, value: Any) -> None:
        self.count += 1
        gap = np.asarray(value, float) - self.mean
        self.mean = self.mean + gap / self.count
        self.squares = self.squares + gap * (np.asarray(value, float) - self.mean)

    def error(self) -> np.ndarray:
        return np.sqrt(self.squares / (self.count * (self.count - 1)))


def monte_carlo(
    model: Any,
    key: Any,
    x1: Any,
    x2: Any = None,
    *,
    networks: int = 100,
    get: Get = "both",
    outputs: str | Layout = "mean",
    init: Callable[[Any], Any] | None = None,
    method: str = "auto",
) -> MonteCarlo:
    """Kernels of random finite networks: their means, and how far these may be from what they estimate.

    The standard error is that of the random draws. A finite width has a bias beside it, which shrinks with the width
    and not with the number of networks.

    Args:
        model: `net.at_width(n)`, or a function `apply(params, x)` of a batch, with `init`.
        key: a key of `jax.random`.
        x1: inputs, rows first.
        x2: further inputs, or None for `x1` with itself.
        networks: how many are drawn, at least two.
        get: "nngp", "ntk" or "both".
        outputs: which pairs of outputs, as in `EmpiricalKernel.ntk`.
        init: `init(key)` draws parameters, for a function.
        method: how tangent kernels are computed, as in `EmpiricalKernel`.

    Example:
        >>> import jax, numpy as np
        >>> from widetail import empirical, nn
        >>> net = nn.mlp(depth=1, activation="erf")
        >>> x = np.eye(3)
        >>> found = empirical.monte_carlo(net.at_width(64), jax.random.key(0), x, networks=50, get="ntk")
        >>> bool(np.all(np.abs(found.ntk - net.kernel(x).ntk) < 5 * found.ntk_error + 0.05))
        True
    """
    if check_count("networks", networks) < 2:
        raise ValueError("networks must be at least 2, so that a standard error can be told; got 1.")
    if get not in ("nngp", "ntk", "both"):
        raise ValueError(f"get must be 'nngp', 'ntk' or 'both'; got {get!r}.")
    if init is None and not hasattr(model, "init"):
        raise ValueError("init must be given for a function apply(params, x): init(key) draws its parameters.")
    shape = np.shape(x1)[1:]
    draw = (lambda own: model.init(own, shape)) if init is None else init
    means = {name: _Mean() for name in ("nngp", "ntk") if get in (name, "both")}
    kernel = None
    for own in jax.random.split(key, networks):
        params = draw(own)
        kernel = EmpiricalKernel(model, params, method=method) if kernel is None else kernel.with_params(params)
        for name, mean in means.items():
            mean.add(getattr(kernel, name)(x1, x2, outputs))
    nngp, ntk = (means.get(name) for name in ("nngp", "ntk"))
    return MonteCarlo(
        nngp=nngp and nngp.mean,
        ntk=ntk and ntk.mean,
        nngp_error=nngp and nngp.error(),
        ntk_error=ntk and ntk.error(),
        networks=networks,
    )
