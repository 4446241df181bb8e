"""Scale mixtures of wide-network Gaussian processes."""

import math
from typing import Any, cast, get_args

import equinox as eqx
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from widetail.checks import check_targets
from widetail.files import savable
from widetail.kernels import Kernel
from widetail.mixing import Method, scale_posterior
from widetail.numerics import is_traced
from widetail.predictive import Predictive, from_scale
from widetail.priors import InverseGamma, ScalePrior
from widetail.process._adapter import CallableKernel, as_kernel
from widetail.process._base import Posterior, as_double
from widetail.process._cluster import condition_on_cluster
from widetail.process._independent import IndependentPosterior
from widetail.process._input_posterior import InputPosterior, NoiseStart
from widetail.process._noise import IndependentNoise, InputNoise, Noise, RowNoise, ScaledNoise
from widetail.process._options import Inference, ScaleSharing
from widetail.process._row_posterior import RowPosterior
from widetail.process._rows import RowFactors, check_counts, check_noise_weights
from widetail.process._scaled import ScaledPosterior
from widetail.process._traced import traced_posterior
from widetail.process._trained import Layers, Readout, TrainedLimit
from widetail.progress import Progress


@savable("process.ScaleMixture")
class ScaleMixture(eqx.Module):
    r"""A wide network whose readout variance has a prior: $f \mid \beta \sim GP(0, \beta \bar K)$, $\beta \sim H$.

    An inverse-gamma prior gives a Student-t process, a point mass the plain NNGP, any other prior its own scale
    mixture. Posteriors are exact and cost what a Gaussian process costs.

    A scale mixture learns how wide predictions should be; its location is that of the Gaussian process, so it is
    not by itself robust to outliers in y: `noise=wt.RowNoise(...)` is.

    Args:
        kernel: a network of `widetail.nn`, a kernel of `widetail.kernels`, or any function `k(x1, x2)` that returns
            a matrix.
        prior: prior of the readout variance.
        noise: `ScaledNoise` (inside the scale, conjugate), `IndependentNoise` (outside of it), `RowNoise` (inside,
            with a scale for every row: robust to outliers), or `InputNoise` (inside, a function of the input).
        scale_sharing: "shared" (one readout variance for all outputs) or "per_output".

    Example:
        >>> import numpy as np
        >>> import widetail as wt
        >>> from widetail import nn
        >>> net = nn.mlp(depth=2, activation="erf")
        >>> process = wt.ScaleMixture(net, prior=wt.InverseGamma(2.0, 2.0), noise=wt.ScaledNoise(1e-2))
        >>> x = np.linspace(-1.0, 1.0, 20)[:, None]
        >>> posterior = process.posterior(x, np.sin(3.0 * x[:, 0]))
        >>> posterior(np.array([[0.5]])).mean.round(1)
        array([1.])
    """

    kernel: Kernel | CallableKernel
    prior_scale: ScalePrior
    noise: Noise
    scale_sharing: ScaleSharing = eqx.field(static=True)

    def __init__(
        self,
        kernel: Any,
        prior: ScalePrior | None = None,
        noise: Noise | None = None,
        *,
        scale_sharing: ScaleSharing = "shared",
    ):
        self.kernel = as_kernel(kernel)
        self.prior_scale = InverseGamma(2.0, 2.0) if prior is None else prior
        self.noise = ScaledNoise() if noise is None else noise
        self.scale_sharing = scale_sharing
        if not isinstance(self.prior_scale, ScalePrior):
            raise ValueError(
                f"prior must be a prior of widetail, such as wt.InverseGamma(2.0, 2.0); got {prior!r}. "
                f"Wrap a scipy or numpyro distribution with wt.ScalePrior.wrap."
            )
        if not isinstance(self.noise, (ScaledNoise, IndependentNoise, RowNoise, InputNoise)):
            raise ValueError(
                f"noise must be wt.ScaledNoise(...), wt.IndependentNoise(...), wt.RowNoise(...) or wt.InputNoise(...); "
                f"got {noise!r}."
            )
        if scale_sharing not in get_args(ScaleSharing):
            raise ValueError(f"scale_sharing must be 'shared' or 'per_output'; got {scale_sharing!r}.")

    def saved_fields(self) -> dict[str, Any]:
        """What a file holds."""
        names = {"kernel": self.kernel, "prior": self.prior_scale, "noise": self.noise}
        return names | {"scale_sharing": self.scale_sharing}

    @classmethod
    def from_saved(cls, fields: dict[str, Any]) -> "ScaleMixture":
        """The process whose `saved_fields` these are."""
        return cls(**fields)

    def prior(self, x: Any) -> Predictive:
        """The law of the network's output at initialisation, at the rows of `x` (theorem 3.1)."""
        scale = scale_posterior(self.prior_scale)
        diagonal = np.asarray(self.kernel.diagonal(x, get="nngp").nngp, dtype=np.float64)
        return from_scale(
            scale, np.zeros(len(diagonal)), diagonal, lambda: as_double(self.kernel.kernel(x, get="nngp").nngp)
        )

    def posterior(
        self,
        x: Any,
        y: Any,
        method: Method = "auto",
        *,
        noise_weights: Any = None,
        counts: Any = None,
        key: PRNGKeyArray | Array | None = None,
        nodes: int = 64,
        draws: int = 1000,
        client: Any = None,
        store: Any = None,
        solver: Any = None,
        progress: Progress = False,
    ) -> Posterior:
        """Condition on observations.

        Costs one n x n kernel, one factorisation of it (n^3 / 3 operations with `ScaledNoise`, about ten times
        that with `IndependentNoise`) and its memory; the posterior of the scale costs next to nothing.

        Args:
            x: inputs, rows first.
            y: targets, shape (n,) or (n, outputs), in any units that the prior of the scale is meant for.
            method: how the scale is inferred: "closed", "quadrature", "importance" (with `key`), or "auto".
            noise_weights: factors of the noise variance, one per row.
            counts: how often each row was observed with this target; the same as repeating it, at no cost.
            key: random key, for method="importance".
            nodes: nodes of the quadrature; twice as many with `IndependentNoise`.
            draws: draws of the importance sampler.
            client: a `dask.distributed.Client`: the kernel and the solves are then those of its cluster, in tiles on
                disk, for n beyond the memory of one machine. With `IndependentNoise` only the kernel is.
            store: with `client`, a folder that the workers share, or a URL that fsspec knows; an interrupted call
                goes on where it stopped. A temporary folder of this machine by default.
            solver: with `client`, None for an exact factorisation, or `wt.distributed.ConjugateGradients(...)`.
            progress: True for bars on a terminal, or a function of (done, total): tiles of the kernel, then
                columns of its factor.
        """
        is_inferred = isinstance(self.noise, (RowNoise, InputNoise))
        if is_inferred and (client is not None or is_traced(self, x, y, noise_weights)):
            raise ValueError(
                f"noise=wt.{type(self.noise).__name__}(...): the noise of the rows is inferred on one machine, and not "
                f"inside of jit, grad or vmap; learn it first, and pass it to ScaledNoise as "
                f"noise_weights=posterior.noise_weights."
            )
        if progress and (is_inferred or client is not None):
            raise ValueError("progress is shown for ScaledNoise and IndependentNoise, without a cluster.")
        if is_traced(self, x, y, noise_weights):
            if not (method == "auto" and counts is None and client is None):
                raise ValueError("inside of jit, grad and vmap a posterior takes noise_weights and no other option.")
            return cast(Posterior, traced_posterior(self, x, y, noise_weights))  # it predicts like one
        y = check_targets(x, y)
        rows = RowFactors.of(len(y), check_noise_weights(noise_weights, len(y)), check_counts(counts, len(y)))
        inference = self._inference(method, nodes, draws=draws, key=key)
        if client is not None:
            return condition_on_cluster(
                self.kernel,
                self.prior_scale,
                float(self.noise.variance),
                inference,
                _as_rows(x),
                y,
                rows,
                ScaledPosterior if isinstance(self.noise, ScaledNoise) else IndependentPosterior,
                client,
                store,
                solver,
            )
        if store is not None or solver is not None:
            raise ValueError("store and solver are for a cluster: pass client=dask.distributed.Client(...) too.")
        return self.condition(_as_rows(x), y, rows, inference, progress=progress)

    def log_evidence(self, x: Any, y: Any, *, noise_weights: Any = None) -> Any:
        """Log density of the targets under the model, in nats: a pure function of the hyperparameters and the data.

        Works under `jit`, `grad` and `vmap`, so that any sampler or optimiser of JAX can have it; in float64 where
        `jax_enable_x64` is on, which it should be. A covariance that cannot be factored gives minus infinity there.

        Args:
            x: inputs, rows first.
            y: targets, shape (n,) or (n, outputs).
            noise_weights: factors of the noise variance, one per row.

        Example:
            >>> import jax, numpy as np, widetail as wt
            >>> x = np.linspace(-2.0, 2.0, 20)[:, None]
            >>> y = np.sin(3.0 * x[:, 0])
            >>> def loss(length):
            ...     return -wt.ScaleMixture(wt.kernels.RBF(length)).log_evidence(x, y)
            >>> with jax.enable_x64(True):
            ...     slope = jax.grad(loss)(1.0)
            >>> bool(slope > 0)  # a shorter length explains the sine better
            True
        """
        return self.posterior(x, y, noise_weights=noise_weights).log_evidence

    def condition(
        self,
        x: Any,
        y: np.ndarray,
        rows: RowFactors,
        inference: Inference | None = None,
        *,
        misfit: np.ndarray | None = None,
        start: NoiseStart | None = None,
        gain: float | None = None,
        progress: Progress = False,
    ) -> Posterior:
        """What `posterior` does once its arguments are checked, for callers that ask many times with the same data.

        Args:
            x: inputs, rows first.
            y: targets, as `check_targets` returns them.
            rows: noise factors and counts of the rows.
            inference: how the scale is inferred; as `posterior` does by default.
            misfit: with `RowNoise`, where the search for the scales of the rows starts (`RowLaw.misfit` of an earlier
                posterior); several starts by default.
            start: the same with `InputNoise` (`InputScales.start` of an earlier posterior).
            gain: with both of them, the step of the search that is the last, in nats per observation; fine by default.
            progress: as in `posterior`.
        """
        how = self._inference() if inference is None else inference
        if isinstance(self.noise, RowNoise):
            return RowPosterior.condition(self.kernel, self.prior_scale, self.noise, how, x, y, rows, misfit, gain)
        if isinstance(self.noise, InputNoise):
            return InputPosterior.condition(self.kernel, self.prior_scale, self.noise, how, x, y, rows, start, gain)
        kind = ScaledPosterior if isinstance(self.noise, ScaledNoise) else IndependentPosterior
        return kind.condition(self.kernel, self.prior_scale, float(self.noise.variance), how, x, y, rows, progress)

    def _inference(self, method: Method = "auto", nodes: int = 64, **options: Any) -> Inference:
        # A predictive with a location per node takes the nodes as they are, out into its tails: they must be denser.
        denser = 2 if isinstance(self.noise, IndependentNoise) else 1
        return Inference(method, self.scale_sharing, {"nodes": denser * nodes, **options})

    def trained(
        self, x: Any, y: Any, layers: Layers = "readout", time: float = math.inf, *, readout: Readout = "scaled"
    ) -> TrainedLimit:
        """The law of infinitely wide networks after gradient flow on the mean squared error.

        The readout variance keeps its prior: training does not condition it. At infinite time the targets are
        fitted exactly.

        Args:
            x: inputs, rows first.
            y: targets, shape (n,) or (n, outputs).
            layers: "readout" (theorem 3.2), or "all" (theorem 3.3; needs a network).
            time: training time; the loss is the mean over the rows of the squared error.
            readout: "scaled" for readout weights sqrt(beta) u with u trained, for which theorem 3.3 holds, or
                "direct" for weights v ~ N(0, beta) trained themselves. With "direct" and all layers the location
                depends on beta; this costs a factorisation per node of the scale.
        """
        if layers not in get_args(Layers):
            raise ValueError(f"layers must be 'readout' or 'all'; got {layers!r}.")
        if readout not in get_args(Readout):
            raise ValueError(f"readout must be 'scaled' or 'direct'; got {readout!r}.")
        if np.ndim(time) != 0:
            raise ValueError(f"time must be one number, or math.inf; call trained once for each of {time!r}.")
        if isinstance(time, str) or not time >= 0:
            raise ValueError(f"time must be zero or more; got {time!r}.")
        if layers == "all" and not self.kernel.has_ntk:
            raise ValueError(f"layers='all' needs a network with a tangent kernel; got {self.kernel!r}.")
        if self.scale_sharing == "per_output":
            raise ValueError("trained networks share one readout variance; use scale_sharing='shared'.")
        y = check_targets(x, y)
        values = self.kernel.kernel(x, get="nngp" if layers == "readout" else "both")
        nngp = as_double(values.nngp)
        hidden = None if layers == "readout" else as_double(values.ntk) - nngp
        scale = scale_posterior(self.prior_scale)
        return TrainedLimit(self.kernel, scale, layers, readout, float(time), _as_rows(x), y, nngp, hidden)

    def __repr__(self) -> str:
        shared = "" if self.scale_sharing == "shared" else f", scale_sharing={self.scale_sharing!r}"
        return f"ScaleMixture({self.kernel!r}, prior={self.prior_scale!r}, noise={self.noise!r}{shared})"


def _as_rows(x: Any) -> Any:
    return x if hasattr(x, "dtype") else np.asarray(x)
