"""The posterior of a scale mixture whose kernel and solves are those of a cluster.

Importing this module is what `ScaleMixture.posterior(..., client=client)` needs. It is apart from the others of this
room, because it needs JAX: workers that only factor matrices do without its memory.
"""

import dataclasses
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from widetail.checks import like_targets, two_dimensional
from widetail.distributed._cluster import check_client
from widetail.distributed._conjugate import ConjugateGradients, conjugate_gradients
from widetail.distributed._crosses import Crosses
from widetail.distributed._factor import BlockCholesky, cholesky
from widetail.distributed._gram import checked, gram
from widetail.distributed._inputs import StoredInputs
from widetail.distributed._work import KernelJob
from widetail.mixing import scale_posterior
from widetail.predictive import Predictive, from_scale
from widetail.process import (
    IndependentPosterior,
    Posterior,
    RowFactors,
    ScaledPosterior,
    add_to_diagonal,
    as_double,
    check_new,
    register_cluster,
    scale_likelihood,
)
from widetail.stores import Location, StoreMismatchError

Solver = ConjugateGradients | None


def condition_on_cluster(
    kernel: Any,
    prior: Any,
    noise: float,
    inference: Any,
    x: Any,
    y: np.ndarray,
    rows: RowFactors,
    kind: type[Posterior],
    client: Any,
    store: str | Path | None,
    solver: Solver,
) -> Posterior:
    """`ScaleMixture.posterior` with a client."""
    check_client(client)
    if not (solver is None or isinstance(solver, ConjugateGradients)):
        raise ValueError(f"solver must be None or wt.distributed.ConjugateGradients(...); got {solver!r}.")
    folder = _folder(store)
    matrix = gram(kernel, x, client, folder.inside("K.zarr").address)
    if kind is IndependentPosterior:
        if solver is not None:
            raise ValueError("solver: with IndependentNoise there is only the eigendecomposition, by this process.")
        values = as_double(np.asarray(matrix))
        return IndependentPosterior._from_matrix(kernel, prior, noise, inference, x, y, rows, values)
    kernel, x, rows_per_tile = checked(kernel, x, "nngp")
    inputs = StoredInputs.write(folder.inside("x.zarr"), x, matrix.tiles.block)
    on_diagonal = noise * rows.factors
    if solver is None:
        factor = _factored(matrix, client, folder.inside("L.zarr").address, on_diagonal)
        crosses_factor = factor.tiles
    else:
        factor = conjugate_gradients(matrix, client, noise=on_diagonal, settings=solver)
        crosses_factor = None
    job = dataclasses.replace(KernelJob.of(kernel, "nngp", rows_per_tile), rows_per_tile=None)
    crosses = Crosses(client, job, inputs, matrix.tiles, crosses_factor)
    weights, quad = factor.weights_and_quad(two_dimensional(y))
    likelihood = scale_likelihood(quad, factor.log_det, rows, noise, inference)
    scale = scale_posterior(prior, likelihood, inference.method, **inference.options)
    evidence = float(np.sum(scale.log_evidence))
    posterior = ClusterPosterior(
        kernel, prior, noise, inference, x, y, rows, factor, weights, likelihood, scale, evidence, crosses, solver
    )
    if store is None:
        weakref.finalize(posterior, shutil.rmtree, folder.address, ignore_errors=True)
    return posterior


def _folder(store: str | Path | None) -> Location:
    return Location.of(tempfile.mkdtemp(prefix="widetail-") if store is None else store)


def _factored(matrix: Any, client: Any, location: str, noise: np.ndarray) -> BlockCholesky:
    try:
        return cholesky(matrix, client, location, noise=noise)
    except StoreMismatchError:  # of other noise: unlike the kernel it is of no use to anybody else
        return cholesky(matrix, client, location, noise=noise, restart=True)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ClusterPosterior(ScaledPosterior):
    """The posterior of `ScaleMixture.posterior(..., client=client)`: the same law, by the cluster, in blocks.

    It needs the client and the store for as long as it is used.

    Attributes:
        factor: `BlockCholesky` or `IterativeSolver`.
        solver: how it was asked for.
    """

    crosses: Crosses
    solver: Solver

    @property
    def log_evidence_error(self) -> float:
        """Standard error of `log_evidence`; 0 for an exact factorisation."""
        return 0.5 * two_dimensional(self.y).shape[1] * self.factor.log_det_error

    def update(self, x: Any, y: Any, *, noise_weights: Any = None, counts: Any = None) -> "ClusterPosterior":
        """The posterior with more rows, computed anew in a temporary store."""
        more = self._more_rows(x, y, noise_weights, counts)
        arguments = (self.kernel, self.prior, self.noise, self.inference, more.x, more.y, more.rows)
        updated = condition_on_cluster(*arguments, ScaledPosterior, self.crosses.client, None, self.solver)
        assert isinstance(updated, ClusterPosterior)
        return updated

    def covariance(self, x1: Any, x2: Any = None) -> np.ndarray:
        own = as_double(self.kernel.kernel(x1, x2, get="nngp").nngp)
        return own - self._inner(x1, x2)

    def location(self, x_new: Any) -> np.ndarray:
        location, _ = self.crosses.moments(np.asarray(x_new), self.weights, reduce=False)
        return like_targets(location, self.y)

    def _inner(self, x1: Any, x2: Any) -> np.ndarray:
        """k(x1, x) A^{-1} k(x, x2)."""
        x1, x2 = np.asarray(x1), None if x2 is None else np.asarray(x2)
        if self.crosses.factor is not None:
            return self.crosses.inner(x1, x2)
        cross1 = self.crosses.columns(x1)
        cross2 = cross1 if x2 is None else self.crosses.columns(x2)
        return cross1.T @ self.factor.solve(cross2)

    def _predict(self, x_new: Any, *, with_noise: bool) -> Predictive:
        x_new = np.asarray(check_new(self.kernel, self.x, x_new))
        own = np.asarray(self.kernel.diagonal(x_new, get="nngp").nngp, dtype=np.float64)
        location, reduction = self.crosses.moments(x_new, self.weights, reduce=self.crosses.factor is not None)
        if self.crosses.factor is None:
            reduction = self._reduction_by_solves(x_new)
        extra = self.noise if with_noise else 0.0
        dispersion = np.maximum(own - reduction, 0.0) + extra

        def matrix() -> np.ndarray:
            covariance = self.covariance(x_new)
            add_to_diagonal(covariance, extra)
            return covariance

        return from_scale(self.scale, like_targets(location, self.y), dispersion, matrix)

    def _reduction_by_solves(self, x_new: np.ndarray) -> np.ndarray:
        step = self.crosses.rows_per_task
        parts = []
        for start in range(0, len(x_new), step):
            cross = self.crosses.columns(x_new[start : start + step])
            parts.append(np.einsum("nm,nm->m", cross, self.factor.solve(cross)))
        return np.concatenate(parts)


register_cluster(condition_on_cluster)
