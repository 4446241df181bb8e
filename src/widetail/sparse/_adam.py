"""Adam on minibatches through the kernel: for inducing inputs and hyperparameters that are trained."""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from widetail._progress import Progress, annotate, reporter
from widetail.finite._descent import DivergenceError
from widetail.kernels import Kernel
from widetail.learning._parameters import Parameters
from widetail.priors import PointMass
from widetail.process import ScaleMixture
from widetail.sparse._features import JITTER
from widetail.sparse._rows import TABLES, Nodes, _draws, normal_table
from widetail.sparse._scale import GridScale, InverseGammaScale, PointScale, ScaleLaw
from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Likelihood

NODES = 16
DRAWS = 16


@dataclasses.dataclass(frozen=True, eq=False)
class AdamFit:
    """What `train_adam` found.

    Attributes:
        kernel, inducing, likelihood, q: where it ended.
        bounds: estimates of the evidence lower bound, nats per row, the mean of every epoch.
    """

    kernel: Kernel
    inducing: np.ndarray
    likelihood: Likelihood
    q: Variational
    bounds: list[float]


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
    learning_rate: float = 0.01,
    batch_size: int = 256,
    epochs: int = 10,
    seed: int = 0,
    progress: Progress = False,
) -> AdamFit:
    """Maximise the bound over everything by Adam, each minibatch through the kernel.

    Slower than natural gradients on cached features by far; what it can do and they cannot is move inducing inputs and
    kernel hyperparameters. `train` from where it ends is a good last step.

    Args:
        kernel: where its hyperparameters start.
        inducing: where inducing inputs start, shape (M, ...).
        x: inputs, rows first; float32 or float64, which is the precision of the computation.
        y: targets of the likelihood.
        likelihood: where its learnable parameters start.
        q: where the posterior starts.
        counts: how often each row was observed, shape (n,); once by default.
        train_inputs, train_kernel: what is trained besides the posterior, the likelihood and the law of the scale.
        learning_rate: of Adam, for means, Cholesky factors, logarithms of parameters, and inducing inputs.
        batch_size: rows per step.
        epochs: passes through the data.
        seed: of the order of the rows.
        progress: True for a bar on a terminal, or a function of (steps done, steps in all).

    Raises:
        DivergenceError: the bound is NaN or infinite.
    """
    x = np.asarray(x)
    y = np.asarray(y)
    dtype = x.dtype
    y = y.astype(np.int32) if np.issubdtype(y.dtype, np.integer) else y.astype(dtype)
    counts = np.ones(len(x), dtype) if counts is None else np.asarray(counts, dtype)
    problem = _Problem(kernel, likelihood, q.law, len(x), train_kernel)
    fixed = {} if train_inputs else {"inducing": np.asarray(inducing, dtype)}
    parameters = problem.start(q) | ({"inducing": np.asarray(inducing, np.float64)} if train_inputs else {})
    size = min(batch_size, len(x))
    size = max(size - size % TABLES, TABLES) if likelihood.couples_outputs else size
    optimiser = optax.adam(learning_rate)
    rng = np.random.default_rng(seed)
    per_epoch = max(1, math.ceil(len(x) / size))
    report = reporter(progress, "adam")
    bounds: list[float] = []
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):  # optax is not written for the strict one
        parameters = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), parameters)
        state = optimiser.init(parameters)

        @jax.jit
        def step(parameters: Any, state: Any, x: Any, y: Any, counts: Any) -> Any:
            loss, gradient = jax.value_and_grad(lambda p: -problem.bound(p | fixed, x, y, counts))(parameters)
            updates, state = optimiser.update(gradient, state, parameters)
            return optax.apply_updates(parameters, updates), state, -loss

        for epoch in range(epochs):
            # whole minibatches only; rows that would fill up the last one are drawn from the start of the order
            order = np.resize(rng.permutation(len(x)), per_epoch * size)
            found = []
            for number in range(per_epoch):
                report(epoch * per_epoch + number, epochs * per_epoch)
                rows = order[number * size : (number + 1) * size]
                parameters, state, bound = step(parameters, state, x[rows], y[rows], counts[rows])
                found.append(float(bound))
            if not np.all(np.isfinite(found)):
                raise DivergenceError(
                    f"The bound is not finite in epoch {epoch + 1}; try a learning_rate below {learning_rate}."
                )
            bounds.append(float(np.mean(found)) / float(np.sum(counts, dtype=np.float64)))
            annotate(report, f"; bound {bounds[-1]:.4f}")
        report(epochs * per_epoch, epochs * per_epoch)
        final = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), parameters)
    return AdamFit(
        kernel=problem.kernel_of(final["kernel"]) if train_kernel else kernel,
        inducing=np.asarray(final.get("inducing", inducing), np.float64),
        likelihood=problem.likelihood_of(final["likelihood"], float),
        q=problem.variational_of(final),
        bounds=bounds,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _Problem:
    """From a dictionary of parameters to a bound, and back to objects."""

    kernel: Kernel
    likelihood: Likelihood
    law: ScaleLaw
    rows: int
    train_kernel: bool

    def start(self, q: Variational) -> dict[str, Any]:
        factor = np.linalg.cholesky(q.covariance)
        diagonal = np.diagonal(factor, axis1=1, axis2=2)
        return {
            "mean": q.mean,
            "below": np.tril(factor, -1),
            "log_diagonal": np.log(diagonal),
            "law": _law_parameters(self.law),
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
        q = Variational(final["mean"], factor, factor, _law_of(self.law, final["law"]))
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
        variance = jnp.sum(projected**2, axis=-1) + residual[:, None]
        scales, weights, mean_precision, divergence = _law_terms(self.law, parameters["law"], dtype)
        outputs = len(mean)
        if likelihood.couples_outputs:
            draws = max(1, DRAWS // len(scales))
            table = jnp.asarray(normal_table(len(scales), draws, outputs, 0), dtype)
        else:
            table = jnp.zeros((len(scales), 1, 0, outputs), dtype)
        z = _draws(Nodes(scales, weights, table), len(x))
        per_node = jax.vmap(lambda scale, z: likelihood.expected_log_prob(features @ mean.T, variance, y, scale, z))(
            scales, z
        )
        expected = jnp.sum((weights @ per_node) * counts) * (self.rows / len(x))
        spread = jnp.sum(root**2) - 2 * jnp.sum(parameters["log_diagonal"]) - mean.size
        return expected - 0.5 * (mean_precision * jnp.sum(mean**2) + spread) - divergence


def _nngp(kernel: Kernel, x1: Any, x2: Any) -> Any:
    """The kernel matrix inside of a transformation; constants are made tracers by the caller's arguments."""
    rows_fn, cross_fn = kernel.rows_fn("nngp"), kernel.cross_fn("nngp")
    first = rows_fn(x1)
    if x2 is not None:
        return cross_fn(first, rows_fn(x2)).nngp
    values = cross_fn(first, first).nngp
    on_diagonal = np.diag_indices(x1.shape[0])
    return values.at[on_diagonal].set(first.diagonal.nngp)


def _law_parameters(law: ScaleLaw) -> dict[str, Any]:
    if isinstance(law, PointScale):
        return {"log_value": np.log(law.value)} if law.learn else {}
    if isinstance(law, InverseGammaScale):
        return {"log_a": np.log(law.a)} | ({} if law.is_held else {"log_b": np.log(law.b)})
    assert isinstance(law, GridScale)
    return {} if law.is_held else {"logits": np.log(np.maximum(law.weights, 1e-30))}


def _law_of(law: ScaleLaw, parameters: dict[str, Any]) -> ScaleLaw:
    if isinstance(law, PointScale):
        return PointScale(float(np.exp(parameters["log_value"])), learn=True) if law.learn else law
    if isinstance(law, InverseGammaScale):
        a = float(np.exp(parameters["log_a"]))
        b = a / law.mean_precision if law.is_held else float(np.exp(parameters["log_b"]))
        return dataclasses.replace(law, a=a, b=b)
    assert isinstance(law, GridScale)
    if law.is_held:
        return law
    logits = parameters["logits"] - np.max(parameters["logits"])
    return dataclasses.replace(law, weights=np.exp(logits) / np.sum(np.exp(logits)))


def _law_terms(law: ScaleLaw, parameters: dict[str, Any], dtype: Any) -> tuple[Any, Any, Any, Any]:
    """Scales, probabilities, expected precision and divergence, differentiable in the parameters."""
    if isinstance(law, PointScale):
        scale = jnp.exp(parameters["log_value"]) if law.learn else jnp.asarray(law.value, dtype)
        return scale[None], jnp.ones(1, dtype), 1 / scale, jnp.zeros((), dtype)
    if isinstance(law, InverseGammaScale):
        a = jnp.exp(parameters["log_a"])
        b = a / law.mean_precision if law.is_held else jnp.exp(parameters["log_b"])
        # the nodes stand still while their weights carry the derivatives
        width = 6 * jax.lax.rsqrt(jax.lax.stop_gradient(a))
        centre = jax.lax.stop_gradient(jnp.log(b / a))
        t = centre + jnp.linspace(-1.0, 1.0, NODES, dtype=dtype) * jnp.minimum(width, 8.0)
        weights = jax.nn.softmax(a * (jnp.log(b) - t) - jnp.exp(jnp.log(b) - t))
        a0, b0 = jnp.asarray(law.prior_a, dtype), jnp.asarray(law.prior_b, dtype)
        gammaln, digamma = jax.scipy.special.gammaln, jax.scipy.special.digamma
        divergence = (a - a0) * digamma(a) - gammaln(a) + gammaln(a0) + a0 * jnp.log(b / b0) + a * (b0 - b) / b
        return jnp.exp(t), weights, a / b, divergence
    assert isinstance(law, GridScale)
    scales = jnp.asarray(np.exp(law.log_scales), dtype)
    # a law on a grid that is held keeps its weights: their constraint has no simple coordinates
    logits = parameters.get("logits", np.log(np.maximum(law.weights, 1e-30)))
    log_weights = jax.nn.log_softmax(jnp.asarray(logits, dtype))
    weights = jnp.exp(log_weights)
    divergence = jnp.sum(weights * (log_weights - jnp.asarray(np.maximum(law.log_prior, -1e4), dtype)))
    return scales, weights, jnp.sum(weights / scales), divergence
