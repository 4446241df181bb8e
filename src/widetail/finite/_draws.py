"""Functions of many finite networks at the same inputs."""

import dataclasses
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from widetail.checks import check_count
from widetail.priors import ScalePrior


@dataclasses.dataclass(frozen=True, eq=False)
class NetworkDraws:
    """The values of many networks at m inputs.

    Attributes:
        values: shape (networks, m) or (networks, m, outputs); in front of it an axis of times where several were asked.
        scales: the readout variance of each network, shape (networks,).
    """

    values: Float[np.ndarray, "..."]
    scales: Float[np.ndarray, " networks"]

    def __len__(self) -> int:
        return len(self.scales)


def check_inputs(name: str, x: Any) -> np.ndarray:
    """Inputs with rows first, finite."""
    x = np.asarray(x)
    if x.ndim < 2 or 0 in x.shape or not np.issubdtype(x.dtype, np.number):
        raise ValueError(
            f"{name} must be numbers with rows first, shape (n, features) or (n, height, width, channels); got shape "
            f"{x.shape} of {x.dtype}. One input is x[None], one feature x[:, None]."
        )
    if not np.all(np.isfinite(x)):
        raise ValueError(f"{name} must be finite; {int(np.sum(~np.isfinite(x)))} entries are NaN or infinite.")
    return x


def draw_scales(prior: ScalePrior, key: PRNGKeyArray, networks: int) -> np.ndarray:
    """One readout variance per network, float64."""
    if not isinstance(prior, ScalePrior):
        raise ValueError(
            f"prior must be a prior of widetail, such as wt.InverseGamma(2.0, 2.0); got {prior!r}. "
            f"Wrap a scipy or numpyro distribution with wt.ScalePrior.wrap."
        )
    return np.asarray(prior.sample(key, (check_count("networks", networks),)), dtype=np.float64)


def split_key(key: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """Keys of the readout variances and of the networks."""
    scale_key, networks_key = jax.random.split(key)
    return scale_key, networks_key
