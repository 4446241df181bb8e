"""Adam on minibatches through the kernel: for inducing inputs and hyperparameters that are trained."""

import dataclasses
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from widetail.files import fingerprint
from widetail.kernels import Kernel
from widetail.learning import Parameters
from widetail.priors import PointMass
from widetail.process import ScaleMixture
from widetail.progress import Progress
from widetail.sparse._draws import DRAWS, Nodes, draws_for, normal_table
from widetail.sparse._features import JITTER
from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Likelihood
from widetail.sparse.scales import ScaleLaw
from widetail.sparse.training._epochs import Epochs


@dataclasses.dataclass(frozen=True, eq=False)
class AdamFit:
    """What `train_adam` found.

    Attributes:
        kernel, inducing, likelihood, q: where it ended, or where the log score of held-out rows was best.
        bounds: estimates of the evidence lower bound, nats per row, the mean of every epoch.
        scores: validation log score after every epoch; empty without validation data.
        seconds: wall time, of this run only if it was resumed.
    """

    kernel: Kernel
    inducing: np.ndarray
    likelihood: Likelihood
    q: Variational
    bounds: list[float]
    scores: list[float]
    seconds: float


def train_adam(
    kernel: Kernel,
    inducing: Any,
    x: Any,
    y: Any,
    likelihood: Likelihood,
    q: Variational,
    *,
    counts: Any = None,
    train_inputs: bool = False,
    train_kernel: bool = False,
    residual_share: float = 1.0,
    learning_rate: float = 0.01,
    batch_size: int = 256,
    epochs: int = 10,
    seed: int = 0,
    validate: Callable[[AdamFit], float] | None = None,
    patience: int = 5,
    checkpoint: str | Path | None = None,
    progress: Progress = False,
) -> AdamFit:
    """Maximise the bound over everything by Adam, each minibatch through the kernel.

    Much slower than natural gradients on cached features, but it can also train inducing inputs and kernel
    hyperparameters. `train` from where it ends is a good last step.

    Args:
        kernel: where its hyperparameters start.
        inducing: where inducing inputs start, shape (M, ...).
        x: inputs, rows first; float32 or float64, which is the precision of the computation.
        y: targets of the likelihood.
        likelihood: where its learnable parameters start.
        q: where the posterior starts.
        counts: how often each row was observed, shape (n,); once by default.
        train_inputs, train_kernel: what is trained besides the posterior, the likelihood and the law of the scale.
        residual_share: how much of the residual variance is part of the model.
        learning_rate: of Adam, for means, Cholesky factors, logarithms of parameters, and inducing inputs.
        batch_size: rows per step.
        epochs: passes through the data, at most.
        seed: of the order of the rows.
        validate: log score of held-out rows after an epoch; the best epoch is kept, and training ends after `patience`
            epochs without a better one.
        patience: see `validate`.
        checkpoint: a file that is written after every epoch; if it is there already, training resumes from it.
        progress: True for a bar on a terminal, or a function of (steps done, steps in all).

    Raises:
        DivergenceError: the bound or a score is NaN or infinite.
    """
    began = time.monotonic()
    x, y = np.asarray(x), np.asarray(y)
    dtype = x.dtype
    y = y.astype(np.int32) if np.issubdtype(y.dtype, np.integer) else y.astype(dtype)
    counts = np.ones(len(x), dtype) if counts is None else np.asarray(counts, dtype)
    inducing = np.asarray(inducing, np.float64)
    observations = float(np.sum(counts, dtype=np.float64))
    problem = _Problem(kernel, likelihood, q.law, len(x), train_kernel, residual_share)
    fixed = {} if train_inputs else {"inducing": inducing.astype(dtype)}
    start = problem.start(q) | ({"inducing": inducing} if train_inputs else {})
    plan = Epochs(
        label="adam",
        rows=len(x),
        are_shuffled=False,
        batch_size=min(batch_size, len(x)),
        epochs=epochs,
        seed=seed,
        patience=patience,
        observations=observations,
        progress=progress,
        checkpoint=checkpoint,
        identity="" if checkpoint is None else fingerprint(
            kernel, inducing, x, y, counts, likelihood, q, train_inputs, train_kernel, residual_share, learning_rate,
            batch_size, seed, validate is None,
        ),
    )  # fmt: skip
    optimiser = optax.adam(learning_rate)

    @jax.jit
    def step(parameters: Any, state: Any, x: Any, y: Any, counts: Any) -> Any:
        loss, gradient = jax.value_and_grad(lambda p: -problem.bound(p | fixed, x, y, counts))(parameters)
        updates, state = optimiser.update(gradient, state, parameters)
        return (optax.apply_updates(parameters, updates), state), -loss

    def fit_of(state: Any, bounds: list[float], scores: list[float]) -> AdamFit:
        final = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), state[0])
        return AdamFit(
            kernel=problem.kernel_of(final["kernel"]) if train_kernel else kernel,
            inducing=final.get("inducing", inducing),
            likelihood=problem.likelihood_of(final["likelihood"], float),
            q=problem.variational_of(final),
            bounds=[bound / observations for bound in bounds],
            scores=scores,
            seconds=time.monotonic() - began,
        )

    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):  # optax is not written for the strict one
        parameters = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), start)
        course = plan.run(
            (parameters, optimiser.init(parameters)),
            lambda state, rows, _: step(*state, x[rows], y[rows], counts[rows]),
            advice=f"try a learning_rate below {learning_rate}",
            score=None if validate is None else lambda state: validate(fit_of(state, [], [])),
        )
        return fit_of(course.best, course.bounds, course.scores)


