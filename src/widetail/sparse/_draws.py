"""How expectations over f and over the scale are taken."""

import functools
import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.stats import norm, qmc

from widetail.sparse.likelihoods import Likelihood
from widetail.sparse.scales import ScaleLaw
from widetail.sparse.scales._inverse_gamma import NODES

DRAWS = 16
MOST_DRAWS = 128  # with few rows errors of their draws do not average out, and more cost nothing
# Rows of a chunk have different draws: the means would adapt to the errors of a few shared ones.
POINTS = 32_768


def draws_of(rows: int) -> int:
    """Draws of f for each of so many rows: a power of two."""
    return min(MOST_DRAWS, max(DRAWS, POINTS >> (max(rows, 1) - 1).bit_length()))


class Nodes(NamedTuple):
    """How expectations over f and the scale are taken: in the precision of the features."""

    scales: Any  # (nodes,)
    weights: Any  # (nodes,)
    table: Any  # standard normal draws, (nodes, rows, draws, outputs); further rows begin again


def nodes_of(
    law: ScaleLaw,
    likelihood: Likelihood,
    outputs: int,
    seed: int,
    dtype: Any,
    draws: int = DRAWS,
    rows: int | None = None,
) -> Nodes:
    """Quadrature over the scale; where outputs are coupled, one stratum of the scale for each draw of f.

    `rows` is how many there will be at a time, if few.
    """
    if not likelihood.couples_outputs:
        scales, weights = law.nodes()
        # laws that change their number of nodes would have every pass compiled again
        missing = -len(scales) % NODES if len(scales) > 1 else 0
        scales, weights = np.pad(scales, (0, missing), mode="edge"), np.pad(weights, (0, missing))
        table = np.zeros((len(scales), 1, 0, outputs))
    else:
        scales, weights = law.strata(draws)
        table = normal_table(len(scales), draws // len(scales), outputs, seed)[:, :rows]
    return Nodes(*(np.ascontiguousarray(part, dtype) for part in (scales, weights, table)))


@functools.lru_cache(maxsize=4)
def normal_table(nodes: int, draws: int, outputs: int, seed: int) -> np.ndarray:
    """Scrambled Sobol points as standard normal draws, consecutive ones for a row, (nodes, rows, draws, outputs)."""
    rows = max(1, POINTS // (nodes * draws))
    sobol = qmc.Sobol(outputs + 1, scramble=True, rng=np.random.default_rng(seed))
    points = sobol.random_base2(math.ceil(math.log2(rows * nodes * draws)))[: rows * nodes * draws]
    points = points.reshape(rows, nodes * draws, outputs + 1)
    # the first coordinate says which node a point goes to, so that nodes and draws together are evenly spread
    order = np.argsort(points[..., 0], axis=1)
    z = norm.ppf(np.clip(np.take_along_axis(points[..., 1:], order[..., None], axis=1), 1e-9, 1 - 1e-9))
    return np.ascontiguousarray(np.swapaxes(z.reshape(rows, nodes, draws, outputs), 0, 1))


def draws_for(nodes: Nodes, rows: int) -> Any:
    """Draws of f for every row."""
    times = -(-rows // nodes.table.shape[1])
    return jnp.tile(jnp.asarray(nodes.table), (1, times, 1, 1))[:, :rows]