@dataclasses.dataclass(frozen=True, eq=False)
class _Problem:
    """From a dictionary of parameters to a bound, and back to objects."""

    kernel: Kernel
    likelihood: Likelihood
    law: ScaleLaw
    rows: int
    train_kernel: bool
    residual_share: float

    def start(self, q: Variational) -> dict[str, Any]:
        factor = np.linalg.cholesky(q.covariance)
        diagonal = np.diagonal(factor, axis1=1, axis2=2)
        return {
            "mean": q.mean,
            "below": np.tril(factor, -1),
            "log_diagonal": np.log(diagonal),
            "law": self.law.coordinates(),
            "likelihood": {name: math.log(getattr(self.likelihood, name)) for name in self.likelihood.learnable},
            "kernel": self._slots().start() if self.train_kernel else np.zeros(0),
        }

    def _slots(self) -> Parameters:
        return Parameters(ScaleMixture(self.kernel, PointMass(1.0)), ("kernel",))

    def kernel_of(self, logs: Any) -> Kernel:
        leaves, structure = jax.tree.flatten(self.kernel)
        place = 0
        for slot in self._slots().slots:
            values = (jnp if isinstance(logs, jax.Array) else np).exp(logs[place : place + slot.size])
            is_number = np.ndim(leaves[slot.index]) == 0
            value = values[0] if is_number else values
            leaves[slot.index] = float(value) if is_number and isinstance(value, np.floating) else value
            place += slot.size
        return jax.tree.unflatten(structure, leaves)

    def likelihood_of(self, logs: dict[str, Any], convert: Any) -> Likelihood:
        if not logs:
            return self.likelihood
        names = tuple(logs)
        values = [convert(jnp.exp(logs[name])) for name in names]
        return eqx.tree_at(lambda own: [getattr(own, name) for name in names], self.likelihood, values)

    def variational_of(self, final: dict[str, Any]) -> Variational:
        factor = final["below"] + np.eye(final["mean"].shape[1]) * np.exp(final["log_diagonal"])[:, None]
        factor = np.tril(factor)
        inverse = np.linalg.inv(factor)
        q = Variational(final["mean"], factor, factor, self.law.at(final["law"]))
        return q.with_precision(np.swapaxes(inverse, 1, 2) @ inverse)

    def bound(self, parameters: dict[str, Any], x: Any, y: Any, counts: Any) -> Any:
        """An estimate of the bound from one minibatch."""
        mean, inducing = parameters["mean"], parameters["inducing"]
        dtype = mean.dtype
        count = mean.shape[1]
        kernel = self.kernel_of(parameters["kernel"]) if self.train_kernel else self.kernel
        likelihood = self.likelihood_of(parameters["likelihood"], lambda value: value)
        own = _nngp(kernel, jnp.asarray(inducing), None)
        jitter = JITTER[str(dtype)] * jnp.mean(jnp.diagonal(own))
        factor = jnp.linalg.cholesky(own + jitter * jnp.eye(count, dtype=dtype))
        cross = _nngp(kernel, jnp.asarray(inducing), x)
        features = jax.scipy.linalg.solve_triangular(factor, cross, lower=True).T
        diagonal = kernel.rows_fn("nngp")(x).diagonal.nngp
        below = jnp.tril(parameters["below"], -1)
        root = below + jnp.eye(count, dtype=dtype) * jnp.exp(parameters["log_diagonal"])[:, None]
        projected = jnp.einsum("bm,cmk->bck", features, root)
        residual = jnp.maximum(diagonal - jnp.sum(features**2, axis=1), 0)
        variance = jnp.sum(projected**2, axis=-1) + self.residual_share * residual[:, None]
        scales, weights, mean_precision, divergence = self.law.terms(parameters["law"], dtype)
        outputs = len(mean)
        if likelihood.couples_outputs:
            draws = max(1, DRAWS // len(scales))
            table = jnp.asarray(normal_table(len(scales), draws, outputs, 0), dtype)
        else:
            table = jnp.zeros((len(scales), 1, 0, outputs), dtype)
        z = draws_for(Nodes(scales, weights, table), len(x))
        per_node = jax.vmap(lambda scale, z: likelihood.expected_log_prob(features @ mean.T, variance, y, scale, z))(
            scales, z
        )
        expected = jnp.sum((weights @ per_node) * counts) * (self.rows / len(x))
        spread = jnp.sum(root**2) - 2 * jnp.sum(parameters["log_diagonal"]) - mean.size
        return expected - 0.5 * (mean_precision * jnp.sum(mean**2) + spread) - divergence


def _nngp(kernel: Kernel, x1: Any, x2: Any) -> Any:
    """The kernel matrix in one piece, without the engine's tiles, for functions that are differentiated."""
    rows_fn, cross_fn = kernel.rows_fn("nngp"), kernel.cross_fn("nngp")
    first = rows_fn(x1)
    if x2 is not None:
        return cross_fn(first, rows_fn(x2)).nngp
    values = cross_fn(first, first).nngp
    on_diagonal = np.diag_indices(x1.shape[0])
    return values.at[on_diagonal].set(first.diagonal.nngp)
